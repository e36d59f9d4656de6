//! `POST /v1/…`: reads what is asked for, runs it through the engine, and writes the answer, whole or streamed.
//!
//! The client is watched in every phase: when it leaves, the ticket is dropped and its slot is free at once.

use std::{io, rc::Rc, time::Duration};

use super::{
    answer::{Answer, Next, append_head_start, append_length},
    api::{Api, Facts, embeddings, rerank},
    engine::{Engine, Ticket},
    faults::{Ending, Kind},
    intake::{Intake, Request},
    output::{Drip, Output, append_chunk},
    prompt::{Prompt, affinity_hash},
};

/// What the `garbage` fault answers: it begins like nothing that HTTP knows.
pub(crate) const GARBAGE: &[u8] = b"\x16\x03\x01 this is not HTTP\r\n\x00\xff\r\n\r\n";

/// An endpoint under `/v1/`.
#[derive(Clone, Copy)]
enum Endpoint {
    Generate(Api),
    Embeddings,
    Rerank,
}

/// A request that the engine took in.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the request")]
struct Job<'a> {
    endpoint: Endpoint,
    ticket: Ticket,
    model: &'a str,
    body: &'a [u8],
    stream: bool,
    include_usage: bool,
    /// Whether the caller limited the answer.
    limited: bool,
    takes_chunked: bool,
    close: bool,
}

/// What the `die_mid_stream` fault left of an answer.
enum Written {
    Whole,
    Cut(Ending),
}

/// Answers one inference request.
pub(crate) async fn respond(
    engine: &Rc<Engine>,
    intake: &mut Intake,
    output: &mut Output,
    request: &Request,
) -> Next {
    engine.journal.borrow_mut().arrived(request.head_bytes(), request.body());
    let fault = engine.faults.take_inference();
    if let Some(Kind::Status { status, headers, body }) = &fault {
        let answer = status_fault(*status, headers, body.as_deref());
        return reject(engine, output, request, &answer).await;
    }
    let job = match take_in(engine, request) {
        Ok(job) => job,
        Err(answer) => return reject(engine, output, request, &answer).await,
    };
    if let Some(Kind::SlowDrip { bytes, interval_ms }) = fault {
        output.set_drip(Some(drip(bytes, interval_ms)));
    }
    let next = match fault {
        Some(Kind::HangBeforeHeaders {}) => hang(engine, intake, output, job, false).await,
        Some(Kind::HangAfterHeaders {}) => hang(engine, intake, output, job, true).await,
        Some(Kind::Garbage {}) => {
            // The connection ends whether or not the client still reads.
            let _ = output.send(GARBAGE.to_vec()).await;
            job.ticket.fail();
            Next::Close
        }
        fault => run(engine, intake, output, job, fault).await,
    };
    output.set_drip(None);
    next
}

/// The pace of the `slow_drip` fault.
pub(crate) fn drip(bytes: usize, interval_ms: u64) -> Drip {
    Drip { bytes, interval: Duration::from_millis(interval_ms) }
}

/// The answer of the `status` fault.
pub(crate) fn status_fault(status: u16, headers: &[(String, String)], body: Option<&str>) -> Answer {
    let mut answer = match body {
        Some(body) => Answer::with_status(status, body.as_bytes().to_vec()),
        None => Answer::error(status, "mock_fault", "this engine was asked to fail"),
    };
    answer.headers.extend_from_slice(headers);
    answer
}

async fn reject(engine: &Engine, output: &mut Output, request: &Request, answer: &Answer) -> Next {
    let mut wire = output.buffer();
    answer.append(&engine.settings.id, !request.head.keep_alive, false, &mut wire);
    if output.send(wire).await.is_ok() { Next::Keep } else { Next::Close }
}

