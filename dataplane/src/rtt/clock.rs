//! The clock that round trips are dated by, whoever measures them: the kernel program reads the same one, so that its
//! times can be told from ours.

use std::time::Duration;

/// Time of the clock that the kernel program uses, too.
pub(super) fn monotonic_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}
