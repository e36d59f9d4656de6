//! Starts both planes, tells when everything listens, and stops them in order.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use rustix::thread::sched_getaffinity;
use stargate_controlplane::{ControlPlane, api, config::Config};
use stargate_dataplane::DataPlane;
use tokio::{net::TcpListener, runtime, sync::oneshot, time::timeout};

use crate::signals::Signals;

/// Threads of the control plane: one can be busy with a drain or a scrape while the other answers.
const CONTROL_THREADS: usize = 2;
/// How long open requests to the admin API may go on once the data plane has stopped.
const ADMIN_GRACE: Duration = Duration::from_secs(1);

/// The data plane, until it is stopped.
type Running = Arc<Mutex<Option<DataPlane>>>;

/// Serves until a signal ends it.
pub(crate) fn serve(config: Config) -> Result<()> {
    let cpus = config
        .server
        .cores
        .select(&usable_cpus()?)
        .map_err(|problem| anyhow!("server.cores asks for {problem}"))?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("stargate-control")
        .enable_all()
        .build()
        .context("cannot start the control plane's threads")?;
    let result = runtime.block_on(run(config, cpus));
    // A look-up in the system's resolver may still block a thread: it is not waited for.
    runtime.shutdown_background();
    result
}

async fn run(config: Config, cpus: Vec<usize>) -> Result<()> {
    let mut signals = Signals::receive().context("cannot receive signals")?;
    let address = config.admin.listen.0;
    let admin =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} (admin)"))?;
    let admin_address = admin.local_addr().context("the admin listener has no address")?;
    let settings = config.settings(cpus);
    let driver = config.server.driver;

    let plane = ControlPlane::new(config);
    let data_plane = stargate_dataplane::start(settings, plane.snapshot().clone())?;
    let addresses = data_plane.addresses().to_vec();
    let levels = data_plane.levels();
    let observations = data_plane.observations();
    for level in &levels {
        tracing::info!(cpu = level.cpu, driver = level.driver, "core started");
    }
    let running: Running = Arc::new(Mutex::new(Some(data_plane)));
    let watched = running.clone();
    plane.attach(observations, move || {
        let running = watched.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(DataPlane::levels).unwrap_or_default()
    });
    plane.spawn();

    let (stop_admin, admin_stopped) = oneshot::channel::<()>();
    let app = api::router(plane.clone());
    let admin = tokio::spawn(async move {
        axum::serve(admin, app)
            .with_graceful_shutdown(async move {
                let _ = admin_stopped.await;
            })
            .await
    });
    announce(&addresses, admin_address, levels.len(), driver.as_str());

    let (signal, _) = signals.next().await;
    tracing::info!(signal, "draining; a second signal ends the process at once");
    plane.stop();
    tokio::spawn(async move {
        let (_, code) = signals.next().await;
        std::process::exit(code);
    });
    let cut = tokio::task::spawn_blocking(move || stop(&running)).await.context("the data plane panicked")?;
    if cut > 0 {
        tracing::warn!(cut, "the grace is over, open requests were cut");
    }
    plane.observe();
    let _ = stop_admin.send(());
    // An admin client that does not finish must not keep the process.
    let _ = timeout(ADMIN_GRACE, admin).await;
    tracing::info!("stopped");
    Ok(())
}

fn stop(running: &Running) -> u64 {
    let data_plane = running.lock().unwrap_or_else(PoisonError::into_inner).take();
    data_plane.map_or(0, DataPlane::shutdown)
}

/// The one line on stdout: whoever started this waits for it.
fn announce(data_plane: &[SocketAddr], admin: SocketAddr, cores: usize, driver: &str) {
    let data_plane: Vec<String> = data_plane.iter().map(SocketAddr::to_string).collect();
    let line =
        format!("ready dataplane={} admin={admin} cores={cores} driver={driver}\n", data_plane.join(","));
    let mut stdout = std::io::stdout().lock();
    // Nobody may be reading; serving goes on all the same.
    if let Err(error) = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        tracing::warn!(%error, "the ready line cannot be written");
    }
}

/// The CPUs that this process may use.
fn usable_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask for the usable CPUs")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}