/// Understands the request and takes its place in the engine.
fn take_in<'a>(engine: &'a Rc<Engine>, request: &'a Request) -> Result<Job<'a>, Answer> {
    let endpoint = match (Api::at(request.path()), request.path()) {
        (Some(api), _) => Endpoint::Generate(api),
        (None, b"/v1/embeddings") => Endpoint::Embeddings,
        (None, b"/v1/rerank") => Endpoint::Rerank,
        (None, path) => {
            let message = format!("nothing at {}", String::from_utf8_lossy(path));
            return Err(Answer::error(404, "not_found", &message));
        }
    };
    let head = &request.head;
    let named = request.header(head.model.as_ref());
    let prompt = match Prompt::parse(request.body()) {
        Ok(prompt) => prompt,
        // A router knew the model without this body: its fields are not what matters then.
        Err(_) if named.is_some() => Prompt::default(),
        Err(error) => {
            return Err(Answer::error(400, "invalid_json", &format!("cannot read the body: {error}")));
        }
    };
    let asked = prompt.model.as_deref().map(str::as_bytes).or(named);
    let models = &engine.settings.models;
    let Some(model) =
        asked.map_or(models.first(), |asked| models.iter().find(|model| model.as_bytes() == asked))
    else {
        let asked = String::from_utf8_lossy(asked.unwrap_or_default());
        return Err(Answer::error(404, "model_not_found", &format!("this engine does not serve {asked}")));
    };
    let cache_key =
        request.header(head.affinity_key.as_ref()).map_or_else(|| prompt.leading_hash(), affinity_hash);
    let input_tokens = head.input_tokens.unwrap_or_else(|| prompt.input_tokens()).max(1);
    let output_tokens = match endpoint {
        Endpoint::Generate(_) => prompt.output_tokens().unwrap_or(engine.settings.output_tokens),
        Endpoint::Embeddings | Endpoint::Rerank => 0,
    };
    let Ok(ticket) = engine.start(cache_key, input_tokens, output_tokens, head.decode_tps) else {
        return Err(Answer::error(429, "queue_full", "too many requests wait for this engine")
            .header("retry-after", "1"));
    };
    if let Some(id) = request.header(head.request_id.as_ref()) {
        engine.journal.borrow_mut().started(id);
    }
    Ok(Job {
        endpoint,
        ticket,
        model,
        body: request.body(),
        stream: prompt.stream(),
        include_usage: prompt.include_usage(),
        limited: prompt.output_tokens().is_some(),
        takes_chunked: head.takes_chunked,
        close: !head.keep_alive,
    })
}

/// The fault that runs a request and never finishes its answer.
async fn hang(
    engine: &Engine,
    intake: &mut Intake,
    output: &mut Output,
    mut job: Job<'_>,
    with_head: bool,
) -> Next {
    // It ends when the client leaves, which drops the ticket as cancelled.
    let _ = intake
        .attended(async {
            job.ticket.prefill().await;
            if with_head {
                let mut wire = output.buffer();
                if job.stream {
                    job.append_stream_head(engine, &mut wire);
                } else {
                    append_head_start(200, &engine.settings.id, "application/json", job.close, &mut wire);
                    // Any length will do for a body that never comes.
                    append_length(256, &mut wire);
                }
                output.send(wire).await?;
            }
            std::future::pending::<io::Result<()>>().await
        })
        .await;
    Next::Close
}

async fn run(
    engine: &Rc<Engine>,
    intake: &mut Intake,
    output: &mut Output,
    mut job: Job<'_>,
    fault: Option<Kind>,
) -> Next {
    let written = if let (Endpoint::Generate(api), true) = (job.endpoint, job.stream) {
        match intake.attended(job.write_stream(api, engine, output, fault.as_ref())).await {
            Ok(Ok(written)) => written,
            // Gone, seen by the watch or by a write: the ticket is dropped as cancelled.
            Ok(Err(_)) | Err(_) => return Next::Close,
        }
    } else {
        // Answers that take no time are ready at the first poll, and no watch is armed.
        if intake.attended(job.generate()).await.is_err() {
            return Next::Close;
        }
        match job.write_whole(engine, intake, output, fault.as_ref()).await {
            Ok(written) => written,
            Err(_) => return Next::Close,
        }
    };
    match written {
        Written::Cut(ending) => {
            job.ticket.fail();
            if ending == Ending::Rst { Next::Reset } else { Next::Close }
        }
        Written::Whole => {
            let unchunked_stream = job.stream && !job.takes_chunked;
            job.ticket.complete();
            if unchunked_stream || fault == Some(Kind::CloseAfterResponse {}) {
                Next::Close
            } else {
                Next::Keep
            }
        }
    }
}

// === impl Job ===

