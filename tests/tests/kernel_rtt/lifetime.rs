//! Attaching, what it needs, and that nothing stays behind.

use aya::programs::loaded_programs;
use stargate_dataplane::rtt::kernel::{AttachError, KernelRtt, LogLevel, Object, Options};
use stargate_tests::{Cgroup, eventually};

use crate::{
    peer::Peer,
    support::{Echo, SET_CALLBACKS, Talk, attach, options, patched},
};

/// Whether the kernel has a program of this number. One that is attached is loaded.
fn is_loaded(program: u32) -> bool {
    loaded_programs().any(|info| info.is_ok_and(|info| info.id() == program))
}

#[test]
fn nothing_stays_attached_after_it_is_dropped() {
    let Some(rtt) = attach() else { return };
    let program = rtt.program_id();
    assert!(is_loaded(program), "{program}");
    drop(rtt);
    // The kernel frees it after a grace period.
    eventually("the program is gone", || !is_loaded(program));
}

#[test]
fn nothing_stays_attached_after_its_process_was_killed() {
    let Some(rtt) = attach() else { return };
    let cgroup = Cgroup::new(rtt.attached_to());
    let echo = Echo::local();
    let mut peer = Peer::start();
    cgroup.take(peer.id());
    let program = peer.attach().expect("it attaches");
    peer.follow(echo.address());
    peer.talk(echo.address());
    assert!(is_loaded(program), "{program}");
    peer.kill();
    eventually("the program is gone", || !is_loaded(program));
}

#[test]
fn two_capabilities_are_enough_and_what_is_missing_is_said() {
    let Some(_) = attach() else { return };
    let echo = Echo::local();
    let mut peer = Peer::start();
    peer.keep_capabilities("BPF NET_ADMIN");
    peer.attach().expect("CAP_BPF and CAP_NET_ADMIN are enough");
    peer.follow(echo.address());
    peer.talk(echo.address());
    assert!(peer.connects(echo.address()) > 0);

    for (kept, missing) in [
        ("BPF", "this process lacks CAP_NET_ADMIN"),
        ("NET_ADMIN", "this process lacks CAP_BPF"),
        ("NET_RAW", "this process lacks CAP_BPF and CAP_NET_ADMIN"),
    ] {
        let mut peer = Peer::start();
        peer.keep_capabilities(kept);
        let refusal = peer.attach().expect_err("too little");
        assert!(refusal == format!("not permitted: {missing}"), "{kept}: {refusal}");
    }
}

#[test]
fn what_cannot_be_attached_to_is_named() {
    let Some(_) = attach() else { return };
    let attach_to = |cgroup: &str| {
        let options = Options { cgroup: Some(cgroup.into()), ..options() };
        KernelRtt::attach(options).expect_err("it is no cgroup")
    };
    let error = attach_to("/sys/fs/cgroup/no-such-group");
    assert!(matches!(error, AttachError::CgroupNotOpened { .. }), "{error:?}");
    let error = attach_to("/tmp");
    assert!(matches!(error, AttachError::NotACgroup(_)), "{error:?}");
    assert_eq!(error.to_string(), "/tmp is not a cgroup of version 2");
}

#[test]
fn what_is_no_program_is_refused_in_one_line() {
    let Some(_) = attach() else { return };
    let mut broken = Object::embedded().bytes().to_vec();
    broken.truncate(broken.len() / 2);
    for bytes in [b"no object at all".to_vec(), broken] {
        let options = Options { object: Object::from_bytes(bytes), ..Options::default() };
        let error = KernelRtt::attach(options).expect_err("it is no program");
        assert!(matches!(error, AttachError::Object(_)), "{error:?}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn a_program_that_the_verifier_refuses_is_refused_in_one_line() {
    let Some(_) = attach() else { return };
    // Turning the callbacks on becomes a call of a helper that there is none of.
    let object = patched(
        &options().object,
        |instruction| instruction == SET_CALLBACKS,
        |instruction| {
            instruction[4..].copy_from_slice(&i32::MAX.to_le_bytes());
        },
    );
    let options = Options { object, ..options() };
    let error = KernelRtt::attach(options).expect_err("it must not be loaded");
    assert!(matches!(error, AttachError::Refused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("the kernel refuses it (loading the program): ") && !text.contains('\n'),
        "{text}"
    );
    assert!(text.contains("invalid func"), "the verifier's own words: {text}");
}

#[test]
fn the_code_of_lines_that_nobody_asked_for_is_removed() {
    let Some(quiet) = attach() else { return };
    let verbose = KernelRtt::attach(Options { log: LogLevel::Debug, ..options() }).expect("it attaches");
    let [quiet, verbose] = [quiet, verbose].map(|rtt| {
        let info = loaded_programs().flatten().find(|info| info.id() == rtt.program_id());
        info.and_then(|info| info.size_translated()).expect("the kernel tells the size to root")
    });
    println!("{quiet} bytes of instructions; {verbose} with debug lines");
    // Two of three places that log.
    assert!(quiet < verbose / 2, "{quiet} bytes of instructions, {verbose} with debug lines");
}

#[test]
fn it_attaches_again_and_again() {
    let Some(mut last) = attach() else { return };
    let echo = Echo::local();
    for _ in 0..5 {
        let next = KernelRtt::attach(options()).expect("it attaches");
        assert_ne!(next.program_id(), last.program_id());
        last = next;
        last.follow([echo.address()].into_iter()).expect("room");
        drop(Talk::to(echo.address()));
        assert_eq!(last.samples(echo.address()).expect("readable").expect("followed").connects, 1);
    }
}
