//! Where this process is among the cgroups of version 2, as a folder to attach to.
//!
//! Version 2 may be mounted alone (`/sys/fs/cgroup`) or beside version 1 (`/sys/fs/cgroup/unified`), and a container may
//! see a part of the hierarchy only: hence by what the kernel says, not by well-known paths (cgroups(7)).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A mount of the hierarchy of version 2.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The cgroup that is mounted, as `/proc/<pid>/cgroup` names cgroups.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

/// The folder of this process's own cgroup.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is none that it can see, with the reason.
pub fn own() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let cgroups = fs::read_to_string("/proc/self/cgroup")?;
    folder_of(&mounts, &cgroups).map_err(|reason| io::Error::new(io::ErrorKind::NotFound, reason))
}

/// The folder, by the contents of `mountinfo` (proc_pid_mountinfo(5)) and `cgroup` (cgroups(7)).
fn folder_of(mounts: &str, cgroups: &str) -> Result<PathBuf, &'static str> {
    let mut mounts = mounts.lines().filter_map(mount_of).peekable();
    if mounts.peek().is_none() {
        return Err("no cgroup of version 2 is mounted");
    }
    let own = cgroups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("this process is in no cgroup of version 2")?;
    // A cgroup that was removed meanwhile.
    let own = Path::new(own.strip_suffix(" (deleted)").unwrap_or(own));
    mounts
        .find_map(|mount| Some(mount.point.join(own.strip_prefix(&mount.root).ok()?)))
        .ok_or("this process's cgroup of version 2 is in none of the mounts that it sees")
}

/// The mount in this line, if it is one of version 2.
fn mount_of(line: &str) -> Option<Mount> {
    // 42 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
    let (mount, filesystem) = line.split_once(" - ")?;
    if filesystem.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    Some(Mount { root: unescaped(root).into(), point: unescaped(point).into() })
}

/// A path as `mountinfo` writes it: space, tab, line feed and backslash as `\` and three octal digits.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code.filter(u8::is_ascii) {
            plain.push(code.into());
            plain.push_str(&part[3..]);
        } else {
            plain.push('\\');
            plain.push_str(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURE: &str = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                        30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn folder(mounts: &str, cgroups: &str) -> Result<String, &'static str> {
        folder_of(mounts, cgroups).map(|path| path.to_str().expect("text").to_owned())
    }

    #[test]
    fn it_is_found_alone_and_beside_version_1() {
        assert_eq!(
            folder(PURE, "0::/system.slice/stargate.service\n").unwrap(),
            "/sys/fs/cgroup/system.slice/stargate.service"
        );
        assert_eq!(folder(HYBRID, "4:memory:/a\n1:cpu:/b\n0::/c\n").unwrap(), "/sys/fs/cgroup/unified/c");
        assert_eq!(folder(HYBRID, "0::/\n").unwrap(), "/sys/fs/cgroup/unified/");
    }

    #[test]
    fn a_part_of_the_hierarchy_is_enough_when_it_holds_this_process() {
        let part = "50 40 0:38 /pods/one /mnt/cg rw - cgroup2 none rw\n";
        assert_eq!(folder(part, "0::/pods/one/gateway\n").unwrap(), "/mnt/cg/gateway");
        assert_eq!(
            folder(&format!("{part}{HYBRID}"), "0::/elsewhere\n").unwrap(),
            "/sys/fs/cgroup/unified/elsewhere"
        );
        assert!(folder(part, "0::/pods/another\n").unwrap_err().contains("none of the mounts"));
        assert!(folder(part, "0::/../outside\n").unwrap_err().contains("none of the mounts"));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(
            folder("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n").unwrap_err().contains("is mounted")
        );
        assert!(folder(PURE, "1:cpu:/\n").unwrap_err().contains("in no cgroup"));
    }

    #[test]
    fn escaped_characters_are_read() {
        let odd = "41 31 0:38 / /mnt/a\\040b\\134c\\9 rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folder(odd, "0::/x\n").unwrap(), "/mnt/a b\\c\\9/x");
    }
}
