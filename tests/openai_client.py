"""Drives a gateway with the official OpenAI client, as an application would.

usage: openai_client.py BASE_URL MODEL

Prints one line of JSON for each thing tried; the test beside this file checks them. Any exception that is not
the one expected ends the script with a traceback, which the test shows.
"""

import json
import sys

import openai


def show(what, **facts):
    print(json.dumps({"what": what, **facts}), flush=True)


def main(base_url, model):
    # No retries: each error below must be the first answer.
    client = openai.OpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=20)
    messages = [{"role": "user", "content": "Say something about gateways."}]

    chat = client.chat.completions.create(model=model, messages=messages)
    show("chat", role=chat.choices[0].message.role, text=chat.choices[0].message.content,
         tokens=chat.usage.total_tokens)

    raw = client.chat.completions.with_raw_response.create(model=model, messages=messages)
    show("headers", request_id=raw.headers["x-request-id"], backend=raw.headers["x-inference-server-id"],
         text=raw.parse().choices[0].message.content)

    chunks = list(client.chat.completions.create(
        model=model, messages=messages, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    finish = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    show("stream", chunks=len(chunks), text=text, finish=finish)

    embedding = client.embeddings.create(model=model, input=["one", "two"], encoding_format="float")
    show("embeddings", count=len(embedding.data), dimensions=len(embedding.data[0].embedding))

    show("models", ids=[listed.id for listed in client.models.list()])

    try:
        client.chat.completions.create(model="no-such-model", messages=messages)
    except openai.NotFoundError as error:
        show("error", status=error.status_code, code=error.code, message=error.message)

    # An error within a stream must reach the application, too.
    try:
        for _ in client.chat.completions.create(
                model=model, messages=messages, stream=True, extra_headers={"x-request-id": "dies-mid-stream"}):
            pass
        show("stream_end", error=None)
    except openai.APIError as error:
        show("stream_end", error=error.message, code=error.code)


if __name__ == "__main__":
    main(*sys.argv[1:])
