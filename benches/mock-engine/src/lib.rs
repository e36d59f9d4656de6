//! `stargate-bench mock-engine`: stands in for a real inference engine in tests, demos and measurements.
//!
//! One thread. It keeps an engine's promises (slots, a queue, serial prefill, decode at a rate, a prefix cache, `OpenAI`'s
//! endpoints, stats) and breaks them on demand (`faults.rs`); it computes nothing.

mod answer;
mod api;
mod connection;
mod control;
mod engine;
mod faults;
mod fifo;
mod handover;
mod idle;
mod inference;
mod intake;
mod journal;
mod kv_cache;
mod output;
mod pace;
mod prompt;
mod register;
mod render;
mod stats;
mod text;

use std::{io::Write, net::SocketAddr, pin::pin, rc::Rc, time::Duration};

use anyhow::Context;
use stargate_wire::{
    http::{request::decode_rate, url::Url},
    net::{
        accept::Acceptor,
        cpu,
        race::{First, race},
        runtime::{self, Driver},
        signals::Termination,
    },
};

use self::{
    control::Role,
    engine::{Engine, Settings},
    faults::Fault,
    idle::IdleWatch,
    register::{Registrar, Registration},
};

/// Deregistering at shutdown may take this long.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause after an accept that failed for no known reason.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(20);

/// Options of `mock-engine`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes a free one. Repeat it for one engine at several addresses.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: Vec<SocketAddr>,
    /// Also serve /mock/… and /health here, where no fault applies: reaches an engine that refuses connections.
    #[arg(long, value_name = "ADDR")]
    control_listen: Option<SocketAddr>,
    /// Name of this engine.
    #[arg(long, default_value = "e1", value_parser = header_safe)]
    id: String,
    /// A model that it serves; repeatable, the first is the default.
    #[arg(long = "model", value_name = "MODEL", default_value = "mock")]
    models: Vec<String>,
    /// Seed of jitter and texts.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Prefill rate in input tokens/s, one prefill at a time; 0 takes no time.
    #[arg(long, default_value_t = 20_000.0, value_parser = decode_rate)]
    prefill_tps: f64,
    /// Decode rate of each request in output tokens/s; 0 is as fast as possible.
    #[arg(long, default_value_t = 50.0, value_parser = decode_rate)]
    decode_tps: f64,
    /// Vary each decode step by up to this fraction.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    jitter: f64,
    /// Requests that run at once.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    concurrency: usize,
    /// Requests that wait for a slot; more get 429.
    #[arg(long, default_value_t = 1024)]
    queue: usize,
    /// Capacity of the prefix cache.
    #[arg(long, default_value_t = 200_000)]
    kv_capacity_tokens: u64,
    /// Block size of the prefix cache.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    block_tokens: u64,
    /// Output tokens of a request that does not set a limit.
    #[arg(long, default_value_t = 16)]
    output_tokens: u64,
    /// Close connections that idle this long; 0 never.
    #[arg(long, default_value_t = 5000)]
    keep_alive_ms: u64,
    /// Register with the control plane at this address and push stats to it.
    #[arg(long, value_name = "http://ADMIN")]
    register: Option<Url>,
    /// The URL to register; default: the first listening address.
    #[arg(long, value_name = "URL", requires = "register")]
    advertise: Option<String>,
    /// Cluster to register in.
    #[arg(long, requires = "register")]
    cluster_id: Option<String>,
    /// Routing key to register under.
    #[arg(long, requires = "register")]
    routing_key: Option<String>,
    /// Time between two pushes of stats.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    stats_interval_ms: u64,
    /// Also push at every change, at most every 10 ms, and say that this is so (`change-driven`).
    #[arg(long, requires = "register")]
    on_change: bool,
    /// Say in the stats which attempts they include (docs/handover.md).
    #[arg(long, requires = "register")]
    handover: bool,
    /// Lease of the registration.
    #[arg(long, default_value_t = 15_000)]
    lease_ms: u64,
    /// A fault to begin with, as `POST /mock/fault` takes it; repeatable.
    #[arg(long = "fault", value_name = "JSON", value_parser = fault)]
    faults: Vec<Fault>,
    /// Pin to this CPU.
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
}

