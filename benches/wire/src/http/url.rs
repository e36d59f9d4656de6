//! `http://HOST:PORT/PATH`, resolved to a socket address once.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Context;

/// A plain-HTTP address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host and port as given: the `host` header.
    pub authority: String,
    /// Where to connect.
    pub address: SocketAddr,
    /// Path and query; empty when none was given.
    pub path: String,
}

impl std::str::FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let rest = text
            .strip_prefix("http://")
            .with_context(|| format!("{text}: expected http://HOST:PORT[/PATH]"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let with_port = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        let address = with_port
            .to_socket_addrs()
            .with_context(|| format!("{text}: cannot resolve {with_port}"))?
            .next()
            .with_context(|| format!("{text}: {with_port} has no address"))?;
        Ok(Self { authority: authority.to_owned(), address, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_authority_and_path() {
        let url: Url = "http://127.0.0.1:81/v1/x?y".parse().unwrap();
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("127.0.0.1:81", "/v1/x?y"));
        assert_eq!(url.address, "127.0.0.1:81".parse().unwrap());
        let url: Url = "http://[::1]:82".parse().unwrap();
        assert_eq!((url.address, url.path.as_str()), ("[::1]:82".parse().unwrap(), ""));
        assert_eq!("http://127.0.0.1".parse::<Url>().unwrap().address.port(), 80);
        assert!("https://127.0.0.1:1".parse::<Url>().is_err());
    }
}
