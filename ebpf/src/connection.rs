//! The context of a `sock_ops` program, read in the only way that the verifier takes.

use aya_ebpf::programs::SockOpsContext;
use stargate_ebpf_common::Endpoint;

const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// The part of an IPv4-mapped IPv6 address before the IPv4 address (RFC 4291, 2.5.5.2).
const MAPPED_PREFIX: u32 = 0xffff;

/// The kernel keeps eight times the smoothed RTT.
const SMOOTHED_SHIFT: u32 = 3;

/// What the kernel's minimum is before the first sample.
const NO_MINIMUM: u32 = u32::MAX;

/// What a program needs to know of the connection that it runs for.
pub(crate) struct Connection {
    /// Where the connection goes.
    pub(crate) endpoint: Endpoint,
    /// Smoothed RTT in µs; 0 before the first sample. In an RTT callback, before the sample that it is about.
    pub(crate) smoothed_us: u32,
    /// Smallest RTT in µs of the last minutes; 0 before the first sample.
    pub(crate) min_us: u32,
    /// In an RTT callback, the sample as it was measured, in µs; 0 before Linux 6.10.
    pub(crate) sample_us: u32,
    /// In an RTT callback, the smoothed RTT in µs with that sample; 0 before Linux 6.10.
    pub(crate) smoothed_after_us: u32,
    /// Which callbacks are turned on.
    pub(crate) callbacks: u32,
}

/// Reads one field of the context.
macro_rules! field {
    ($context:expr, $($field:tt)+) => {
        // SAFETY: the context points at a valid bpf_sock_ops for the program's run.
        unsafe { core::ptr::read_volatile(&raw const (*$context.ops).$($field)+) }
    };
}

/// Which callback the program runs for.
#[inline(always)]
pub(crate) fn operation(context: &SockOpsContext) -> u32 {
    field!(context, op)
}

// === impl Connection ===

impl Connection {
    /// Reads it; `None` for what is neither IPv4 nor IPv6.
    ///
    /// The verifier accepts only `*(u32 *)(context + constant)`. From ordinary loads in several branches LLVM makes
    /// one with a computed offset ("dereference of modified ctx ptr"), and from neighbouring ones a load of 8 bytes:
    /// hence every field here, at once, volatile.
    #[inline(always)]
    pub(crate) fn read(context: &SockOpsContext) -> Option<Self> {
        let family = field!(context, family);
        let ip4 = field!(context, remote_ip4);
        let ip6 = [
            field!(context, remote_ip6[0]),
            field!(context, remote_ip6[1]),
            field!(context, remote_ip6[2]),
            field!(context, remote_ip6[3]),
        ];
        let port = field!(context, remote_port);
        let smoothed = field!(context, srtt_us);
        let min_us = field!(context, rtt_min);
        let callbacks = field!(context, bpf_sock_ops_cb_flags);
        let sample_us = field!(context, __bindgen_anon_1.args[0]);
        let smoothed_after = field!(context, __bindgen_anon_1.args[1]);
        let address = match family {
            AF_INET => [0, 0, MAPPED_PREFIX.to_be(), ip4],
            AF_INET6 => ip6,
            _ => return None,
        };
        // Of the port's field the upper half is used, in network byte order.
        let endpoint = Endpoint { address, port: u32::from_be(port) };
        Some(Self {
            endpoint,
            smoothed_us: smoothed >> SMOOTHED_SHIFT,
            min_us: if min_us == NO_MINIMUM { 0 } else { min_us },
            sample_us,
            smoothed_after_us: smoothed_after >> SMOOTHED_SHIFT,
            callbacks,
        })
    }
}
