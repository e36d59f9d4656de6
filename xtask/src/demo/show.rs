//! The requests of the demo, the table of their answers, and what must be true of it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::fleet::{ENGINES, Fleet, MODEL};

/// Turns of the conversation that keeps its key.
const TURNS: usize = 4;

/// Other conversations, at most: enough that three engines without one would be a fault (chance below 1e-9).
const OTHERS_MAX: usize = 60;

/// Other conversations shown at least.
const OTHERS_MIN: usize = 6;

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// One answer.
#[derive(Debug)]
struct Answer {
    served_by: String,
    prompt_tokens: u64,
    cached_tokens: u64,
    took: Duration,
}

/// Sends the requests, prints the table, and checks that a key stays with one engine and all engines serve.
pub(super) fn requests(fleet: &Fleet) -> Result<()> {
    println!(
        "\n{:<22} {:<10} {:>13} {:>12} {:>8}",
        "affinity key", "served by", "prompt tokens", "from cache", "ms"
    );
    let mut conversation = vec![json!({ "role": "system", "content": lines_about("the demo", 60) })];
    let mut hosts = BTreeSet::new();
    for turn in 1..=TURNS {
        conversation
            .push(json!({ "role": "user", "content": format!("Question {turn}: {}", lines_about("it", 5)) }));
        let answer = ask(fleet, "alice", &conversation)?;
        print_row("alice", &answer);
        ensure!(
            turn == 1 || answer.cached_tokens > 0,
            "turn {turn} of one conversation found nothing in {}'s cache",
            answer.served_by
        );
        hosts.insert(answer.served_by);
    }
    ensure!(hosts.len() == 1, "one key was served by {hosts:?}");

    for number in 1..=OTHERS_MAX {
        let key = format!("visitor-{number}");
        let prompt = [json!({ "role": "user", "content": lines_about(&key, 20) })];
        let answer = ask(fleet, &key, &prompt)?;
        print_row(&key, &answer);
        hosts.insert(answer.served_by);
        if number >= OTHERS_MIN && hosts.len() == ENGINES.len() {
            break;
        }
    }
    ensure!(hosts.len() == ENGINES.len(), "only {hosts:?} have served anything");
    println!(
        "\nalice's turns all went to one engine, which had her prefix; the others' keys spread over all three."
    );
    Ok(())
}

/// Prints what can be tried while everything runs.
pub(super) fn invitation(fleet: &Fleet) {
    let Fleet { url, admin_url, log_dir, .. } = fleet;
    println!(
        "
Running until Ctrl-C:
  clients        {url}/v1
  control plane  {admin_url}/api/v1/backends  /api/v1/clusters  /api/v1/snapshot
  metrics        {admin_url}/metrics
  logs           {}

Try:
  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{\"model\":\"{MODEL}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'
  curl {url}/v1/models",
        log_dir.display()
    );
}

fn ask(fleet: &Fleet, key: &str, messages: &[Value]) -> Result<Answer> {
    let body = json!({ "model": MODEL, "messages": messages, "max_tokens": 8 });
    let start = Instant::now();
    let mut response = ureq::post(format!("{}/v1/chat/completions", fleet.url))
        .config()
        .timeout_global(Some(ANSWER_MAX))
        .build()
        .header("x-cache-affinity-key", key)
        .content_type("application/json")
        .send(body.to_string())
        .with_context(|| format!("{key} got no answer; see {}", fleet.log_dir.display()))?;
    let answer: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
    let took = start.elapsed();
    let served_by =
        response.headers().get("x-inference-server-id").context("nobody is named")?.to_str()?.to_owned();
    let usage = &answer["usage"];
    let prompt_tokens = usage["prompt_tokens"].as_u64().with_context(|| format!("no usage in {answer}"))?;
    let cached_tokens = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    Ok(Answer { served_by, prompt_tokens, cached_tokens, took })
}

fn print_row(key: &str, answer: &Answer) {
    let Answer { served_by, prompt_tokens, cached_tokens, took } = answer;
    let share = 100 * cached_tokens / (*prompt_tokens).max(1);
    println!(
        "{key:<22} {served_by:<10} {prompt_tokens:>13} {:>12} {:>8}",
        format!("{cached_tokens} ({share} %)"),
        took.as_millis()
    );
}

fn lines_about(subject: &str, count: usize) -> String {
    format!("There is something to say about {subject}. ").repeat(count)
}
