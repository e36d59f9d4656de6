//! Envoy: one worker thread, round robin, no timeouts on streams, thresholds out of the way.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Contestant, Kind, Stage};
use crate::peers::{kind::Peer, stage::free_address};

/// More than any scenario has of connections or requests.
const THRESHOLD: u32 = 50_000;

/// Starts it.
pub(super) fn start(stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let listen = free_address()?;
    // JSON is YAML, too, but taken for it by the file's name.
    let file = stage.write("envoy.json", &configuration(listen, upstreams).to_string())?;
    let arguments = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c", &file]
        .map(str::to_owned);
    let process = stage.start_peer(Kind::Envoy, Peer::Envoy, &arguments)?;
    Ok(Contestant { kind: Kind::Envoy, addresses: vec![listen], process: Some(process) })
}

fn configuration(listen: SocketAddr, upstreams: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> =
        upstreams.iter().map(|upstream| json!({"endpoint": {"address": address(*upstream)}})).collect();
    let type_of = |name: &str| format!("type.googleapis.com/envoy.extensions.filters.{name}");
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": type_of("http.router.v3.Router"), "suppress_envoy_headers": true},
    });
    let manager = json!({
        "@type": type_of("network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "clients",
        "generate_request_id": false,
        "use_remote_address": true,
        "stream_idle_timeout": "0s",
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "0s"}}],
        }]},
        "http_filters": [router],
    });
    json!({"static_resources": {
        "listeners": [{
            "name": "clients",
            "address": address(listen),
            "tcp_backlog_size": 4096,
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }]}],
        }],
        "clusters": [{
            "name": "engines",
            "type": "STATIC",
            "connect_timeout": "5s",
            "lb_policy": "ROUND_ROBIN",
            "circuit_breakers": {"thresholds": [{
                "max_connections": THRESHOLD,
                "max_pending_requests": THRESHOLD,
                "max_requests": THRESHOLD,
                "max_retries": 100,
            }]},
            "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
        }],
    }})
}

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}
