//! A client that leaves: the engine learns of it in every phase, and no counter stays behind.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use stargate_tests::{
    Blackhole, Connection, DEADLINE, Engine, Exchange, Gateway, RawEngine, Request, Then, eventually,
};

/// Cancels of the storm below, over all its clients.
const CANCELS: usize = 500;

/// Clients of the storm.
const CLIENTS: usize = 4;

/// Longest moment for which a client of the storm listens before it leaves.
const PATIENCE_MAX: Duration = Duration::from_millis(8);

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    Fin,
    Reset,
}

fn leave(connection: Connection, how: Leave) {
    match how {
        Leave::Fin => drop(connection),
        Leave::Reset => connection.reset(),
    }
}

/// An engine that does `before`, and then reports whether the gateway closed the connection.
fn watching_engine(
    before: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static,
) -> (RawEngine, mpsc::Receiver<bool>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let engine = RawEngine::start(move |exchange| {
        before(exchange);
        let closed = exchange.closed_by_gateway();
        let _ = sender.lock().expect("one request at a time").send(closed);
        Then::Close
    });
    (engine, receiver)
}

/// Runs one phase: sends `request`, lets `reach` read up to the phase, leaves, and expects that the engine's
/// connection is closed. No timeout of the gateway is short enough to be what closes it.
fn engine_learns_of_the_leaving(
    request: &Request,
    before: impl Fn(&mut Exchange<'_>) + Send + Sync + Copy + 'static,
    reach: impl Fn(&mut Connection),
) {
    for how in [Leave::Fin, Leave::Reset] {
        let (engine, closed) = watching_engine(before);
        let gateway = Gateway::before(&engine.url());
        let mut connection = gateway.client().connect();
        connection.send(request.to_bytes());
        engine.wait_for_requests(1);
        reach(&mut connection);
        eventually("the request is in flight", || gateway.in_flight() > 0);
        leave(connection, how);
        assert_eq!(closed.recv_timeout(DEADLINE), Ok(true), "{how:?}");
        gateway.wait_until_idle();
        assert_eq!(engine.request_count(), 1, "a cancelled request is not retried");
    }
}

fn begin_stream(exchange: &mut Exchange<'_>) {
    exchange.begin_stream();
}

fn read_head(connection: &mut Connection) {
    let _ = connection.receive_head().expect("a head");
}

fn read_head_and_some(connection: &mut Connection) {
    let head = connection.receive_head().expect("a head");
    let _ = connection.body(&head).next_data();
}

#[test]
fn before_the_head_of_a_plain_answer() {
    engine_learns_of_the_leaving(&Request::chat("mock"), |_| {}, |_| {});
}

#[test]
fn before_the_head_of_a_stream() {
    engine_learns_of_the_leaving(&Request::chat_stream("mock"), |_| {}, |_| {});
}

#[test]
fn within_a_plain_answer() {
    let begin = |exchange: &mut Exchange<'_>| {
        exchange
            .send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"a\"");
    };
    engine_learns_of_the_leaving(&Request::chat("mock"), begin, read_head_and_some);
}

#[test]
fn before_the_first_byte_of_a_stream() {
    engine_learns_of_the_leaving(&Request::chat_stream("mock"), begin_stream, read_head);
}

#[test]
fn within_a_stream() {
    let begin = |exchange: &mut Exchange<'_>| {
        exchange.begin_stream();
        exchange.send_chunk("data: {\"n\":0}\n\n");
    };
    engine_learns_of_the_leaving(&Request::chat_stream("mock"), begin, read_head_and_some);
}

/// The client is noticed also while the engine keeps sending: writes to it fail.
#[test]
fn within_a_stream_that_never_pauses() {
    let flood = |exchange: &mut Exchange<'_>| {
        exchange.begin_stream();
        while !exchange.is_closed() {
            exchange.send_chunk("data: {\"n\":0}\n\n");
        }
    };
    engine_learns_of_the_leaving(&Request::chat_stream("mock"), flood, read_head_and_some);
}

