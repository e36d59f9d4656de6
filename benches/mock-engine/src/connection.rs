//! One client connection: request after request, each answered by whoever owns its path.

use std::{cell::Cell, rc::Rc};

use monoio::net::TcpStream;
use stargate_wire::net::socket;

use super::{
    answer::{Answer, Next},
    control::{self, Role},
    engine::Engine,
    faults::Kind,
    handover::Stamp,
    idle::{IdleWatch, Watched},
    inference,
    intake::{End, Intake, Request},
    output::Output,
    render,
};

/// Counts an open connection for as long as it lives.
struct Counted<'a>(&'a Cell<u64>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(engine: Rc<Engine>, idle: Rc<IdleWatch>, stream: TcpStream, role: Role) {
    let counters = &engine.counters;
    counters.connections_total.set(counters.connections_total.get() + 1);
    counters.connections_open.set(counters.connections_open.get() + 1);
    let _counted = Counted(&counters.connections_open);

    let (reader, writer) = socket::split(stream);
    let watched = idle.watch(&reader);
    let mut intake = Intake::new(reader);
    let mut output = Output::new(writer);
    let ending = requests(&engine, &watched, &mut intake, &mut output, role).await;
    if ending == Next::Reset {
        socket::reset(&intake.reader);
    }
}

async fn requests(
    engine: &Rc<Engine>,
    watched: &Watched,
    intake: &mut Intake,
    output: &mut Output,
    role: Role,
) -> Next {
    loop {
        watched.idle();
        let request = match intake.next_request(&mut output.writer, || watched.busy()).await {
            Ok(request) => request,
            Err(End::Closed) => return Next::Close,
            Err(End::Refused(error)) => {
                let answer = Answer::error(error.status, "invalid_request", error.message);
                let mut wire = output.buffer();
                answer.append(&engine.settings.id, true, false, &mut wire);
                // The client may be gone already; the connection ends either way.
                let _ = output.send(wire).await;
                return Next::Close;
            }
        };
        if let Some(stamp) = request.header(request.head.attempt.as_ref()).and_then(Stamp::parse) {
            engine.note_attempt(stamp);
        }
        // From here to where the request is taken in or refused nothing is awaited.
        let next = if role == Role::Engine && is_inference(&request) {
            inference::respond(engine, intake, output, &request).await
        } else {
            respond_whole(engine, intake, output, &request, role).await
        };
        if next != Next::Keep || !request.head.keep_alive {
            return next;
        }
        intake.recycle(request);
    }
}

fn is_inference(request: &Request) -> bool {
    request.method() == b"POST" && request.path().starts_with(b"/v1/") && request.path() != render::PATH
}

/// Answers everything that takes no engine time.
async fn respond_whole(
    engine: &Rc<Engine>,
    intake: &mut Intake,
    output: &mut Output,
    request: &Request,
    role: Role,
) -> Next {
    let is_probe = matches!(request.path(), b"/health" | b"/v1/models");
    let fault = if is_probe && role == Role::Engine { engine.faults.take_health() } else { None };
    let answer = match &fault {
        Some(Kind::Status { status, headers, body }) => {
            inference::status_fault(*status, headers, body.as_deref())
        }
        Some(Kind::HangBeforeHeaders {} | Kind::HangAfterHeaders {}) => {
            // Ends when the client leaves.
            let _ = intake.attended(std::future::pending::<()>()).await;
            return Next::Close;
        }
        Some(Kind::DieMidStream { .. }) => return Next::Reset,
        Some(Kind::Garbage {}) => {
            let _ = output.send(inference::GARBAGE.to_vec()).await;
            return Next::Close;
        }
        _ => control::answer(engine, request, role),
    };
    if let Some(Kind::SlowDrip { bytes, interval_ms }) = fault {
        output.set_drip(Some(inference::drip(bytes, interval_ms)));
    }
    let mut wire = output.buffer();
    answer.append(&engine.settings.id, !request.head.keep_alive, request.method() == b"HEAD", &mut wire);
    let sent = intake.attended(output.send(wire)).await;
    output.set_drip(None);
    match (sent, fault) {
        (Ok(Ok(())), Some(Kind::CloseAfterResponse {})) => Next::Close,
        (Ok(Ok(())), _) => Next::Keep,
        _ => Next::Close,
    }
}
