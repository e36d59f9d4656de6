//! What an object asks of a kernel, read from its instructions: no kernel but the one that runs here can be asked
//! whether it takes the program, but which instructions, helpers and maps it uses can be told, and since when each is there.
//!
//! What cannot be told so is whether an older verifier follows the program's paths. For that the program keeps to what
//! all of them follow (see `ebpf/src/connection.rs`).

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use object::{Object as _, ObjectSection as _};

/// A release of Linux.
type Release = (u32, u32);

/// The oldest that any object here may ask for: the oldest long-term release that this gateway is for.
const LINUX_MAX: Release = (5, 15);

/// Section of the programs.
const SECTION: &str = "sockops";

/// Helpers, with the release since when a program under this licence can call them (`include/uapi/linux/bpf.h`; the clock was
/// for programs under the GPL only before 5.8).
const HELPERS: [(i32, &str, Release); 6] = [
    (1, "bpf_map_lookup_elem", (3, 19)),
    (5, "bpf_ktime_get_ns", (5, 8)),
    (59, "bpf_sock_ops_cb_flags_set", (4, 16)),
    (131, "bpf_ringbuf_reserve", (5, 8)),
    (132, "bpf_ringbuf_submit", (5, 8)),
    (133, "bpf_ringbuf_discard", (5, 8)),
];

/// What every object needs: callbacks for RTTs (before, global data: 5.2).
const BASE: Need = Need { linux: (5, 3), what: "BPF_SOCK_OPS_RTT_CB" };

const INSTRUCTION_BYTES: usize = 8;

/// Something that the kernel must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    linux: Release,
    what: &'static str,
}

/// What an object asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirements {
    /// The oldest kernel that has it all.
    pub(super) linux: Release,
    /// What is newest of it.
    newest: &'static str,
    /// Instructions of the programs.
    instructions: usize,
}

// === impl Requirements ===

impl Requirements {
    /// Reads them.
    ///
    /// # Errors
    /// For an object that no supported kernel takes, or that uses what is not known here.
    pub(super) fn of(object: &[u8]) -> Result<Self> {
        let file = object::File::parse(object)?;
        for section in file.sections() {
            let name = section.name()?;
            ensure!(!name.starts_with(".debug"), "the object has debug information ({name})");
        }
        let section = file.section_by_name(SECTION).with_context(|| format!("no section {SECTION}"))?;
        Self::of_program(section.data()?)
    }

    fn of_program(code: &[u8]) -> Result<Self> {
        let mut newest = BASE;
        let mut instructions = 0;
        let mut code = code.chunks_exact(INSTRUCTION_BYTES).map(Instruction::read);
        while let Some(instruction) = code.next() {
            instructions += 1;
            if let Some(need) = instruction.needs()?
                && need.linux > newest.linux
            {
                newest = need;
            }
            if instruction.is_wide() {
                code.next();
            }
        }
        ensure!(
            newest.linux <= LINUX_MAX,
            "{} needs Linux {}.{}; this gateway is for {}.{} and later",
            newest.what,
            newest.linux.0,
            newest.linux.1,
            LINUX_MAX.0,
            LINUX_MAX.1
        );
        Ok(Self { linux: newest.linux, newest: newest.what, instructions })
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.linux;
        write!(formatter, "Linux {major}.{minor} ({}); {} instructions", self.newest, self.instructions)
    }
}

/// One instruction (RFC 9669, section 3).
#[derive(Clone, Copy, Debug)]
struct Instruction {
    opcode: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

// === impl Instruction ===

impl Instruction {
    fn read(bytes: &[u8]) -> Self {
        Self {
            opcode: bytes[0],
            source: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    /// Whether the next slot belongs to it: a load of 64 bits.
    fn is_wide(self) -> bool {
        self.opcode == 0x18
    }

    /// What it needs beyond the instructions that have always been there.
    fn needs(self) -> Result<Option<Need>> {
        const NEW: Need = Need { linux: (6, 6), what: "an instruction of the set v4" };
        let (class, operation) = (self.opcode & 0x07, self.opcode & 0xf0);
        Ok(match class {
            // Loads with sign extension.
            1 if self.opcode & 0xe0 == 0x80 => Some(NEW),
            // Atomic operations: the plain addition is old, all others came at once.
            3 if self.opcode & 0xe0 == 0xc0 => match self.immediate {
                0 => None,
                _ => Some(Need { linux: (5, 12), what: "an atomic operation other than addition" }),
            },
            // Division and moves with signs.
            4 | 7 if matches!(operation, 0x30 | 0x90 | 0xb0) && self.offset != 0 => Some(NEW),
            // Unconditional byte swaps.
            7 if operation == 0xd0 => Some(NEW),
            5 if operation == 0x80 => Some(self.call_needs()?),
            // Jumps with wide offsets, and on 32 bits.
            6 if operation == 0 => Some(NEW),
            6 => Some(Need { linux: (5, 1), what: "a jump on 32 bits" }),
            _ => None,
        })
    }

    fn call_needs(self) -> Result<Need> {
        match self.source {
            0 => {
                let helper = HELPERS.iter().find(|(number, ..)| *number == self.immediate);
                let (_, what, linux) = helper.with_context(|| {
                    format!("helper {} is not known here: say since when it is there", self.immediate)
                })?;
                Ok(Need { linux: *linux, what })
            }
            1 => Ok(Need { linux: (4, 16), what: "a call between functions" }),
            other => bail!("a call of kind {other}: functions of the kernel come and go with its releases"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(code: &[[u8; 8]]) -> Result<Requirements> {
        Requirements::of_program(&code.concat())
    }

    #[test]
    fn instructions_and_helpers_are_told_apart_by_age() {
        let call = |helper: u8| [0x85, 0, 0, 0, helper, 0, 0, 0];
        let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(needs(&[exit]).unwrap().linux, BASE.linux);
        assert_eq!(needs(&[call(1), exit]).unwrap().linux, BASE.linux);
        assert_eq!(needs(&[call(5), exit]).unwrap().linux, (5, 8));
        let add = [0xdb, 0x10, 0, 0, 0, 0, 0, 0];
        let fetch_and_add = [0xdb, 0x10, 0, 0, 1, 0, 0, 0];
        assert_eq!(needs(&[add, exit]).unwrap().linux, BASE.linux);
        assert_eq!(needs(&[fetch_and_add, exit]).unwrap().linux, (5, 12));
    }

    #[test]
    fn what_is_too_new_or_not_known_is_refused() {
        let refused = |instruction: [u8; 8]| needs(&[instruction]).unwrap_err().to_string();
        let move_with_sign = [0xbf, 0x10, 8, 0, 0, 0, 0, 0];
        assert!(refused(move_with_sign).contains("needs Linux 6.6"));
        assert!(
            refused([0x06, 0, 0, 0, 1, 0, 0, 0]).contains("needs Linux 6.6"),
            "a jump with a wide offset"
        );
        assert!(refused([0x85, 0, 0, 0, 112, 0, 0, 0]).contains("helper 112"));
        assert!(refused([0x85, 0x20, 0, 0, 7, 0, 0, 0]).contains("kind 2"));
    }

    #[test]
    fn the_second_slot_of_a_wide_load_is_no_instruction() {
        let load = [0x18, 1, 0, 0, 1, 0, 0, 0];
        let second = [0, 0, 0, 0, 0x85, 0, 0, 0];
        let whole = needs(&[load, second, [0x95, 0, 0, 0, 0, 0, 0, 0]]).unwrap();
        assert_eq!((whole.linux, whole.instructions), (BASE.linux, 2));
    }
}
