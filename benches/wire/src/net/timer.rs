//! A timer of the kernel's precision: monoio's own counts whole milliseconds, which would hide what a proxy adds.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer of the kernel's precision.
pub struct PreciseTimer {
    timer: OwnedFd,
    /// The timer where monoio can poll it. It only ever polls: what kind of descriptor it is does not matter.
    poll: monoio::net::UnixStream,
}

// === impl PreciseTimer ===

impl PreciseTimer {
    /// Call it inside the runtime.
    pub fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let poll = monoio::net::UnixStream::from_std(UnixStream::from(timer.try_clone()?))?;
        Ok(Self { timer, poll })
    }

    /// Waits. Safe to drop: the next wait sets the timer anew.
    pub async fn sleep(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let value =
            Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        self.poll.readable(false).await?;
        let mut expirations = [0_u8; 8];
        match rustix::io::read(self.timer.as_fd(), &mut expirations) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