#[test]
fn while_the_gateway_connects() {
    for how in [Leave::Fin, Leave::Reset] {
        let blackhole = Blackhole::start();
        let before = blackhole.hanging();
        let gateway = Gateway::builder()
            .set("health.interval_ms", 60_000)
            // Not what ends the attempt below.
            .set("timeouts.connect_ms", 60_000)
            .start();
        gateway.register("blackhole", &format!("http://{}", blackhole.address()));
        let mut connection = gateway.client().connect();
        connection.send(Request::chat("mock").to_bytes());
        eventually("the request is in flight", || gateway.in_flight() > 0);
        eventually("the gateway connects", || blackhole.hanging() > before);
        leave(connection, how);
        gateway.wait_until_idle();
        // A health check may hang there as well, for its own short timeout.
        eventually("the connect is given up", || blackhole.hanging() == before);
    }
}

#[test]
fn within_the_request_body() {
    for how in [Leave::Fin, Leave::Reset] {
        let engine = Engine::start("e1");
        let gateway = Gateway::before(&engine.url());
        let request = Request::chat("mock");
        let mut connection = gateway.client().connect();
        connection.send(request.head_bytes());
        connection.send(&request.body_bytes()[..10]);
        leave(connection, how);
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
        assert_eq!(engine.counter("requests_started"), 1, "half a request is none");
        gateway.wait_until_idle();
    }
}

/// The mock engine counts cancels itself: what its operator would see.
#[test]
fn an_engine_stops_generating_for_a_client_that_left() {
    let engine = Engine::builder("e1").flag("decode-tps", 20).flag("output-tokens", 100_000).start();
    let gateway = Gateway::before(&engine.url());
    for (number, request) in [Request::chat_stream("mock"), Request::chat("mock")].iter().enumerate() {
        let mut connection = gateway.client().connect();
        connection.send(request.to_bytes());
        engine.wait_for_counter("running", 1);
        drop(connection);
        engine.wait_for_counter("running", 0);
        engine.wait_for_counter("requests_cancelled", number as u64 + 1);
    }
    gateway.wait_until_idle();
}

/// One request that its client gives up: after a part of it, or after a moment of listening.
fn cancel_at_random(gateway_connection: Connection, random: &mut fastrand::Rng) {
    let mut connection = gateway_connection;
    let request = if random.bool() { Request::chat_stream("mock") } else { Request::chat("mock") };
    let bytes = request.to_bytes();
    if random.u8(..4) == 0 {
        connection.send(&bytes[..random.usize(..bytes.len())]);
    } else {
        connection.send(&bytes);
        connection.set_read_timeout(PATIENCE_MAX.mul_f64(random.f64()).max(Duration::from_micros(100)));
        if let Ok(head) = connection.receive_head() {
            let mut body = connection.body(&head);
            for _ in 0..random.usize(..6) {
                if body.next_piece().is_err() {
                    break;
                }
            }
        }
    }
    leave(connection, if random.bool() { Leave::Fin } else { Leave::Reset });
}

#[test]
fn cancels_at_random_phases_leave_every_counter_at_zero() {
    // Slow enough that most requests are cut somewhere, with a queue, so that some never start.
    let engines: Vec<Engine> = ["e1", "e2"]
        .into_iter()
        .map(|id| {
            Engine::builder(id)
                .flag("decode-tps", 2000)
                .flag("prefill-tps", 10_000)
                .flag("output-tokens", 8)
                .flag("concurrency", 2)
                .start()
        })
        .collect();
    // Chooses by load alone: throughput learned from the storm would prefer one of them for good.
    let gateway = Gateway::builder()
        .set("routing.default.algorithm", "\"power-of-n\"")
        .set("routing.default.comparator", "\"num-requests-queued\"")
        .backend("e1", &engines[0].url())
        .backend("e2", &engines[1].url())
        .start();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = gateway.client();
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(0x5747_0000 + number as u64);
                for _ in 0..CANCELS / CLIENTS {
                    cancel_at_random(client.connect(), &mut random);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    gateway.wait_until_idle();
    for engine in &engines {
        engine.wait_for_counter("running", 0);
        engine.wait_for_counter("queued", 0);
        assert!(engine.counter("requests_cancelled") > 0, "the storm cut some");
    }
    // Both backends are still chosen: no leaked counter makes one look busy.
    let mut served: Vec<String> = (0..20)
        .map(|_| gateway.client().send(&Request::chat("mock")).expect_ok().served_by().to_owned())
        .collect();
    served.sort();
    served.dedup();
    assert_eq!(served, ["e1", "e2"]);
    gateway.wait_until_idle();
}
