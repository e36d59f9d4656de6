//! Another gateway's process: this test program again, told line by line what to do.

use std::{
    env,
    io::{self, BufRead, BufReader, Lines, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use stargate_dataplane::rtt::kernel::KernelRtt;

use crate::support::{Talk, options, samples};

/// Before what it says, between what the test harness prints.
const ANSWER: &str = "peer: ";
/// Before a refusal.
const REFUSED: &str = "refused: ";

const EXCHANGES: usize = 10;

/// The process. Killed when dropped.
pub(crate) struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

// === impl Peer ===

impl Peer {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env::current_exe().expect("this test program"))
            .args(["peer::process", "--exact", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test program starts");
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, orders, answers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives up all capabilities but these.
    pub(crate) fn keep_capabilities(&mut self, names: &str) {
        self.ask(&format!("keep {names}"));
    }

    /// Attaches to its own cgroup; returns the program's number, or the refusal.
    pub(crate) fn attach(&mut self) -> Result<u32, String> {
        let answer = self.ask("attach");
        match answer.strip_prefix(REFUSED) {
            Some(refusal) => Err(refusal.to_owned()),
            None => Ok(answer.parse().expect("a number")),
        }
    }

    pub(crate) fn follow(&mut self, address: SocketAddr) {
        self.ask(&format!("follow {address}"));
    }

    /// Connects to the address and exchanges a few bytes.
    pub(crate) fn talk(&mut self, address: SocketAddr) {
        self.ask(&format!("talk {address}"));
    }

    /// The connections to the address that its own program has counted.
    pub(crate) fn connects(&mut self, address: SocketAddr) -> u64 {
        self.ask(&format!("connects {address}")).parse().expect("a number")
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("it reads orders");
        loop {
            let line = self.answers.next().expect("it lives").expect("text");
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.to_owned();
            }
        }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
#[ignore = "a process of other tests"]
fn process() {
    let mut rtt: Option<KernelRtt> = None;
    for order in io::stdin().lines() {
        let order = order.expect("text");
        let (what, of) = order.split_once(' ').unwrap_or((&order, ""));
        let address = || of.parse::<SocketAddr>().expect("an address");
        let answer = match what {
            "keep" => {
                keep(of);
                String::new()
            }
            "attach" => match KernelRtt::attach(options()) {
                Ok(attached) => rtt.insert(attached).program_id().to_string(),
                Err(error) => format!("{REFUSED}{error}"),
            },
            "follow" => {
                rtt.as_mut().expect("attached").follow([address()].into_iter()).expect("room");
                String::new()
            }
            "talk" => {
                drop(Talk::to(address()).exchanges(EXCHANGES));
                String::new()
            }
            "connects" => samples(rtt.as_ref().expect("attached"), address()).connects.to_string(),
            other => panic!("no such order: {other}"),
        };
        println!("{ANSWER}{answer}");
    }
}

/// Capabilities are each thread's own; whatever is asked for runs on this one.
fn keep(names: &str) {
    let kept = names.split(' ').map(|name| match name {
        "BPF" => CapabilitySet::BPF,
        "NET_ADMIN" => CapabilitySet::NET_ADMIN,
        "NET_RAW" => CapabilitySet::NET_RAW,
        other => panic!("no such capability here: {other}"),
    });
    let mut sets = capabilities(None).expect("own capabilities");
    sets.effective = kept.collect();
    set_capabilities(None, sets).expect("less is always permitted");
}
