//! Builds the monoio runtime: the best `io_uring` flags that this kernel takes, else epoll.
//!
//! `detect_uring()` says yes where ring creation fails (locked memory, sandboxes), so every rung of the ladder is
//! tried for real: `SINGLE_ISSUER | DEFER_TASKRUN` (6.1), `COOP_TASKRUN` (5.19), plain, epoll.

use std::{cell::Cell, future::Future, io};

use anyhow::Context;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

/// Which kernel interface does the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// `io_uring` where it works, else epoll.
    Auto,
    /// `io_uring` or an error.
    IoUring,
    /// epoll.
    Epoll,
}

/// Submission queue entries. Thousands of streams hold an operation each; the kernel keeps completions that do not fit.
const RING_ENTRIES: u32 = 2048;

thread_local! {
    /// Whether this thread runs on epoll, whose sockets must not block; `io_uring`'s must be allowed to.
    static NON_BLOCKING_SOCKETS: Cell<bool> = const { Cell::new(false) };
}

/// Whether sockets of this thread must be in non-blocking mode.
pub fn wants_non_blocking_sockets() -> bool {
    NON_BLOCKING_SOCKETS.get()
}

/// Runs `main` to its end on a monoio runtime of this thread.
pub fn block_on<F, M>(driver: Driver, main: M) -> anyhow::Result<F::Output>
where
    F: Future,
    M: FnOnce() -> F,
{
    if driver != Driver::Epoll {
        match io_uring_runtime() {
            Ok(mut runtime) => {
                NON_BLOCKING_SOCKETS.set(false);
                return Ok(runtime.block_on(async { main().await }));
            }
            Err(error) if driver == Driver::IoUring => {
                return Err(error).context("io_uring is not available here (try --driver epoll)");
            }
            Err(error) => eprintln!("io_uring is not available ({error}): using epoll"),
        }
    }
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().context("epoll")?;
    NON_BLOCKING_SOCKETS.set(true);
    Ok(runtime.block_on(async { main().await }))
}

type UringRuntime = monoio::Runtime<monoio::time::TimeDriver<IoUringDriver>>;

fn io_uring_runtime() -> io::Result<UringRuntime> {
    let mut deferred = io_uring::IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun();
    let mut cooperative = io_uring::IoUring::builder();
    cooperative.setup_coop_taskrun();
    let plain = io_uring::IoUring::builder();
    let build = |flags: io_uring::Builder| {
        RuntimeBuilder::<IoUringDriver>::new()
            .uring_builder(flags)
            .with_entries(RING_ENTRIES)
            .enable_timer()
            .build()
    };
    build(deferred).or_else(|_| build(cooperative)).or_else(|_| build(plain))
}
