//! What a process cost so far, as the kernel counts it: CPU time of each thread, memory, descriptors.
//!
//! Always that of the process and all that descend from it: a server may be a starter with workers. Pages that they share
//! count once for each in resident memory, and once in all in the proportional share.

use std::{fs, io};

use anyhow::Context;

/// CPU time of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadCpu {
    pub(crate) tid: u32,
    /// The thread's name.
    pub(crate) name: String,
    /// Nanoseconds on a CPU since it began.
    pub(crate) ns: u64,
}

/// A process and its descendants at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSample {
    pub(crate) pid: u32,
    pub(crate) threads: Vec<ThreadCpu>,
    /// Resident memory.
    pub(crate) rss_bytes: u64,
    /// The share of it that is their own, where the kernel tells.
    pub(crate) pss_bytes: Option<u64>,
    /// Open descriptors.
    pub(crate) descriptors: usize,
}

/// Takes a sample. The scheduler's statistics are exact for threads that sleep, and off by a tick for running ones.
pub(crate) fn sample(pid: u32) -> anyhow::Result<ProcessSample> {
    let mut sum = of_one(pid)?;
    let mut unseen = children(pid);
    while let Some(child) = unseen.pop() {
        // One may end while we look.
        let Ok(sample) = of_one(child) else { continue };
        unseen.extend(children(child));
        sum.threads.extend(sample.threads);
        sum.rss_bytes += sample.rss_bytes;
        sum.pss_bytes = sum.pss_bytes.zip(sample.pss_bytes).map(|(sum, bytes)| sum + bytes);
        sum.descriptors += sample.descriptors;
    }
    Ok(sum)
}

fn of_one(pid: u32) -> anyhow::Result<ProcessSample> {
    let threads = threads(pid).with_context(|| format!("process {pid}"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("status")?;
    let rss_kb = kilobytes(&status, "VmRSS:").with_context(|| format!("process {pid} has ended"))?;
    let pss_kb = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .ok()
        .and_then(|rollup| kilobytes(&rollup, "Pss:"));
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Ok(ProcessSample {
        pid,
        threads,
        rss_bytes: rss_kb * 1024,
        pss_bytes: pss_kb.map(|kb| kb * 1024),
        descriptors,
    })
}

/// CPU time that each thread spent between two samples, most first; threads that ended in between are not known.
pub(crate) fn cpu_between(before: &ProcessSample, after: &ProcessSample) -> Vec<ThreadCpu> {
    let mut spent: Vec<ThreadCpu> = after
        .threads
        .iter()
        .map(|thread| {
            let former = before.threads.iter().find(|former| former.tid == thread.tid);
            let ns = thread.ns.saturating_sub(former.map_or(0, |former| former.ns));
            ThreadCpu { ns, ..thread.clone() }
        })
        .collect();
    spent.sort_by(|left, right| right.ns.cmp(&left.ns).then(left.tid.cmp(&right.tid)));
    spent
}

/// What its threads have started and not yet reaped.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn threads(pid: u32) -> io::Result<Vec<ThreadCpu>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = entry?.path();
        let Some(tid) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A thread may end while we look.
        let Ok(statistics) = fs::read_to_string(path.join("schedstat")) else { continue };
        let ns = statistics.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default().trim_end().to_owned();
        threads.push(ThreadCpu { tid, name, ns });
    }
    Ok(threads)
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_this_process_at_work() {
        let before = sample(std::process::id()).unwrap();
        assert!(before.rss_bytes > 0 && before.descriptors > 0);
        let mut sum = 0_u64;
        let after = loop {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
            let after = sample(std::process::id()).unwrap();
            if cpu_between(&before, &after).iter().map(|thread| thread.ns).sum::<u64>() > 0 {
                break after;
            }
        };
        assert!(after.threads.iter().all(|thread| !thread.name.is_empty()), "{sum}");
    }

    #[test]
    fn descendants_count_too() {
        let own = of_one(std::process::id()).unwrap();
        // A shell that waits for a child of its own.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 30 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut started = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut started).unwrap();
        let pid = shell.id();
        let (alone, tree, from_here) =
            (of_one(pid).unwrap(), sample(pid).unwrap(), sample(std::process::id()).unwrap());
        for child in children(pid) {
            let child = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
            rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
        assert_eq!((alone.threads.len(), tree.threads.len()), (1, 2));
        assert!(tree.rss_bytes > alone.rss_bytes && tree.descriptors > alone.descriptors);
        assert!(from_here.rss_bytes > own.rss_bytes);
    }

    #[test]
    fn subtracts_thread_by_thread() {
        let thread = |tid, ns| ThreadCpu { tid, name: "t".to_owned(), ns };
        let process =
            |threads| ProcessSample { pid: 1, threads, rss_bytes: 0, pss_bytes: None, descriptors: 0 };
        let spent = cpu_between(
            &process(vec![thread(1, 100), thread(2, 50)]),
            &process(vec![thread(1, 110), thread(2, 90), thread(3, 7)]),
        );
        assert_eq!(spent, [thread(2, 40), thread(1, 10), thread(3, 7)]);
        assert_eq!(kilobytes("a: 1 kB\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
    }
}