/// Runs an engine until SIGTERM or SIGINT.
pub fn run(args: Args, driver: Driver) -> anyhow::Result<()> {
    cpu::settle(args.core)?;
    runtime::block_on(driver, || serve(args))?
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let termination = Termination::catch().context("cannot catch signals")?;
    let engine = Rc::new(Engine::new(Settings {
        id: args.id,
        models: args.models,
        seed: args.seed,
        prefill_tps: args.prefill_tps,
        decode_tps: args.decode_tps,
        jitter: args.jitter,
        concurrency: args.concurrency,
        queue: args.queue,
        kv_capacity_tokens: args.kv_capacity_tokens,
        block_tokens: args.block_tokens,
        output_tokens: args.output_tokens,
        handover: args.handover,
    }));
    for fault in args.faults {
        engine.faults.set(fault);
    }
    let idle = Rc::new(IdleWatch::new(Duration::from_millis(args.keep_alive_ms)));
    monoio::spawn(idle.clone().sweep());
    let mut addresses = Vec::new();
    for address in args.listen {
        let acceptor = Acceptor::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        addresses.push(acceptor.local_address());
        monoio::spawn(accept(engine.clone(), idle.clone(), acceptor, Role::Engine));
    }
    let mut ready = format!("ready listen={} id={}", list(&addresses), engine.settings.id);
    if let Some(address) = args.control_listen {
        let acceptor = Acceptor::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        ready = format!("{ready} control={}", acceptor.local_address());
        monoio::spawn(accept(engine.clone(), idle, acceptor, Role::Control));
    }

    let Some(control_plane) = args.register else {
        announce(&ready)?;
        termination.requested().await;
        return Ok(());
    };
    let mut registrar = Registrar::new(
        engine,
        Registration {
            control_plane,
            url: args.advertise.unwrap_or_else(|| format!("http://{}", addresses[0])),
            cluster_id: args.cluster_id,
            routing_key: args.routing_key,
            lease_ms: args.lease_ms,
            stats_interval: Duration::from_millis(args.stats_interval_ms),
            on_change: args.on_change,
        },
    );
    {
        let published = pin!(async {
            registrar.register().await;
            announce(&ready)?;
            registrar.publish().await;
            anyhow::Ok(())
        });
        if let First::Left(ended) = race(published, pin!(termination.requested())).await {
            return ended;
        }
    }
    // A control plane that is gone too needs no goodbye: the lease tells it.
    let _ = monoio::time::timeout(DEREGISTER_TIMEOUT, registrar.deregister()).await;
    Ok(())
}

/// Accepts connections for ever, as far as faults allow.
async fn accept(engine: Rc<Engine>, idle: Rc<IdleWatch>, mut acceptor: Acceptor, role: Role) {
    loop {
        let seen = engine.faults.changed.version();
        if role == Role::Engine {
            if engine.faults.refuses() {
                acceptor.close();
            } else if let Err(error) = acceptor.reopen() {
                eprintln!("cannot listen on {} again: {error}", acceptor.local_address());
            }
        }
        let event = race(pin!(acceptor.next()), pin!(engine.faults.changed.changed_since(seen))).await;
        match event {
            First::Left(Ok(stream)) => {
                if role == Role::Engine && engine.faults.take_reset() {
                    let (reader, _writer) = stargate_wire::net::socket::split(stream);
                    stargate_wire::net::socket::reset(&reader);
                } else {
                    monoio::spawn(connection::serve(engine.clone(), idle.clone(), stream, role));
                }
            }
            First::Left(Err(error)) => {
                eprintln!("accept: {error}");
                monoio::time::sleep(ACCEPT_ERROR_PAUSE).await;
            }
            First::Right(()) => {}
        }
    }
}

/// Prints the one line that whoever started this process waits for.
fn announce(ready: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{ready}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn fraction(text: &str) -> Result<f64, String> {
    let fraction: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&fraction) { Ok(fraction) } else { Err("not within 0..=1".to_owned()) }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a whole number above 0".to_owned())
}

fn header_safe(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'/') {
        Ok(text.to_owned())
    } else {
        Err("an id goes into headers and URLs: visible ASCII without quotes and slashes".to_owned())
    }
}

fn fault(json: &str) -> Result<Fault, String> {
    Fault::parse(json.as_bytes()).map_err(|error| format!("{error:#}"))
}
