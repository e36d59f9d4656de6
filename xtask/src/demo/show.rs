//! The requests of the demo, the table of their answers, and what must be true of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::fleet::{ENGINES, Fleet, MODEL};

/// Turns of the conversation that keeps its key.
const TURNS: usize = 4;

/// Keys of other conversations. A key's home follows from its hash, so any six names fall as they fall; these are
/// names of which every engine is home to two.
const VISITORS: [&str; 6] = ["bob", "carol", "dave", "erin", "fiona", "gus"];

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long the gateway may take to build its table of the keys' homes, and how often that is asked.
const TABLE_MAX: Duration = Duration::from_secs(10);
/// As above.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One answer.
#[derive(Debug)]
struct Answer {
    served_by: String,
    prompt_tokens: u64,
    cached_tokens: u64,
    took: Duration,
}

/// Sends the requests, prints who served them, and checks that a key stays with one engine and that the others
/// spread as their hashes say.
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

    let mut served = BTreeMap::<String, usize>::new();
    for visitor in VISITORS {
        let prompt = [json!({ "role": "user", "content": lines_about(visitor, 20) })];
        let answer = ask(fleet, visitor, &prompt)?;
        print_row(visitor, &answer);
        *served.entry(answer.served_by).or_default() += 1;
    }
    let each = VISITORS.len() / ENGINES.len();
    ensure!(
        ENGINES.iter().all(|engine| served.get(*engine) == Some(&each)),
        "the visitors' keys were to fall {each} to each engine, and were served so: {served:?}"
    );
    println!(
        "\nalice's turns all went to one engine, which had her prefix. A key's home follows from its hash: six keys may\n\
         fall unevenly, and these are names that fall {each} to each engine. Over many keys each has its share:\n{}.",
        shares(fleet)?
    );
    Ok(())
}

/// How many of the slots that keys are hashed to are at home where, by the gateway's own word.
fn shares(fleet: &Fleet) -> Result<String> {
    let url = format!("{}/api/v1/targets/{MODEL}", fleet.admin_url);
    let deadline = Instant::now() + TABLE_MAX;
    loop {
        let target: Value = serde_json::from_str(&ureq::get(&url).call()?.body_mut().read_to_string()?)?;
        let shares = target["shares"].as_array().with_context(|| format!("no shares in {target}"))?;
        let share = |share: &Value| {
            Some(format!("{} has {}", share["cluster_id"].as_str()?, share["first_slots"].as_u64()?))
        };
        // Null until the table of all slots is built, beside the publishing of snapshots.
        if let Some(shown) = shares.iter().map(share).collect::<Option<Vec<_>>>() {
            return Ok(format!("of {} hash slots {}", target["ranking"]["slots"], shown.join(", ")));
        }
        ensure!(Instant::now() < deadline, "the ranking table of {MODEL} was not built: {target}");
        thread::sleep(POLL_INTERVAL);
    }
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
