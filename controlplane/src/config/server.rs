//! `[server]` and `[admin]`: where the daemon listens and what it runs on.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Highest CPU number that is believed; the kernel's own limit is 8192.
const CPU_MAX: usize = 8191;
const CORES_ALLOWED: &str = "\"all\", a number of CPUs from 1, or a list of CPU numbers such as \"0,2-3\"";

/// `[server]`: the data plane's own settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Where clients connect.
    pub listen: Addresses,
    /// Which CPUs the data plane runs on.
    pub cores: Cores,
    /// Which kernel interface does the I/O.
    pub driver: Driver,
}

/// `[admin]`: the control plane's listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where the REST API and the metrics are.
    pub listen: Address,
    /// Allow an address that others can reach. Nothing authenticates them.
    pub allow_remote: bool,
    /// Where what is changed through the REST API is kept across restarts; empty keeps nothing.
    pub state_dir: PathBuf,
}

/// One `ip:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// One `ip:port` or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Addresses(pub Vec<Address>);

/// CPUs to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Every CPU that the process may use.
    All,
    /// The first so many of them.
    Count(usize),
    /// These.
    Cpus(Vec<usize>),
}

/// Which kernel interface does the I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// `io_uring`.
    #[default]
    IoUring,
    /// epoll.
    Epoll,
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: Addresses(vec![Address(SocketAddr::from(([127, 0, 0, 1], 8080)))]),
            cores: Cores::All,
            driver: Driver::default(),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: Address(SocketAddr::from(([127, 0, 0, 1], 9090))),
            allow_remote: false,
            state_dir: PathBuf::new(),
        }
    }
}

// === impl Driver ===

impl Driver {
    /// As it is written in the configuration and in the `ready` line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IoUring => "io-uring",
            Self::Epoll => "epoll",
        }
    }
}

// === impl Address ===

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Address;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as \"127.0.0.1:8080\" or \"[::1]:8080\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
                text.parse().map(Address).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

// === impl Addresses ===

impl Addresses {
    /// The addresses.
    pub fn socket_addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|address| address.0).collect()
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Addresses;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of one or more addresses such as [\"127.0.0.1:8080\"]")
            }
            /// One address alone: what a variable or a flag can hold.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Addresses, E> {
                Address::deserialize(de::value::StrDeserializer::new(text))
                    .map(|address| Addresses(vec![address]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Addresses, A::Error> {
                let mut addresses = Vec::new();
                while let Some(address) = items.next_element()? {
                    addresses.push(address);
                }
                if addresses.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                Ok(Addresses(addresses))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

// === impl Cores ===

impl Cores {
    /// The CPU numbers among those that this process may use; empty for all of them. The error says what is
    /// wrong with the request.
    pub fn select(&self, usable: &[usize]) -> Result<Vec<usize>, String> {
        match self {
            Self::All => Ok(Vec::new()),
            Self::Count(count) => match usable.get(..*count) {
                Some(first) => Ok(first.to_vec()),
                None => Err(format!("{count} CPUs, but this process may use {} only", usable.len())),
            },
            Self::Cpus(cpus) => match cpus.iter().find(|cpu| !usable.contains(cpu)) {
                None => Ok(cpus.clone()),
                Some(cpu) => Err(format!("CPU {cpu}, but this process may use {usable:?} only")),
            },
        }
    }
}

impl FromStr for Cores {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Ok(count) = text.parse() {
            return if (1..=CPU_MAX).contains(&count) { Ok(Self::Count(count)) } else { Err(CORES_ALLOWED) };
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                text.trim().parse::<usize>().ok().filter(|cpu| *cpu <= CPU_MAX).ok_or(CORES_ALLOWED)
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CORES_ALLOWED);
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self::Cpus(cpus))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Cpus(cpus) => {
                // A range, so that one CPU alone does not read as a count.
                let ranges: Vec<String> = cpus.iter().map(|cpu| format!("{cpu}-{cpu}")).collect();
                f.write_str(&ranges.join(","))
            }
        }
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count as u64),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Cores;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(CORES_ALLOWED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Cores, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
                }
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Cores, E> {
                match usize::try_from(value) {
                    Ok(count @ 1..=CPU_MAX) => Ok(Cores::Count(count)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(value), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_a_count_a_list_or_all() {
        assert_eq!("all".parse(), Ok(Cores::All));
        assert_eq!("2".parse(), Ok(Cores::Count(2)));
        assert_eq!("0,2-3".parse(), Ok(Cores::Cpus(vec![0, 2, 3])));
        assert_eq!("1-1".parse(), Ok(Cores::Cpus(vec![1])));
        for bad in ["", "0", "-1", "3-2", "a", "0,,1", "0,99999"] {
            assert!(bad.parse::<Cores>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_are_chosen_among_the_usable_ones() {
        let usable = [1, 3, 5];
        assert_eq!(Cores::All.select(&usable), Ok(vec![]));
        assert_eq!(Cores::Count(2).select(&usable), Ok(vec![1, 3]));
        assert_eq!(Cores::Cpus(vec![5]).select(&usable), Ok(vec![5]));
        assert!(Cores::Count(4).select(&usable).unwrap_err().contains("3 only"));
        assert!(Cores::Cpus(vec![0]).select(&usable).unwrap_err().contains("CPU 0"));
    }

    #[test]
    fn cores_survive_being_written_and_read() {
        for cores in [Cores::All, Cores::Count(3), Cores::Cpus(vec![1]), Cores::Cpus(vec![0, 2])] {
            let json = serde_json::to_string(&cores).unwrap();
            assert_eq!(serde_json::from_str::<Cores>(&json).unwrap(), cores, "{json}");
        }
    }
}
