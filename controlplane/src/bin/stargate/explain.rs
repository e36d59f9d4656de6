//! `stargate explain`: asks the running gateway what would become of a request, and prints why as a table.

use std::{fmt::Write, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, runtime, time::timeout};

/// The gateway answers within this time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The request to explain.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Model that the request names; the same as the header x-model.
    #[arg(long)]
    model: Option<String>,
    /// A header of the request, such as 'x-cache-affinity-key: session-1'; may be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// JSON body of the request.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// How long ago the request arrived.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    elapsed_ms: u32,
    /// A cluster that has failed within the request; may be repeated.
    #[arg(long, value_name = "CLUSTER")]
    exclude: Vec<String>,
    /// Print the answer as it came, as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks the gateway whose admin API is at `admin`.
pub(crate) fn run(options: &Options, admin: SocketAddr) -> Result<()> {
    let question = question(options)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let (status, answer) = runtime
        .block_on(async { timeout(TIMEOUT, ask(admin, &question)).await })
        .with_context(|| format!("the gateway at {admin} did not answer within {TIMEOUT:?}"))??;
    if status != 200 {
        let error = &answer["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        bail!("{status} {}: {}", text("code"), text("message"));
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print!("{}", table(&answer));
    }
    Ok(())
}

fn question(options: &Options) -> Result<Value> {
    let mut headers = serde_json::Map::new();
    let model = options.model.iter().map(|model| ("x-model".to_owned(), model.clone()));
    for (name, value) in model.chain(options.headers.iter().cloned()) {
        if headers.insert(name.to_ascii_lowercase(), json!(value)).is_some() {
            bail!("header {name} is given twice");
        }
    }
    let mut question =
        json!({ "headers": headers, "elapsed_ms": options.elapsed_ms, "excluded": options.exclude });
    if let Some(path) = &options.body {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        question["body"] =
            serde_json::from_str(&text).with_context(|| format!("{}: no JSON", path.display()))?;
    }
    Ok(question)
}

async fn ask(admin: SocketAddr, question: &Value) -> Result<(u16, Value)> {
    let stream = TcpStream::connect(admin).await.with_context(|| {
        format!("no gateway answers at {admin} (admin.listen of the configuration given)")
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post("/api/v1/explain")
        .header("host", admin.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(question.to_string())))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((status, serde_json::from_slice(&body).context("the answer is no JSON")?))
}

/// The answer for people.
fn table(answer: &Value) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "decision   {}", decision(&answer["decision"]));
    if let Some(reason) = answer["refused_admission"].as_str() {
        let _ = writeln!(out, "admission  refused: {reason}");
    }
    let _ = writeln!(out, "method     {}", fields(&answer["method"]));
    let _ = writeln!(out, "request    {}", fields(&answer["request"]));
    let _ = writeln!(
        out,
        "limits     best TTFT {}, queue delay allowed {}, held for its group until {}; snapshot {}\n",
        ms(&answer["best_ttft_ms"]),
        ms(&answer["queue_delay_allowed_ms"]),
        ms(&answer["affinity_wait_ends_ms"]),
        answer["snapshot_version"]
    );
    let header = [
        "cluster", "verdict", "rank", "band", "running", "queued", "rtt", "queue", "prefill", "TTFT",
        "bucket", "capacity", "KV free",
    ];
    let rows = answer["clusters"].as_array().into_iter().flatten().map(row);
    let rows: Vec<[String; 13]> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                // Names to the left, figures to the right.
                if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
    for note in answer["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

fn decision(decision: &Value) -> String {
    if let Some(selected) = decision.get("selected") {
        let fallback = if selected["is_fallback"] == json!(true) { ", as a fallback" } else { "" };
        let kv = if selected["after_kv_skip"] == json!(true) { ", past one without KV room" } else { "" };
        format!(
            "cluster {} (backend {}), rank {}{fallback}{kv}",
            text(&selected["cluster_id"]),
            text(&selected["backend_id"]),
            selected["rank"]
        )
    } else if let Some(wait) = decision.get("wait") {
        format!("wait until {} after arrival: {}", ms(&wait["until_ms"]), text(&wait["reason"]))
    } else {
        format!("unavailable: {}", text(&decision["unavailable"]["reason"]))
    }
}

fn row(cluster: &Value) -> [String; 13] {
    // The set that counted last: where it was sampled or would be.
    let candidacy = [&cluster["in_open_set"], &cluster["in_group"]];
    let candidacy = candidacy.into_iter().find(|candidacy| !candidacy.is_null()).unwrap_or(&Value::Null);
    let bucket = match (&candidacy["bucket"], &candidacy["is_unlocked"]) {
        (Value::Null, _) => "-".to_owned(),
        (bucket, Value::Bool(true)) => bucket.to_string(),
        (bucket, _) => format!("{bucket} at {}", ms(&candidacy["unlocks_at_ms"])),
    };
    let band = match &cluster["band"] {
        Value::Null => "-".to_owned(),
        band if band["number"] == json!(0) => "group".to_owned(),
        band => format!("{} at {}", band["number"], ms(&band["opens_at_ms"])),
    };
    let capacity = match &candidacy["has_capacity"] {
        Value::Bool(has) => {
            format!("{} (+{})", if *has { "yes" } else { "no" }, candidacy["max_queued"])
        }
        _ => "-".to_owned(),
    };
    let band = if cluster["is_in_group"] == json!(true) && cluster["band"].is_null() {
        "group".to_owned()
    } else {
        band
    };
    let slots = match cluster["max_engine_concurrency"].as_u64() {
        Some(0) | None => "?".to_owned(),
        Some(slots) => slots.to_string(),
    };
    [
        text(&cluster["cluster_id"]).to_owned(),
        text(&cluster["verdict"]).to_owned(),
        number(&cluster["rank"]),
        band,
        format!("{}/{slots}", cluster["num_running_queries"]),
        number(&cluster["queue_size"]),
        ms(&cluster["rtt_ms"]),
        ms(&cluster["queue_delay_ms"]),
        ms(&cluster["prefill_ms"]),
        ms(&cluster["ttft_ms"]),
        bucket,
        capacity,
        number(&cluster["kv_cache_free_tokens"]),
    ]
}

fn fields(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> String {
    if value.is_null() { "-".to_owned() } else { value.to_string() }
}

/// Milliseconds; what has no bound, or is not there, is a dash.
fn ms(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected 'name: value'")?;
    if name.trim().is_empty() {
        return Err("the name is empty".to_owned());
    }
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_decision_rows_and_notes() {
        let answer = json!({
            "snapshot_version": 7,
            "request": { "model": "m", "affinity_key": null, "input_tokens": 12 },
            "method": { "algorithm": "wait-and-widen", "n": 2 },
            "decision": { "wait": { "until_ms": 12.5, "reason": "bucket" } },
            "refused_admission": null,
            "best_ttft_ms": 3.0, "queue_delay_allowed_ms": null, "affinity_wait_ends_ms": null,
            "clusters": [{
                "cluster_id": "far", "verdict": "bucket_locked", "rank": null, "band": null, "is_in_group": false,
                "num_running_queries": 3, "max_engine_concurrency": 8, "queue_size": 0, "rtt_ms": 70.0,
                "queue_delay_ms": null, "prefill_ms": 1.0, "ttft_ms": null, "kv_cache_free_tokens": null,
                "in_group": null,
                "in_open_set": { "bucket": 2, "is_unlocked": false, "unlocks_at_ms": 12.5, "has_capacity": true,
                                 "max_queued": 0 }
            }],
            "notes": ["a note"]
        });
        let table = table(&answer);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "decision   wait until 12.5 ms after arrival: bucket");
        assert_eq!(lines[1], "method     algorithm=wait-and-widen n=2");
        assert!(lines[3].contains("best TTFT 3.0 ms, queue delay allowed -"), "{table}");
        assert!(lines[6].starts_with("far      bucket_locked"), "{table}");
        assert!(
            lines[6].contains("3/8") && lines[6].contains("2 at 12.5 ms") && lines[6].contains("yes (+0)"),
            "{table}"
        );
        assert_eq!(lines.last(), Some(&"note: a note"));
    }

    #[test]
    fn a_header_has_a_name_and_a_value() {
        assert_eq!(header("x-priority: 3").unwrap(), ("x-priority".into(), "3".into()));
        assert!(header("x-priority").is_err() && header(": 3").is_err());
    }
}