impl Job<'_> {
    /// Spends the time of an answer that is not streamed.
    async fn generate(&mut self) {
        self.ticket.prefill().await;
        self.ticket.decode_until(self.ticket.pace().last_of(self.ticket.output_tokens)).await;
        self.ticket.produced(self.ticket.output_tokens);
    }

    async fn write_whole(
        &mut self,
        engine: &Engine,
        intake: &mut Intake,
        output: &mut Output,
        fault: Option<&Kind>,
    ) -> io::Result<Written> {
        let mut body = Vec::with_capacity(512);
        let failure = match self.endpoint {
            Endpoint::Generate(api) => {
                let model = quoted(self.model);
                api.whole(&self.facts(&model), self.ticket.words(), &mut body);
                None
            }
            Endpoint::Embeddings => {
                append_value(embeddings::answer(self.body, self.model, self.ticket.input_tokens), &mut body)
            }
            Endpoint::Rerank => {
                let (ordinal, tokens) = (self.ticket.ordinal, self.ticket.input_tokens);
                append_value(rerank::answer(self.body, self.model, ordinal, tokens), &mut body)
            }
        };
        let mut wire = output.buffer();
        if let Some(message) = failure {
            Answer::error(400, "invalid_request", &message).append(
                &engine.settings.id,
                self.close,
                false,
                &mut wire,
            );
        } else {
            append_head_start(200, &engine.settings.id, "application/json", self.close, &mut wire);
            append_length(body.len(), &mut wire);
            wire.extend_from_slice(&body);
        }
        if let Some(Kind::DieMidStream { how, .. }) = fault {
            wire.truncate(wire.len() - body.len().div_ceil(2));
            output.send(wire).await?;
            return Ok(Written::Cut(*how));
        }
        if matches!(fault, Some(Kind::SlowDrip { .. })) {
            // It takes long enough for a client to leave meanwhile.
            let sent = intake.attended(output.send(wire)).await;
            sent.map_err(|_| io::ErrorKind::ConnectionReset)??;
        } else {
            output.send(wire).await?;
        }
        Ok(Written::Whole)
    }

    async fn write_stream(
        &mut self,
        api: Api,
        engine: &Engine,
        output: &mut Output,
        fault: Option<&Kind>,
    ) -> io::Result<Written> {
        self.ticket.prefill().await;
        let model = quoted(self.model);
        let facts = self.facts(&model);
        let dies = match fault {
            Some(Kind::DieMidStream { after_chunks, how }) => Some((*after_chunks, *how)),
            _ => None,
        };
        let mut wire = output.buffer();
        self.append_stream_head(engine, &mut wire);
        let mut event = Vec::with_capacity(256);
        api.opening(&facts, &mut event);
        append_chunk(&mut wire, &event, self.takes_chunked);
        output.send(wire).await?;

        let mut words = self.ticket.words();
        let mut pace = self.ticket.pace();
        for index in 0..self.ticket.output_tokens {
            if let Some((after, how)) = dies.filter(|(after, _)| *after == index) {
                debug_assert_eq!(after, index);
                return Ok(Written::Cut(how));
            }
            self.ticket.decode_until(pace.next_token()).await;
            event.clear();
            api.token(&facts, index, words.next_word(), &mut event);
            output.send_chunk(&event, self.takes_chunked).await?;
            self.ticket.produced(1);
        }
        if let Some((_, how)) = dies {
            return Ok(Written::Cut(how));
        }
        event.clear();
        api.closing(&facts, self.ticket.words(), &mut event);
        output.send_chunk(&event, self.takes_chunked).await?;
        let mut wire = output.buffer();
        append_chunk(&mut wire, api.end_marker().as_bytes(), self.takes_chunked);
        if self.takes_chunked {
            wire.extend_from_slice(b"0\r\n\r\n");
        }
        output.send(wire).await?;
        Ok(Written::Whole)
    }

    fn append_stream_head(&self, engine: &Engine, wire: &mut Vec<u8>) {
        let close = self.close || !self.takes_chunked;
        append_head_start(200, &engine.settings.id, "text/event-stream", close, wire);
        wire.extend_from_slice(b"cache-control: no-cache\r\n");
        if self.takes_chunked {
            wire.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        wire.extend_from_slice(b"\r\n");
    }

    fn facts<'b>(&self, model: &'b str) -> Facts<'b> {
        Facts {
            model,
            ordinal: self.ticket.ordinal,
            created: self.ticket.created,
            input_tokens: self.ticket.input_tokens,
            cached_tokens: self.ticket.cached_tokens,
            output_tokens: self.ticket.output_tokens,
            truncated: self.limited,
            include_usage: self.include_usage,
        }
    }
}

/// A name as a JSON string.
fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// Appends an answer, or returns what was wrong with the request.
fn append_value(answer: Result<serde_json::Value, String>, body: &mut Vec<u8>) -> Option<String> {
    match answer {
        Ok(value) => {
            body.extend_from_slice(value.to_string().as_bytes());
            None
        }
        Err(message) => Some(message),
    }
}
