//! Kernel programs. `cargo xtask build-ebpf` builds them for the BPF target; on the host this is an empty program,
//! so that the workspace builds and is checked everywhere.
//!
//! [`backend_rtt`] measures round-trip times to the addresses that the daemon has registered, and only to those:
//! for every other connection of the cgroup it costs one look-up when the connection is established.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// Maps and contexts are raw memory; each use says why it is sound.
#![allow(unsafe_code)]
// aya's macros make public functions, for which they take no documentation along.
#![allow(missing_docs, unreachable_pub)]
// The context is handed over by value, as the kernel does.
#![allow(clippy::needless_pass_by_value)]
// The verifier follows pointers through inlined code better than through calls.
#![allow(clippy::inline_always)]

mod connection;

use aya_ebpf::{
    bindings::{BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_RTT_CB, BPF_SOCK_OPS_RTT_CB_FLAG},
    helpers::bpf_ktime_get_ns,
    macros::{map, sock_ops},
    maps::PerCpuHashMap,
    programs::SockOpsContext,
};
use stargate_ebpf_common::{ENDPOINTS_MAX, Endpoint, RttSamples};

use crate::connection::Connection;

/// The registered addresses and what was measured. The daemon makes and removes entries; the program only ever
/// changes those that are there, so that the map cannot fill with strangers. One value a CPU: no update is lost.
#[map]
static ENDPOINTS: PerCpuHashMap<Endpoint, RttSamples> = PerCpuHashMap::with_max_entries(ENDPOINTS_MAX, 0);

/// What every path returns: the socket operation goes on.
const GO_ON: u32 = 1;

/// Folds every RTT sample of a connection to a registered address into its entry.
#[sock_ops]
pub fn backend_rtt(context: SockOpsContext) -> u32 {
    // Before any branch: see `Connection::read`.
    let Some(connection) = Connection::read(&context) else { return GO_ON };
    match connection.operation {
        // Active means that this host called connect(2): an upstream connection. The handshake's own round trip
        // has been sampled by now.
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB if fold(&connection, 0, 1) => {
            let flags = context.cb_flags() | BPF_SOCK_OPS_RTT_CB_FLAG;
            // A kernel without this callback has no samples to give beyond the handshake's.
            let _ = context.set_cb_flags(flags.cast_signed());
        }
        BPF_SOCK_OPS_RTT_CB => {
            fold(&connection, context.arg(0), 0);
        }
        _ => {}
    }
    GO_ON
}

/// Adds a sample to the connection's entry; whether there is one.
#[inline(always)]
fn fold(connection: &Connection, sample_us: u32, connects: u32) -> bool {
    let Some(entry) = ENDPOINTS.get_ptr_mut(connection.endpoint) else { return false };
    // SAFETY: the map's value for this CPU, valid for the program's run (RCU), of the right size and alignment by
    // the map's type; a sock_ops program is not preempted by itself on one CPU.
    let entry = unsafe { &mut *entry };
    entry.connects += connects;
    let smoothed_us = connection.smoothed_us;
    if smoothed_us == 0 {
        return true;
    }
    if entry.samples == 0 || smoothed_us < entry.min_us {
        entry.min_us = smoothed_us;
    }
    entry.samples += 1;
    entry.sum_us += u64::from(smoothed_us);
    entry.smoothed_us = smoothed_us;
    entry.last_us = sample_us;
    // SAFETY: a helper without preconditions.
    entry.last_at_ns = unsafe { bpf_ktime_get_ns() };
    true
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier rejects a program that could get here.
    loop {}
}

/// This project's. None of the helpers in use is reserved for programs under the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 11] = *b"Apache-2.0\0";
