//! What `check-config` warns about: settings that are allowed, but that usually turn out a mistake.

use super::{
    data_plane::{KernelLog, RttSource},
    sections::Config,
};

/// uvicorn's keep-alive time, and so that of vLLM and `SGLang`.
const ENGINE_KEEP_ALIVE_MS: u64 = 5000;

impl Config {
    /// What is allowed but rarely meant, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        of(self)
    }
}

fn of(config: &Config) -> Vec<String> {
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
    if config.rtt.kernel_log == KernelLog::Debug
        && matches!(config.rtt.source, RttSource::TcpInfo | RttSource::Probe)
    {
        warnings.push(
            "rtt.kernel_log = \"debug\": rtt.source leaves no kernel program that would log anything".into(),
        );
    }
    if let Ok(document) = config.routing.read() {
        let of_routing = document.warnings(&config.backends);
        warnings.extend(of_routing.into_iter().map(|warning| {
            // What concerns a backend rather than the document says so itself.
            if warning.starts_with("backend ") { warning } else { format!("routing.{warning}") }
        }));
    }
    warnings
}

fn listens_beyond_loopback(config: &Config) -> bool {
    config.server.listen.0.iter().any(|address| !address.0.ip().is_loopback())
}
