//! What `check-config` warns about: settings that are allowed, but that usually turn out a mistake.

use stargate_routing::{Algorithm, RendezvousWeight};

use super::Config;

/// uvicorn's keep-alive time, and so that of vLLM and `SGLang`.
const ENGINE_KEEP_ALIVE_MS: u64 = 5000;

pub(super) fn of(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.pool.idle_timeout_ms.get() >= ENGINE_KEEP_ALIVE_MS {
        warnings.push(format!(
            "pool.idle_timeout_ms = {}: engines on uvicorn (vLLM, SGLang) close idle connections after \
             {ENGINE_KEEP_ALIVE_MS} ms; a pooled connection should be given up before that",
            config.pool.idle_timeout_ms.get()
        ));
    }
    if config.admin.allow_remote && !config.admin.listen.0.ip().is_loopback() {
        warnings.push(format!(
            "admin.allow_remote: everyone who reaches {} can register and remove backends",
            config.admin.listen.0
        ));
    }
    if config.headers.trusted && listens_beyond_loopback(config) {
        warnings.push(
            "headers.trusted = true: callers choose their routing key and priority themselves; set it to \
             false unless a gateway in front of this one sets these headers"
                .into(),
        );
    }
    if config.timeouts.first_byte_ms < config.timeouts.connect_ms {
        warnings.push(format!(
            "timeouts.first_byte_ms = {} is below timeouts.connect_ms = {}: generating takes longer than connecting",
            config.timeouts.first_byte_ms.get(),
            config.timeouts.connect_ms.get()
        ));
    }
    for model in config.routing.models.keys() {
        if !config.backends.is_empty()
            && !config.backends.iter().any(|backend| backend.models.contains(model))
        {
            warnings.push(format!(
                "routing.models.{:?}: no static backend serves it; it applies only if one registers for it",
                model.as_str()
            ));
        }
    }
    for backend in &config.backends {
        for model in &backend.models {
            let Algorithm::Pulsar(parameters) = config.routing.policy(model.as_str()).method.algorithm else {
                continue;
            };
            if parameters.weight == RendezvousWeight::MaxInputTps && backend.max_input_tps.is_none() {
                warnings.push(format!(
                    "backend {:?} has no max_input_tps, by which pulsar weighs model {:?}: it gets no keys \
                     until it reports one",
                    backend.id.as_str(),
                    model.as_str()
                ));
            }
        }
    }
    warnings
}

fn listens_beyond_loopback(config: &Config) -> bool {
    config.server.listen.0.iter().any(|address| !address.0.ip().is_loopback())
}
