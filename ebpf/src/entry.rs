//! What one CPU has measured of one endpoint: this CPU's value in the map.
//!
//! No other CPU writes it, but this one may be interrupted while it does: acknowledgements that waited for a socket's
//! lock are handled in the task that held it, with soft interrupts on, and one of those may bring a sample of another
//! connection to the same endpoint. Counters are therefore added to in one instruction, so that no sample is lost. Of
//! two samples at the same instant, either may be "the last"; a minimum that was overwritten comes back with the
//! connection's next sample, since the kernel keeps it for minutes.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use stargate_ebpf_common::{RECENT_SAMPLES, RttSample, RttSamples};

use crate::connection::Connection;

/// Position in the ring: its size is a power of two, so that the verifier sees the bound.
const RECENT_MASK: u32 = RECENT_SAMPLES as u32 - 1;
const _: () = assert!(RECENT_SAMPLES.is_power_of_two());

/// This CPU's value of a registered endpoint.
pub(crate) struct Entry(*mut RttSamples);

// === impl Entry ===

impl Entry {
    /// The value that a look-up found.
    ///
    /// # Safety
    /// `value` is what a per-CPU map returned during this run of the program: valid until its end (RCU), of the right
    /// size and alignment by the map's type.
    #[inline(always)]
    pub(crate) unsafe fn new(value: *mut RttSamples) -> Self {
        Self(value)
    }

    /// Counts a connection, and the round trip of its handshake: after one sample the smoothed RTT is that sample. A
    /// handshake whose packets were repeated may have none.
    #[inline(always)]
    pub(crate) fn established(&self, connection: &Connection) {
        // SAFETY: see `new`.
        add(unsafe { &raw mut (*self.0).connects });
        let rtt_us = connection.smoothed_us;
        if rtt_us == 0 {
            return;
        }
        let at_ns = now_ns();
        // SAFETY: see `new`.
        write(unsafe { &raw mut (*self.0).handshake }, at_ns, rtt_us);
        self.count(at_ns, rtt_us, rtt_us, connection.min_us);
    }

    /// Counts a sample. A kernel that does not tell it has told only that there was one, and the smoothed RTT before.
    #[inline(always)]
    pub(crate) fn sampled(&self, connection: &Connection) {
        let at_ns = now_ns();
        let smoothed_us = match connection.smoothed_after_us {
            0 => connection.smoothed_us,
            after => after,
        };
        let rtt_us = connection.sample_us;
        if rtt_us > 0 {
            // SAFETY: see `new`; the mask keeps the place inside the ring.
            unsafe {
                let turn = (*self.0).turn;
                write(&raw mut (*self.0).recent[(turn & RECENT_MASK) as usize], at_ns, rtt_us);
                (*self.0).turn = turn.wrapping_add(1);
            }
        }
        self.count(at_ns, rtt_us, smoothed_us, connection.min_us);
    }

    #[inline(always)]
    fn count(&self, at_ns: u64, rtt_us: u32, smoothed_us: u32, min_us: u32) {
        // SAFETY: see `new`.
        unsafe {
            let before_us = (*self.0).min_us;
            if min_us > 0 && (before_us == 0 || min_us < before_us) {
                (*self.0).min_us = min_us;
            }
            if rtt_us > 0 {
                (*self.0).last_us = rtt_us;
            }
            (*self.0).smoothed_us = smoothed_us;
            (*self.0).last_at_ns = at_ns;
            add(&raw mut (*self.0).samples);
        }
    }
}

/// Writes a sample, its time last: the daemon's side reads times first, and so never takes an old sample for a new one.
#[inline(always)]
fn write(sample: *mut RttSample, at_ns: u64, rtt_us: u32) {
    // SAFETY: `sample` lies in a map's value (see `Entry::new`).
    unsafe {
        (&raw mut (*sample).rtt_us).write_volatile(rtt_us.into());
        (&raw mut (*sample).at_ns).write_volatile(at_ns);
    }
}

/// Adds one in one instruction, which an interrupt cannot split.
///
/// `core` has no atomics for this target. Of the machine's, this one is in every kernel since 3.18; those that return the
/// old value would ask for 5.12, and for 5.18 on aarch64.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn add(counter: *mut u64) {
    // SAFETY: `counter` lies in a map's value (see `Entry::new`), aligned to 8 bytes.
    unsafe {
        core::arch::asm!("lock *(u64 *)({counter} + 0) += {one}", counter = in(reg) counter, one = in(reg) 1_u64);
    }
}

/// On the host nothing runs.
#[cfg(not(target_arch = "bpf"))]
fn add(counter: *mut u64) {
    // SAFETY: as above.
    unsafe { *counter += 1 };
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: a helper without preconditions.
    unsafe { bpf_ktime_get_ns() }
}
