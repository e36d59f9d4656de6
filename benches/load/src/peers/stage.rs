//! What contestants run on: the engines behind them, their CPUs, and the folder of their files.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use anyhow::Context;
use tempfile::TempDir;

use super::{
    kind::{Kind, Peer},
    programs::ProgramArgs,
};
use crate::child::{Started, own_path};

/// Slots of the engine: more than any scenario has connections, so that it never queues.
pub(super) const ENGINE_CONCURRENCY: usize = 16_384;

/// The engines: one process with several addresses, since the machine has one CPU left for them.
pub(super) struct Engines {
    pub(super) process: Started,
    pub(super) addresses: Vec<SocketAddr>,
}

/// What the engines are asked to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineOptions {
    pub(super) addresses: usize,
    /// Output tokens a second of each request; 0 answers at once.
    pub(super) decode_tps: f64,
    /// Variation of the intervals between them.
    pub(super) jitter: f64,
}

/// Where and with what to start contestants.
pub(super) struct Stage<'a> {
    /// For configurations and logs.
    pub(super) folder: TempDir,
    pub(super) proxy_core: usize,
    pub(super) load_core: usize,
    pub(super) programs: &'a ProgramArgs,
    pub(super) stargate: Option<PathBuf>,
    pub(super) other: Option<Other>,
}

/// Another Stargate to compare with.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) program: PathBuf,
    /// Settings of its own, as `KEY=VALUE`.
    pub(super) settings: Vec<String>,
}

// === impl Stage ===

impl Stage<'_> {
    /// Starts the engines.
    pub(super) fn engines(&self, options: EngineOptions) -> anyhow::Result<Engines> {
        let mut arguments: Vec<String> =
            ["mock-engine", "--prefill-tps", "0", "--keep-alive-ms", "0"].map(str::to_owned).into();
        arguments.extend(["--decode-tps".to_owned(), options.decode_tps.to_string()]);
        arguments.extend(["--jitter".to_owned(), options.jitter.to_string()]);
        arguments.extend(["--concurrency".to_owned(), ENGINE_CONCURRENCY.to_string()]);
        for _ in 0..options.addresses {
            arguments.extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        }
        let folder = self.folder.path();
        let mut process = Started::new("engines", Some(self.load_core), &own_path()?, &arguments, folder)?;
        let addresses = process.ready_addresses("listen")?;
        Ok(Engines { process, addresses })
    }

    /// Starts one of our own programs on the proxies' CPU; it says when it is ready.
    pub(super) fn start_own(
        &self,
        kind: Kind,
        program: &Path,
        arguments: &[String],
    ) -> anyhow::Result<Started> {
        Started::new(kind.name(), Some(self.proxy_core), program, arguments, self.folder.path())
    }

    /// Starts a program of others on the proxies' CPU.
    pub(super) fn start_peer(&self, kind: Kind, peer: Peer, arguments: &[String]) -> anyhow::Result<Started> {
        let program = self.program(peer)?;
        Started::logged(kind.name(), Some(self.proxy_core), &program, arguments, self.folder.path())
    }

    /// Starts a program of others that runs on tokio, which is told to use one thread.
    pub(super) fn start_tokio_peer(
        &self,
        kind: Kind,
        peer: Peer,
        arguments: &[String],
    ) -> anyhow::Result<Started> {
        let program = self.program(peer)?.display().to_string();
        let mut command = vec!["TOKIO_WORKER_THREADS=1".to_owned(), program];
        command.extend_from_slice(arguments);
        let env = Path::new("/usr/bin/env");
        Started::logged(kind.name(), Some(self.proxy_core), env, &command, self.folder.path())
    }

    fn program(&self, peer: Peer) -> anyhow::Result<PathBuf> {
        self.programs.find(peer)?.with_context(|| format!("{} is not installed", peer.program()))
    }

    /// Writes a configuration file; returns its path.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).with_context(|| name.to_owned())?;
        Ok(path.display().to_string())
    }
}

/// An address for a server that cannot tell which port it took: one that is free now is free for the moment that it needs.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).context("no port")
}
