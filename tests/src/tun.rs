//! A TUN device: packets that the kernel routes to it are read from a descriptor, and those written there arrive as if from a
//! network (tuntap in the kernel's documentation). It is gone when the descriptor is closed, whatever ends the process.
//!
//! This module exists for the ioctls that make and configure one, which nothing safe has.

#![expect(unsafe_code, reason = "ioctls on network devices")]

use std::{
    ffi::c_short,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
};

use rustix::net::{AddressFamily, SocketType, socket};

/// `_IOW('T', 202, int)`.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;

/// Beginning of the name; the kernel completes it by the first number that is free.
const NAME_PREFIX: &str = "stargate";

/// A device that is up.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    name: String,
}

// === impl Tun ===

impl Tun {
    /// Makes one, without addresses. Reads of it never block.
    pub(crate) fn new() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        rustix::io::ioctl_fionbio(&file, true)?;
        let mut request = request(&format!("{NAME_PREFIX}%d"))?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as c_short;
        ioctl(file.as_fd(), TUNSETIFF, &mut request)?;
        let name = request.ifr_name.iter().take_while(|letter| **letter != 0);
        let name = name.map(|letter| char::from(u8::from_ne_bytes(letter.to_ne_bytes()))).collect();
        let tun = Self { file, name };
        let mut request = tun.request()?;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as c_short;
        ioctl(control(AddressFamily::INET)?.as_fd(), libc::SIOCSIFFLAGS, &mut request)?;
        Ok(tun)
    }

    /// Its number, which no other such device on this machine has.
    pub(crate) fn number(&self) -> u16 {
        let number = self.name.strip_prefix(NAME_PREFIX).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("the kernel named a device {}", self.name))
    }

    /// Gives it an address, and routes the network around that to it.
    pub(crate) fn add_address(&self, address: IpAddr, prefix_bits: u32) -> io::Result<()> {
        match address {
            IpAddr::V4(address) => self.add_ipv4(address, prefix_bits),
            IpAddr::V6(address) => self.add_ipv6(address, prefix_bits),
        }
    }

    /// The next packet; `None` when there is none.
    pub(crate) fn read(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(packet) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets a packet arrive.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write_all(packet)
    }

    fn request(&self) -> io::Result<libc::ifreq> {
        request(&self.name)
    }

    fn add_ipv4(&self, address: Ipv4Addr, prefix_bits: u32) -> io::Result<()> {
        let control = control(AddressFamily::INET)?;
        let mask = Ipv4Addr::from_bits(u32::MAX << (u32::BITS - prefix_bits));
        for (operation, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
            let mut request = self.request()?;
            let socket_address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: value.to_bits().to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: both are plain structures of 16 bytes; the kernel reads the one by the family of the other.
            request.ifr_ifru.ifru_addr =
                unsafe { mem::transmute::<libc::sockaddr_in, libc::sockaddr>(socket_address) };
            ioctl(control.as_fd(), operation, &mut request)?;
        }
        Ok(())
    }

    fn add_ipv6(&self, address: Ipv6Addr, prefix_bits: u32) -> io::Result<()> {
        let index = rustix::net::netdevice::name_to_index(control(AddressFamily::INET)?, &self.name)?;
        let mut request = libc::in6_ifreq {
            ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
            ifr6_prefixlen: prefix_bits,
            ifr6_ifindex: index.cast_signed(),
        };
        ioctl(control(AddressFamily::INET6)?.as_fd(), libc::SIOCSIFADDR, &mut request)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Any socket of a family takes requests about devices.
fn control(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket(family, SocketType::DGRAM, None)?)
}

/// A request about the device of this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long"));
    }
    // SAFETY: a plain structure, for which zeroes are a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (letter, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        // Signed on some machines, unsigned on others.
        *letter = libc::c_char::from_ne_bytes([byte]);
    }
    Ok(request)
}

/// Calls ioctl(2) with a request that the operation is defined for.
fn ioctl<T>(descriptor: BorrowedFd<'_>, operation: libc::Ioctl, request: &mut T) -> io::Result<()> {
    // SAFETY: an open descriptor and a request that lives through the call; callers pair operations with their structures.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), operation, ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
