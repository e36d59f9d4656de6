//! The map of addresses and what was measured to them. Only this side makes and removes entries; the program changes those
//! that are there.

use std::{collections::HashSet, net::SocketAddr, thread, time::Duration};

use aya::{
    maps::{self, Map, MapData, PerCpuHashMap, PerCpuValues},
    util::nr_cpus,
};
use rustix::io::Errno;
use stargate_ebpf_common::{Endpoint, RttSamples};

use super::MapError;

/// The shared types as the bytes that they are: aya's `Pod` is a foreign trait on foreign types, and unsafe to implement;
/// bytemuck proves the same of them.
type Key = [u8; size_of::<Endpoint>()];
type Value = [u8; size_of::<RttSamples>()];

/// Take an entry that is not there, never replace one.
const BPF_NOEXIST: u64 = 1;

/// How long to wait for the kernel, which fetches memory for new entries in the background, a few hundred at a time.
const MEMORY_WAIT: Duration = Duration::from_millis(1);
/// How often in one call, before what is left counts as without room. 4096 addresses at once take some 20.
const MEMORY_WAITS_MAX: u32 = 200;

/// The addresses that are measured.
pub(super) struct Endpoints {
    map: PerCpuHashMap<MapData, Key, Value>,
    /// Those in the map.
    followed: HashSet<Key>,
    cpus: usize,
}

// === impl Endpoints ===

impl Endpoints {
    /// The map, empty.
    pub(super) fn new(map: Map) -> Result<Self, maps::MapError> {
        let cpus = nr_cpus().map_err(|(_, error)| error)?;
        Ok(Self { map: map.try_into()?, followed: HashSet::new(), cpus })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.followed.len()
    }

    /// Makes the map hold these and no others, as far as there is room.
    pub(super) fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError> {
        let mut order = Vec::new();
        let mut wanted = HashSet::new();
        for key in addresses.map(key_of) {
            if wanted.insert(key) {
                order.push(key);
            }
        }
        // First, so that their room is there for the new.
        let gone: Vec<Key> = self.followed.difference(&wanted).copied().collect();
        for key in gone {
            self.remove(&key)?;
        }
        let mut without_room = 0;
        let mut waits = MEMORY_WAITS_MAX;
        for key in order {
            if !self.followed.contains(&key) && !self.insert(key, &mut waits)? {
                without_room += 1;
            }
        }
        if without_room > 0 {
            return Err(MapError::Full { followed: self.followed.len(), without_room });
        }
        Ok(())
    }

    /// What was measured to this address; `None` when it is not in the map.
    pub(super) fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError> {
        let key = key_of(address);
        if !self.followed.contains(&key) {
            return Ok(None);
        }
        match self.map.get(&key, 0) {
            Ok(values) => {
                let per_cpu: Vec<RttSamples> = values.iter().copied().map(bytemuck::cast).collect();
                Ok(Some(RttSamples::fold(&per_cpu)))
            }
            Err(maps::MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(refused("read samples", error)),
        }
    }

    /// Whether there was room. Each wait for memory is taken from `waits`.
    fn insert(&mut self, key: Key, waits: &mut u32) -> Result<bool, MapError> {
        loop {
            let error = match self.try_insert(key) {
                Ok(()) => {
                    self.followed.insert(key);
                    return Ok(true);
                }
                Err(error) => error,
            };
            if error.is(Errno::NOMEM) && *waits > 0 {
                *waits -= 1;
                thread::sleep(MEMORY_WAIT);
            } else if error.is(Errno::TOOBIG) || error.is(Errno::NOMEM) {
                return Ok(false);
            } else {
                return Err(error);
            }
        }
    }

    fn try_insert(&mut self, key: Key) -> Result<(), MapError> {
        const ACTION: &str = "take an address";
        let nothing = PerCpuValues::try_from(vec![[0; size_of::<Value>()]; self.cpus]);
        let nothing = nothing.map_err(|source| MapError::Refused { action: ACTION, source })?;
        self.map.insert(key, nothing, BPF_NOEXIST).map_err(|error| refused(ACTION, error))
    }

    fn remove(&mut self, key: &Key) -> Result<(), MapError> {
        match self.map.remove(key).map_err(|error| refused("give up an address", error)) {
            Err(error) if !error.is(Errno::NOENT) => return Err(error),
            // Gone by another's hand is gone.
            _ => self.followed.remove(key),
        };
        Ok(())
    }
}

// === impl MapError ===

impl MapError {
    fn is(&self, errno: Errno) -> bool {
        matches!(self, Self::Refused { source, .. } if source.raw_os_error() == Some(errno.raw_os_error()))
    }
}

fn refused(action: &'static str, error: maps::MapError) -> MapError {
    let source = match error {
        maps::MapError::SyscallError(error) => error.io_error,
        maps::MapError::KeyNotFound => Errno::NOENT.into(),
        other => std::io::Error::other(other),
    };
    MapError::Refused { action, source }
}

/// The address as the program reads it from a connection. A socket of IPv6 reaches an IPv4 address by its mapped form,
/// which is therefore the same address here.
fn key_of(address: SocketAddr) -> Key {
    let ip = match address {
        SocketAddr::V4(address) => address.ip().to_ipv6_mapped(),
        SocketAddr::V6(address) => *address.ip(),
    };
    bytemuck::cast(Endpoint { address: bytemuck::cast(ip.octets()), port: address.port().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_and_its_mapped_form_are_one() {
        let key = |address: &str| key_of(address.parse().expect("an address"));
        assert_eq!(key("10.1.2.3:80"), key("[::ffff:10.1.2.3]:80"));
        assert_ne!(key("10.1.2.3:80"), key("10.1.2.3:81"));
        assert_ne!(key("10.1.2.3:80"), key("[::10.1.2.3]:80"));
        // Network order for the address, as in the kernel's context; host order for the port.
        let bytes = key("[2001:db8::7]:258");
        assert_eq!(bytes[..16], [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(bytes[16..], 258_u32.to_ne_bytes());
    }
}
