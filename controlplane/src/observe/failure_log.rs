//! The log line of a request that failed: one a request, with all that an operator asks for, at a level that says
//! whether it is news.

use stargate_dataplane::{ErrorCode, Failure, Fault};

/// Status of a request whose client left before one was sent.
const CLIENT_LEFT: u16 = 499;

/// One line with all that an operator asks for. A fault of the caller is no news; everything else is.
pub(super) fn log(failure: &Failure) {
    let row = failure.code.map(ErrorCode::row);
    let is_client_fault = failure.status == CLIENT_LEFT
        || row.map_or((400..500).contains(&failure.status), |row| row.fault == Fault::Client);
    let fault = match row.map(|row| row.fault) {
        _ if is_client_fault => "client",
        Some(Fault::Gateway) => "gateway",
        _ => "upstream",
    };
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                request_id = &*failure.request_id,
                request = &*failure.request_line,
                model = &*failure.model,
                status = failure.status,
                code = row.map_or("", |row| row.code),
                fault,
                backend_id = failure.backend_id.as_deref().unwrap_or(""),
                attempts = failure.attempts,
                elapsed_ms = failure.elapsed.as_millis() as u64,
                waited_ms = failure.waited.as_millis() as u64,
                reason = &*failure.message,
                "request failed"
            )
        };
    }
    if is_client_fault {
        line!(info);
    } else {
        line!(warn);
    }
}
