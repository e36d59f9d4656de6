//! The runtime of a core thread: the best ring that the kernel gives, or epoll where that was asked for.
//!
//! `DEFER_TASKRUN` with `SINGLE_ISSUER` (Linux 6.1) completes operations in the thread's own time, without
//! interrupts: a third cheaper than a ring without flags. Older kernels get `COOP_TASKRUN` (5.19) or a plain
//! ring. A process's right to a ring can be denied in many ways (sysctl, seccomp, memlock), so each rung is
//! tried for real.

use std::{future::Future, io};

use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder, time::TimeDriver};

use crate::settings::Driver;

/// Entries of the submission queue: operations that one turn of the loop may start before it must enter
/// the kernel.
const RING_ENTRIES: u32 = 1024;

/// A runtime for the thread that made it.
pub(crate) enum CoreRuntime {
    IoUring(Box<Runtime<TimeDriver<IoUringDriver>>>, &'static str),
    Epoll(Box<Runtime<TimeDriver<LegacyDriver>>>),
}

// === impl CoreRuntime ===

impl CoreRuntime {
    pub(crate) fn new(driver: Driver) -> Result<Self, String> {
        match driver {
            Driver::Epoll => RuntimeBuilder::<LegacyDriver>::new()
                .enable_timer()
                .build()
                .map(|runtime| Self::Epoll(Box::new(runtime)))
                .map_err(|error| format!("cannot use epoll: {error}")),
            Driver::IoUring => Self::ring().map_err(|error| {
                format!(
                    "cannot use io_uring: {error}. Allow it (kernel.io_uring_disabled, seccomp, memlock limit) \
                     or choose the driver `epoll`"
                )
            }),
        }
    }

    fn ring() -> io::Result<Self> {
        let mut deferred = IoUring::builder();
        deferred.setup_single_issuer().setup_defer_taskrun();
        let mut cooperative = IoUring::builder();
        cooperative.setup_coop_taskrun();
        let mut last = io::Error::other("no ring was tried");
        for (builder, name) in [
            (deferred, "io_uring (defer_taskrun)"),
            (cooperative, "io_uring (coop_taskrun)"),
            (IoUring::builder(), "io_uring"),
        ] {
            let runtime = RuntimeBuilder::<IoUringDriver>::new()
                .with_entries(RING_ENTRIES)
                .uring_builder(builder)
                .enable_timer()
                .build();
            match runtime {
                Ok(runtime) => return Ok(Self::IoUring(Box::new(runtime), name)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::IoUring(_, name) => name,
            Self::Epoll(_) => "epoll",
        }
    }

    pub(crate) fn block_on<T>(&mut self, task: impl Future<Output = T>) -> T {
        match self {
            Self::IoUring(runtime, _) => runtime.block_on(task),
            Self::Epoll(runtime) => runtime.block_on(task),
        }
    }
}
