//! A core's thread: pinned, with its own runtime and listeners, from start to drained.
//!
//! It starts the tasks that a core always has and ends them in order; what they do is theirs.

use std::{
    io,
    os::unix::net::UnixStream as StdUnixStream,
    pin::pin,
    rc::Rc,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam::queue::ArrayQueue;
use monoio::net::{TcpListener, UnixStream};

use super::start_error::StartError;
use crate::{
    core::{
        Core,
        bell::{Bell, Ear},
        contain_panic::contain_panic,
        flush::flush,
        levels::Levels,
        shared::{Shared, SharedSnapshot},
        waiting::serve,
    },
    cpus,
    io::{
        deadlines::TICK,
        driver::CoreRuntime,
        first::{First, first},
    },
    observation::Observation,
    settings::Settings,
    stages::accept::accept,
};

/// Between two rounds of housekeeping.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How often a draining core looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How long a task is left alone after a panic: whatever caused it may do so again.
const AFTER_PANIC: Duration = Duration::from_millis(25);
/// How long cut connections get to unwind before the thread ends under them.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// What a core is started with.
pub(crate) struct Start {
    pub(crate) cpu: usize,
    pub(crate) settings: Arc<Settings>,
    pub(crate) snapshot: SharedSnapshot,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Vec<std::net::TcpListener>,
    pub(crate) observations: Arc<ArrayQueue<Observation>>,
}

/// A core that runs.
#[derive(Debug)]
pub(crate) struct CoreThread {
    pub(crate) levels: Arc<Levels>,
    pub(crate) bell: Arc<Bell>,
    /// Closing it asks the core to drain.
    drain: StdUnixStream,
    thread: JoinHandle<u64>,
}

// === impl CoreThread ===

impl CoreThread {
    /// Returns when the core listens.
    #[expect(clippy::disallowed_methods, reason = "waits on the thread that starts the cores")]
    pub(crate) fn start(start: Start) -> Result<Self, StartError> {
        let (drain, drained) = StdUnixStream::pair().map_err(StartError::Thread)?;
        let (bell, ear) = Bell::new().map_err(StartError::Thread)?;
        let bell = Arc::new(bell);
        let wires = Wires { drained, bell: bell.clone(), ear };
        let (started, has_started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("stargate-core-{}", start.cpu))
            .spawn(move || run(start, wires, &started))
            .map_err(StartError::Thread)?;
        let levels = has_started.recv().unwrap_or_else(|_| {
            Err(StartError::Thread(io::Error::other("the thread ended while starting")))
        })?;
        Ok(Self { levels, bell, drain, thread })
    }

    /// Asks the core to stop accepting and to finish what it has.
    pub(crate) fn start_draining(&self) {
        // Its other end becomes readable; an error means that the core has gone already.
        let _ = self.drain.shutdown(std::net::Shutdown::Both);
    }

    /// Waits for the core's end. For the thread that stops the cores. Returns how many requests were cut at the end of the grace.
    #[expect(clippy::disallowed_methods, reason = "waits on the thread that stops the cores")]
    pub(crate) fn join(self) -> u64 {
        self.thread.join().unwrap_or_default()
    }
}

/// How a core hears from other threads.
struct Wires {
    drained: StdUnixStream,
    bell: Arc<Bell>,
    ear: Ear,
}

fn run(start: Start, wires: Wires, started: &mpsc::SyncSender<Result<Arc<Levels>, StartError>>) -> u64 {
    let mut runtime = match cpus::pin_to(start.cpu)
        .map_err(|_| StartError::Core { cpu: start.cpu, allowed: cpus::allowed() })
        .and_then(|()| CoreRuntime::new(start.settings.driver).map_err(StartError::Driver))
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return 0;
        }
    };
    let levels = Arc::new(Levels::new(start.cpu, runtime.name()));
    runtime.block_on(async move {
        let core = Rc::new(Core::new(
            start.settings,
            start.snapshot,
            start.shared,
            levels.clone(),
            start.observations,
            wires.bell,
        ));
        for listener in start.listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    monoio::spawn(accept(core.clone(), listener));
                }
                Err(error) => {
                    let _ = started.send(Err(StartError::Thread(error)));
                    return 0;
                }
            }
        }
        let drained = match UnixStream::from_std(wires.drained) {
            Ok(drained) => drained,
            Err(error) => {
                let _ = started.send(Err(StartError::Thread(error)));
                return 0;
            }
        };
        monoio::spawn(tick(core.clone()));
        monoio::spawn(keep_running(core.clone(), async |core| serve(&core.waiting).await));
        monoio::spawn(keep_running(core.clone(), flush));
        monoio::spawn(hear(core.clone(), wires.ear));
        let _ = started.send(Ok(levels));
        serve_until(&core, drained).await;
        drain(&core).await
    })
}

/// Runs a task that ends with the runtime only: when it panics, again.
async fn keep_running(core: Rc<Core>, task: impl AsyncFn(&Core)) {
    while contain_panic(task(&core)).await.is_none() {
        core.levels.panics.add(1);
        monoio::time::sleep(AFTER_PANIC).await;
    }
}

/// Looks over what is to be looked at often, until the runtime ends.
async fn tick(core: Rc<Core>) {
    loop {
        monoio::time::sleep(TICK).await;
        core.tick(Instant::now());
    }
}

/// Listens to the bell, until the runtime ends. Should that fail, the tick finds new snapshots a little later.
async fn hear(core: Rc<Core>, ear: Ear) {
    let _ = ear.listen(|| core.waiting.heard()).await;
}

/// Keeps house until the core is asked to drain.
async fn serve_until(core: &Core, drained: UnixStream) {
    let mut asked = pin!(drained.readable(false));
    let (mut wall, mut cpu) = (Instant::now(), cpus::thread_time());
    loop {
        if let First::Left(_) = first(asked.as_mut(), monoio::time::sleep(HOUSEKEEPING)).await {
            return;
        }
        let (wall_now, cpu_now) = (Instant::now(), cpus::thread_time());
        let busy = cpu_now.saturating_sub(cpu).as_secs_f64() / (wall_now - wall).as_secs_f64();
        core.levels.busy_permille.set((busy * 1000.0) as u64);
        (wall, cpu) = (wall_now, cpu_now);
        core.sweep(wall_now);
    }
}

/// Lets requests finish within the grace, then cuts those that are left. Returns their number.
async fn drain(core: &Core) -> u64 {
    core.start_draining();
    let (now, grace) = (Instant::now(), core.settings.timeouts.shutdown_grace);
    let deadline = now + grace;
    // Whoever finds a place by then has as long again to be answered; whoever does not is told so.
    core.waiting.close_at(now + grace / 2);
    // One look at least comes after a turn of the loop, in which listeners end and their closing is handed
    // to the kernel: a runtime that is dropped before leaks them, open.
    let mut is_busy = true;
    while is_busy && Instant::now() < deadline {
        monoio::time::sleep(DRAIN_LOOK).await;
        core.start_draining();
        is_busy = core.is_busy();
    }
    let cut = core.clients.cut_all();
    let deadline = Instant::now() + CUT_GRACE;
    while core.is_busy() && Instant::now() < deadline {
        monoio::time::sleep(DRAIN_LOOK).await;
    }
    cut
}
