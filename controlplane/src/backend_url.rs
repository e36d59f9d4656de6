//! The URL of a backend: `http://host[:port][/prefix]`, nothing else.
//!
//! Everything that this gateway would have to ignore (credentials, a query, a fragment, another scheme) is
//! refused, so that a URL always means what it says.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::http::Uri;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::names::excerpt;

/// Longest URL, in bytes.
const MAX_BYTES: usize = 2048;
const DEFAULT_PORT: u16 = 80;
const ALLOWED: &str = "a URL of the form http://host[:port][/prefix]";

/// A parsed URL. Two are equal when they are written alike.
#[derive(Clone, Debug)]
pub struct BackendUrl {
    text: Arc<str>,
    host: Host,
    authority: Box<str>,
    base_path: Box<str>,
}

/// Where a URL points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address that needs no look-up.
    Address(SocketAddr),
    /// A name to be looked up, and a port.
    Name(Box<str>, u16),
}

// === impl BackendUrl ===

impl BackendUrl {
    /// Parses it; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("it is longer than 2048 bytes");
        }
        if text.contains('#') {
            return Err("it has a fragment");
        }
        let uri: Uri = text.parse().map_err(|_| "it is not a valid URL")?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err("TLS to backends is not supported"),
            _ => return Err("it does not begin with http://"),
        }
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it holds credentials");
        }
        if uri.query().is_some() {
            return Err("it has a query");
        }
        if authority.host().is_empty() {
            return Err("it has no host");
        }
        let port = match authority.port_u16() {
            Some(0) => return Err("its port is 0"),
            Some(port) => port,
            None if authority.as_str().len() > authority.host().len() => {
                return Err("its port is not a number");
            }
            None => DEFAULT_PORT,
        };
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse::<IpAddr>() {
            Ok(ip) => Host::Address(SocketAddr::new(ip, port)),
            Err(_) if bare.len() == host.len() => Host::Name(host.into(), port),
            Err(_) => return Err("its IPv6 address is malformed"),
        };
        Ok(Self {
            text: text.into(),
            host,
            authority: authority.as_str().into(),
            base_path: uri.path().trim_end_matches('/').into(),
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where it points.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// `host[:port]`, for the `host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Its path without a trailing slash; usually empty.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }
}

impl PartialEq for BackendUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for BackendUrl {}

impl Serialize for BackendUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for BackendUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = BackendUrl;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ALLOWED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<BackendUrl, E> {
                BackendUrl::parse(text).map_err(|problem| {
                    E::custom(format_args!(
                        "invalid value: string {:?} ({problem}), expected {ALLOWED}",
                        excerpt(text)
                    ))
                })
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses_names_ports_and_prefixes() {
        let url = BackendUrl::parse("http://[::1]:9001/v2/").unwrap();
        assert_eq!(url.host(), &Host::Address("[::1]:9001".parse().unwrap()));
        assert_eq!((url.authority(), url.base_path()), ("[::1]:9001", "/v2"));
        let url = BackendUrl::parse("http://engine.local").unwrap();
        assert_eq!(url.host(), &Host::Name("engine.local".into(), 80));
        assert_eq!((url.authority(), url.base_path()), ("engine.local", ""));
        let url = BackendUrl::parse("http://127.0.0.1:8000/").unwrap();
        assert_eq!(url.host(), &Host::Address("127.0.0.1:8000".parse().unwrap()));
    }

    #[test]
    fn refuses_what_it_would_have_to_ignore() {
        for bad in [
            "",
            "/",
            "engine:80",
            "https://a",
            "ftp://a",
            "http://",
            "http://u:p@a",
            "http://a?x=1",
            "http://a#f",
            "http://a:0",
            "http://a:99999",
            "http://a b",
            "http://[::1",
            "http://[zz]:1",
        ] {
            assert!(BackendUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
