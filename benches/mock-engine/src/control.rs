//! Answers that take no engine time: health, models, metrics, and `/mock/…` for tests.

use std::rc::Rc;

use serde_json::json;

use super::{
    answer::Answer,
    engine::{Engine, Phase},
    faults::Fault,
    intake::Request,
    render, stats,
};

/// Which requests an address takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything, faults included.
    Engine,
    /// `/mock/…` and health only, never any fault.
    Control,
}

/// The answer to any request that is not inference.
pub(crate) fn answer(engine: &Rc<Engine>, request: &Request, role: Role) -> Answer {
    let method = request.method();
    match (method, request.path()) {
        (b"GET" | b"HEAD", b"/health") => Answer::json(&json!({"status": "ok", "id": engine.settings.id})),
        (b"GET" | b"HEAD", b"/v1/models") if role == Role::Engine => models(engine),
        (b"POST", render::PATH) if role == Role::Engine => render::answer(request.body()),
        (b"GET", b"/metrics") => Answer::text(stats::prometheus(engine)),
        (b"GET", b"/mock/state") => state(engine),
        (b"GET", b"/mock/fault") => Answer::json(&json!({"faults": engine.faults.list()})),
        (b"POST", b"/mock/fault") => match Fault::parse(request.body()) {
            Ok(fault) => {
                engine.faults.set(fault);
                Answer::json(&json!({"faults": engine.faults.list()}))
            }
            Err(error) => Answer::error(422, "invalid_fault", &format!("{error:#}")),
        },
        (b"DELETE", b"/mock/fault") => {
            engine.faults.clear();
            Answer::json(&json!({"faults": []}))
        }
        (_, b"/health" | b"/v1/models" | b"/metrics" | b"/mock/state" | b"/mock/fault") => {
            Answer::error(405, "method_not_allowed", "this path does not take that method")
        }
        (_, path) => {
            Answer::error(404, "not_found", &format!("nothing at {}", String::from_utf8_lossy(path)))
        }
    }
}

fn models(engine: &Engine) -> Answer {
    let list: Vec<_> = engine
        .settings
        .models
        .iter()
        .map(|id| json!({"id": id, "object": "model", "created": 0, "owned_by": "stargate-bench"}))
        .collect();
    Answer::json(&json!({"object": "list", "data": list}))
}

fn state(engine: &Engine) -> Answer {
    let counters = &engine.counters;
    let journal = engine.journal.borrow();
    let cache = engine.cache.borrow();
    Answer::json(&json!({
        "id": engine.settings.id,
        "requests_started": counters.started.get(),
        "requests_completed": counters.completed.get(),
        "requests_cancelled": counters.cancelled.get(),
        "requests_faulted": counters.faulted.get(),
        "requests_rejected": counters.rejected.get(),
        "arrived_without_free_slot": counters.arrived_without_free_slot.get(),
        "running": counters.running(),
        "queued": counters.in_phase(Phase::Queued),
        "prompt_tokens": counters.prompt_tokens.get(),
        "cached_tokens": counters.cached_tokens.get(),
        "output_tokens": counters.output_tokens.get(),
        "kv_cache_capacity_tokens": cache.capacity_tokens(),
        "kv_cache_used_tokens": cache.used_tokens(),
        "kv_cache_cached_tokens": cache.cached_tokens(),
        "connections_open": counters.connections_open.get(),
        "connections_total": counters.connections_total.get(),
        "by_request_id": journal.by_request_id(),
        "request_ids_not_kept": journal.ids_not_kept(),
        "last_request": journal.last_request(),
        "faults": engine.faults.list(),
    }))
}
