//! The map of addresses: its bounds, and that no count is lost.

use std::{net::SocketAddr, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use stargate_dataplane::rtt::kernel::{KernelRtt, MapError, Options, RttSamples};
use stargate_tests::eventually;

use crate::support::{Echo, Talk, attach, options, samples};

/// Any addresses; nobody connects to them.
fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], number))
}

#[test]
fn a_full_map_keeps_what_it_has_and_says_how_many_found_no_room() {
    let Some(_) = attach() else { return };
    let mut rtt = KernelRtt::attach(Options { addresses_max: 3, ..options() }).expect("it attaches");
    let echo = Echo::local();
    rtt.follow([echo.address()].into_iter()).expect("room");
    // Kept open: its end would be one more sample.
    let _open = Talk::to(echo.address()).exchanges(5);
    let before = samples(&rtt, echo.address());

    let with = |numbers: std::ops::Range<u16>| [echo.address()].into_iter().chain(numbers.map(address));
    let error = rtt.follow(with(1..6)).expect_err("there is room for three");
    assert!(matches!(error, MapError::Full { followed: 3, without_room: 3 }), "{error:?}");
    assert_eq!(error.to_string(), "no room for 3 addresses beside the 3 that are measured");
    assert_eq!(samples(&rtt, echo.address()), before, "what was there is kept");
    assert_eq!(
        rtt.samples(address(2)).expect("readable"),
        Some(RttSamples::default()),
        "the first come first"
    );
    assert_eq!(rtt.samples(address(3)).expect("readable"), None);

    // Following the same addresses again changes nothing; room that is given up is taken.
    assert!(matches!(rtt.follow(with(1..6)), Err(MapError::Full { followed: 3, without_room: 3 })));
    rtt.follow(with(4..6)).expect("room for three");
    assert_eq!(rtt.samples(address(1)).expect("readable"), None);
    assert_eq!(rtt.samples(address(5)).expect("readable"), Some(RttSamples::default()));
    assert_eq!(samples(&rtt, echo.address()), before);
}

#[test]
fn an_address_counts_once_however_it_is_written() {
    let Some(mut rtt) = attach() else { return };
    let echo = Echo::local();
    let mapped: SocketAddr =
        format!("[::ffff:127.0.0.1]:{}", echo.address().port()).parse().expect("an address");
    rtt.follow([echo.address(), mapped, echo.address()].into_iter()).expect("room");
    assert_eq!(rtt.followed(), 1);
    // A socket of IPv6 that connects to an IPv4 address is told apart by nothing else.
    let _open = [Talk::to(mapped), Talk::to(echo.address())];
    assert_eq!(samples(&rtt, mapped).connects, 2);
    assert_eq!(samples(&rtt, mapped), samples(&rtt, echo.address()));
}

#[test]
fn as_many_addresses_as_promised_find_room() {
    let Some(mut rtt) = attach() else { return };
    let all = usize::try_from(stargate_dataplane::rtt::kernel::ENDPOINTS_MAX).expect("not so many");
    rtt.follow((1..=all as u16).map(address)).expect("room for all");
    assert_eq!(rtt.followed(), all);
    assert!(matches!(
        rtt.follow((1..=all as u16 + 1).map(address)),
        Err(MapError::Full { without_room: 1, .. })
    ));
    rtt.follow(std::iter::empty()).expect("all can go");
    assert_eq!(rtt.followed(), 0);
}

#[test]
fn no_count_is_lost_however_many_cpus_count() {
    const THREADS_PER_CPU: usize = 4;
    const CONNECTIONS: usize = 40;
    const EXCHANGES: usize = 25;
    let (Some(mut rtt), Some(mut other)) = (attach(), attach()) else { return };
    let echo = Echo::local();
    let address = echo.address();
    for rtt in [&mut rtt, &mut other] {
        rtt.follow([address].into_iter()).expect("room");
    }
    let allowed = sched_getaffinity(None).expect("the CPUs of this process");
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(4).collect();
    thread::scope(|threads| {
        for cpu in cpus.iter().flat_map(|cpu| [*cpu; THREADS_PER_CPU]) {
            threads.spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                sched_setaffinity(None, &only).expect("an allowed CPU");
                for _ in 0..CONNECTIONS {
                    Talk::to(address).exchanges(EXCHANGES);
                }
            });
        }
    });
    let opened = (cpus.len() * THREADS_PER_CPU * CONNECTIONS) as u64;
    assert_eq!(samples(&rtt, address).connects, opened);
    assert!(samples(&rtt, address).samples >= opened * EXCHANGES as u64 / 2, "{:?}", samples(&rtt, address));
    // Two programs that saw the same counted the same, once the last connections have closed.
    eventually("both have counted the same", || {
        let (one, two) = (samples(&rtt, address), samples(&other, address));
        (one.samples, one.connects) == (two.samples, two.connects)
    });
}
