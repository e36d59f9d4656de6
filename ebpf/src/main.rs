//! Kernel programs. `cargo xtask build-ebpf` builds them for the BPF target; on the host this is an empty program,
//! so that the workspace builds and is checked everywhere.
//!
//! [`backend_rtt`] measures round-trip times to the addresses that the daemon has registered, and only to those: any
//! other connection of the cgroup costs one look-up, when it is established, and a comparison at what else happens to it.
//!
//! The kernel calls back once a round trip, with the sample as it was measured (from Linux 6.10 on; before, only that of
//! the handshake is known, and the smoothed RTT, one sample late). The callback stays on for a connection whose address is
//! registered no more: another gateway in the cgroup may want it, and then it costs one look-up a round trip.
//!
//! What a kernel must have: 5.8, for the clock without the GPL and the log's ring buffer (xtask's `requirements` reads
//! that from the object). That the verifiers of 5.15 to 6.18 follow the program is judged, not tried, but for 6.18: it is
//! one function with constant offsets into its context, no loop outside the log's code (bounded, as 5.3 knows them), and
//! no atomic that returns a value (aarch64 has those from 5.18 on).

#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// One instruction is written as assembly, see `entry`.
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
// Maps and contexts are raw memory; each use says why it is sound.
#![allow(unsafe_code)]
// aya's macros make public functions, for which they take no documentation along.
#![allow(missing_docs, unreachable_pub)]
// The context is handed over by value, as the kernel does.
#![allow(clippy::needless_pass_by_value)]
// The verifier follows pointers through inlined code better than through calls.
#![allow(clippy::inline_always)]

mod connection;
mod entry;

use aya_ebpf::{
    bindings::{
        BPF_F_NO_PREALLOC, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_RTT_CB, BPF_SOCK_OPS_RTT_CB_FLAG,
    },
    macros::{map, sock_ops},
    maps::PerCpuHashMap,
    programs::SockOpsContext,
};
use aya_log_ebpf::{debug, error};
use stargate_ebpf_common::{ENDPOINTS_MAX, Endpoint, RttSamples};

use crate::{connection::Connection, entry::Entry};

/// The registered addresses and what was measured. The daemon makes and removes entries; the program only ever
/// changes those that are there, so that the map cannot fill with strangers. One value a CPU, made when an address is
/// registered: for all that there is room for, before, would be tens of MB on a large machine.
#[map]
static ENDPOINTS: PerCpuHashMap<Endpoint, RttSamples> =
    PerCpuHashMap::with_max_entries(ENDPOINTS_MAX, BPF_F_NO_PREALLOC);

/// What every path returns: the socket operation goes on.
const GO_ON: u32 = 1;

/// Folds every RTT sample of a connection to a registered address into its entry.
#[sock_ops]
pub fn backend_rtt(context: SockOpsContext) -> u32 {
    let operation = connection::operation(&context);
    // Active means that this host called connect(2): an upstream connection.
    if operation != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && operation != BPF_SOCK_OPS_RTT_CB {
        return GO_ON;
    }
    let Some(connection) = Connection::read(&context) else { return GO_ON };
    let Some(entry) = entry(&connection) else { return GO_ON };
    if operation == BPF_SOCK_OPS_RTT_CB {
        entry.sampled(&connection);
        debug!(
            &context,
            "[{:i}]:{}: {} us, smoothed {} us",
            ip(&connection),
            connection.endpoint.port,
            connection.sample_us,
            connection.smoothed_after_us
        );
    } else {
        entry.established(&connection);
        // Whatever else is turned on may be another program's.
        let callbacks = connection.callbacks | BPF_SOCK_OPS_RTT_CB_FLAG;
        if let Err(refused) = context.set_cb_flags(callbacks.cast_signed()) {
            error!(
                &context,
                "[{:i}]:{}: the kernel refuses RTT callbacks ({}): handshakes only",
                ip(&connection),
                connection.endpoint.port,
                refused
            );
        }
        debug!(
            &context,
            "[{:i}]:{}: established in {} us",
            ip(&connection),
            connection.endpoint.port,
            connection.smoothed_us
        );
    }
    GO_ON
}

/// This CPU's value for where the connection goes; `None` for what nobody registered.
#[inline(always)]
fn entry(connection: &Connection) -> Option<Entry> {
    let value = ENDPOINTS.get_ptr_mut(connection.endpoint)?;
    // SAFETY: just found in a per-CPU map of this type.
    Some(unsafe { Entry::new(value) })
}

/// The address as the log takes it.
#[inline(always)]
fn ip(connection: &Connection) -> [u8; 16] {
    bytemuck::cast(connection.endpoint.address)
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
