//! Serves the API on the admin listener, with a limit on everything: connections, time to send a head, time a
//! request takes. Descriptors are shared with the data plane, so that a leak of connections here would cost
//! clients there.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::error::ApiError;

/// Connections at once; more wait in the kernel's queue. Above what `max_backends` pushers share by far, below
/// the descriptors that are kept for the control plane.
const CONNECTIONS_MAX: usize = 128;
/// From the end of one request to the end of the next one's head. Scrapers come every minute at most.
const HEAD_TIME_MAX: Duration = Duration::from_secs(90);
/// One request, its body included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed accept (no descriptor left, usually), which would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `app` until `stop`, then lets open requests finish.
pub async fn serve(listener: TcpListener, app: Router, stop: impl Future<Output = ()>) {
    let app = app.layer(axum::middleware::from_fn(limit_time));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let (graceful, slots) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let mut stop = pin!(stop);
    loop {
        let accept = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accept => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the admin API");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(app.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _slot = slot;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the admin API broke");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn limit_time(request: Request, next: Next) -> Response {
    match timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!("the request took over {} s", REQUEST_TIME_MAX.as_secs()),
        )
        .into_response(),
    }
}
