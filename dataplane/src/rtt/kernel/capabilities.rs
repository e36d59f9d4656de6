//! What this thread may do, so that a refusal can say what is missing.

use std::fs;

/// Capabilities that loading and attaching the program need, with their numbers (capabilities(7)).
const NEEDED: [(&str, u32); 2] = [("CAP_BPF", 39), ("CAP_NET_ADMIN", 12)];

/// Stands in for all of them.
const CAP_SYS_ADMIN: u32 = 21;

/// Those that are needed and not there; `None` when the kernel does not say.
pub(super) fn missing() -> Option<Vec<&'static str>> {
    missing_in(&fs::read_to_string("/proc/thread-self/status").ok()?)
}

/// By the contents of `/proc/<pid>/status`.
fn missing_in(status: &str) -> Option<Vec<&'static str>> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    let has = |number: u32| effective & (1 << number) != 0;
    let is_missing =
        |(name, number): &(&str, u32)| !has(*number) && (*name != "CAP_BPF" || !has(CAP_SYS_ADMIN));
    Some(NEEDED.iter().filter(|needed| is_missing(needed)).map(|(name, _)| *name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let missing = |effective: &str| missing_in(&format!("Name:\tx\nCapEff:\t{effective}\nCapBnd:\t0\n"));
        assert_eq!(missing("0000000000000000").unwrap(), ["CAP_BPF", "CAP_NET_ADMIN"]);
        assert_eq!(missing("0000008000000000").unwrap(), ["CAP_NET_ADMIN"]);
        assert_eq!(missing("0000000000001000").unwrap(), ["CAP_BPF"]);
        assert_eq!(missing("0000000000200000").unwrap(), ["CAP_NET_ADMIN"], "CAP_SYS_ADMIN is CAP_BPF too");
        assert_eq!(missing("0000008000001000").unwrap(), [""; 0]);
        assert_eq!(missing("000001ffffffffff").unwrap(), [""; 0]);
        assert_eq!(missing_in("Name:\tx\n"), None);
    }
}
