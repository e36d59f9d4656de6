//! Where the programs of others are: named by an option, in PATH, or where packages put them.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::kind::Peer;

/// Folders besides those of PATH: servers go where users do not look, and a virtual environment where it was made.
const FOLDERS: [&str; 5] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/peers/bin"];

/// Options that name programs.
#[derive(clap::Args)]
pub(crate) struct ProgramArgs {
    /// HAProxy. This and other peers are looked for in PATH and where packages put them; those that are not found are
    /// left out.
    #[arg(long, value_name = "PATH")]
    haproxy: Option<PathBuf>,
    /// nginx.
    #[arg(long, value_name = "PATH")]
    nginx: Option<PathBuf>,
    /// Envoy.
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    /// SMG.
    #[arg(long, value_name = "PATH")]
    smg: Option<PathBuf>,
    /// vllm-router.
    #[arg(long, value_name = "PATH")]
    vllm_router: Option<PathBuf>,
}

// === impl ProgramArgs ===

impl ProgramArgs {
    /// Where a peer's program is; `None` when nothing names it and it is nowhere.
    pub(crate) fn find(&self, peer: Peer) -> anyhow::Result<Option<PathBuf>> {
        let named = match peer {
            Peer::Haproxy => &self.haproxy,
            Peer::Nginx => &self.nginx,
            Peer::Envoy => &self.envoy,
            Peer::Smg => &self.smg,
            Peer::VllmRouter => &self.vllm_router,
        };
        if let Some(program) = named {
            ensure!(program.is_file(), "{} is not a program", program.display());
            return Ok(Some(program.clone()));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
        Ok(first(folders, peer.program()))
    }
}

fn first(mut folders: impl Iterator<Item = PathBuf>, program: &str) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(program)).filter(|path: &PathBuf| Path::is_file(path)))
}
