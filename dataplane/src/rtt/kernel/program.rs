//! Loading the program and attaching it, with every refusal put into words.

use std::{fs::File, io, path::Path};

use aya::{
    Ebpf, EbpfError, EbpfLoader,
    maps::{Map, MapError},
    programs::{CgroupAttachMode, ProgramError, SockOps},
};
use aya_log::LEVEL;
use rustix::io::Errno;
use stargate_ebpf_common::{ENDPOINTS_MAP, PROGRAM};

use super::{AttachError, LogLevel, Object, capabilities, endpoints::Endpoints, log::KernelLog};

/// Steps, as refusals name them.
const CREATE_MAPS: &str = "creating its maps";
const LOAD: &str = "loading the program";
const ATTACH: &str = "attaching the program";

/// The program in the kernel. It is detached and unloaded when dropped.
pub(super) struct Program {
    /// Holds the program and its link.
    ebpf: Ebpf,
    id: u32,
}

/// The maps that it shares with this process.
pub(super) struct Maps {
    /// The addresses, with what was measured.
    pub(super) endpoints: Endpoints,
    /// What it logs.
    pub(super) log: KernelLog,
}

// === impl Program ===

impl Program {
    /// Creates the maps and has the kernel verify and load the program.
    ///
    /// Capabilities are looked at first: the library asks the kernel once a process what it can do, and one that is refused
    /// for want of them would look like an old one ever after.
    pub(super) fn load(
        object: &Object,
        addresses_max: u32,
        log: LogLevel,
    ) -> Result<(Self, Maps), AttachError> {
        match capabilities::missing() {
            Some(missing) if !missing.is_empty() => return Err(AttachError::NotPermitted { missing }),
            _ => {}
        }
        let mut ebpf = EbpfLoader::new()
            .map_max_entries(ENDPOINTS_MAP, addresses_max)
            .override_global(LEVEL, &log.kernel_level(), true)
            .load(object.bytes())
            .map_err(|error| refused_load(&error))?;
        // Taken out of `ebpf`, and open before the program is loaded, which refers to them.
        let maps = Maps {
            endpoints: Endpoints::new(map(&mut ebpf, ENDPOINTS_MAP)?).map_err(|error| unusable(&error))?,
            log: KernelLog::open(&mut ebpf).map_err(|error| AttachError::Object(error.to_string()))?,
        };
        let program = sock_ops(&mut ebpf)?;
        program.load().map_err(|error| refused(LOAD, &error))?;
        let id = program.info().map_err(|error| refused(LOAD, &error))?.id();
        Ok((Self { ebpf, id }, maps))
    }

    /// Attaches it to this cgroup, beside whatever is attached there.
    pub(super) fn attach(&mut self, folder: &File, cgroup: &Path) -> Result<(), AttachError> {
        // Single: the only mode that links to cgroups take; others stay attached beside it all the same.
        match sock_ops(&mut self.ebpf)?.attach(folder, CgroupAttachMode::Single) {
            Ok(_) => Ok(()),
            Err(ProgramError::SyscallError(error)) if is(&error.io_error, Errno::BADF) => {
                Err(AttachError::NotACgroup(cgroup.to_owned()))
            }
            Err(error) => Err(refused(ATTACH, &error)),
        }
    }

    /// The kernel's number for it.
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

fn sock_ops(ebpf: &mut Ebpf) -> Result<&mut SockOps, AttachError> {
    let program = ebpf.program_mut(PROGRAM);
    let program = program.ok_or_else(|| AttachError::Object(format!("it has no program {PROGRAM}")))?;
    program.try_into().map_err(|error: ProgramError| AttachError::Object(error.to_string()))
}

fn map(ebpf: &mut Ebpf, name: &str) -> Result<Map, AttachError> {
    ebpf.take_map(name).ok_or_else(|| AttachError::Object(format!("it has no map {name}")))
}

fn unusable(error: &MapError) -> AttachError {
    AttachError::Object(error.to_string())
}

/// What a failure to load means; of the kernel's part only the maps are made by then.
fn refused_load(error: &EbpfError) -> AttachError {
    match error {
        EbpfError::MapError(MapError::CreateError { name, io_error }) => {
            refusal(CREATE_MAPS, io_error, format!("{name}: {io_error}"))
        }
        EbpfError::MapError(MapError::SyscallError(error)) => {
            refusal(CREATE_MAPS, &error.io_error, error.to_string())
        }
        other => AttachError::Object(with_sources(other)),
    }
}

/// What a failure of the program means.
fn refused(step: &'static str, error: &ProgramError) -> AttachError {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            refusal(step, io_error, format!("{io_error}; {}", verdict(&verifier_log.to_string())))
        }
        ProgramError::SyscallError(error) => refusal(step, &error.io_error, error.io_error.to_string()),
        other => AttachError::Refused { step, reason: with_sources(other) },
    }
}

/// Tells what is forbidden from what the kernel cannot. The verifier says "permission denied", not "operation not permitted",
/// to a program that it finds fault with.
fn refusal(step: &'static str, error: &io::Error, reason: String) -> AttachError {
    if is(error, Errno::PERM) {
        AttachError::Forbidden { step }
    } else if is(error, Errno::NOSYS) {
        AttachError::Refused { step, reason: "it was built without bpf(2)".to_owned() }
    } else {
        AttachError::Refused { step, reason }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The verifier's last word: the line before its statistics.
fn verdict(log: &str) -> String {
    const STATISTICS: [&str; 4] = ["processed ", "stack depth ", "verification time ", "max_"];
    let is_word = |line: &&str| !line.is_empty() && !STATISTICS.iter().any(|start| line.starts_with(start));
    log.lines().rev().map(str::trim).find(is_word).unwrap_or("the verifier says nothing").to_owned()
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some repeat their cause in their own words.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_word_is_before_its_statistics() {
        let log = "func#0 @0\n0: R1=ctx() R10=fp0\n19: (85) call unknown#77\ninvalid func unknown#77\n\
                   verification time 41 usec\nstack depth 80\n\
                   processed 20 insns (limit 1000000) max_states_per_insn 0\n\n";
        assert_eq!(verdict(log), "invalid func unknown#77");
        assert_eq!(verdict(""), "the verifier says nothing");
    }
}
