//! Starts both planes, tells when everything listens, and stops them in order.

use std::{io::Write, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, anyhow};
use rustix::thread::sched_getaffinity;
use stargate_controlplane::{ControlPlane, api, config::Config};
use stargate_dataplane::rtt::Severity;
use tokio::{net::TcpListener, runtime, sync::oneshot, time::timeout};

use crate::signals::Signals;

/// Threads of the control plane: one can be busy with a drain or a scrape while the other answers.
const CONTROL_THREADS: usize = 2;
/// How long open requests to the admin API may go on once the data plane has stopped.
const ADMIN_GRACE: Duration = Duration::from_secs(1);

/// Serves until a signal ends it.
///
/// `log_lines_dropped` is for the metrics.
pub(crate) fn serve(
    config: Config,
    log_lines_dropped: impl Fn() -> u64 + Send + Sync + 'static,
) -> Result<()> {
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
    let plane = ControlPlane::new(config).context("cannot start with this routing configuration")?;
    plane.attach_log(log_lines_dropped);
    let result = runtime.block_on(run(plane, cpus));
    // A look-up in the system's resolver may still block a thread: it is not waited for.
    runtime.shutdown_background();
    result
}

async fn run(plane: ControlPlane, cpus: Vec<usize>) -> Result<()> {
    let config = plane.config();
    let mut signals = Signals::receive().context("cannot receive signals")?;
    let address = config.admin.listen.0;
    let admin =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} (admin)"))?;
    let admin_address = admin.local_addr().context("the admin listener has no address")?;
    let settings = config.settings(cpus);
    let driver = config.server.driver;

    let data_plane = stargate_dataplane::start(settings, plane.snapshot().clone(), Box::new(log))
        // Its message holds its source already.
        .map_err(|error| anyhow!("{error}"))?;
    let addresses = data_plane.addresses().to_vec();
    let cores = data_plane.level_reader();
    let levels = cores.read();
    for level in &levels {
        tracing::info!(cpu = level.cpu, driver = level.driver, "core started");
    }
    let gateway = data_plane.gateway_id();
    tracing::info!(%gateway, "attempts are stamped");
    plane.attach(gateway, data_plane.observations(), data_plane.bells(), move || cores.read());
    // Before any health check connects: a connection that is older than this is not measured.
    plane.attach_rtt(data_plane.rtt());
    plane.spawn();

    let (stop_admin, admin_stopped) = oneshot::channel::<()>();
    let admin = tokio::spawn(api::serve(admin, api::router(plane.clone()), async move {
        let _ = admin_stopped.await;
    }));
    announce(&addresses, admin_address, levels.len(), driver.as_str());

    let (signal, _) = signals.next().await;
    tracing::info!(signal, "draining; a second signal ends the process at once");
    plane.stop();
    tokio::spawn(async move {
        let (_, code) = signals.next().await;
        std::process::exit(code);
    });
    let cut =
        tokio::task::spawn_blocking(|| data_plane.shutdown()).await.context("the data plane panicked")?;
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

/// What the data plane has to say.
fn log(severity: Severity, line: &str) {
    match severity {
        Severity::Debug => tracing::debug!("{line}"),
        Severity::Info => tracing::info!("{line}"),
        Severity::Warn => tracing::warn!("{line}"),
    }
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
