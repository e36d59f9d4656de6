//! The closed loop: each connection sends its next request when the last one is answered. It measures throughput and
//! cost; its latencies are those of a system that is never asked more than it answers.

use std::{rc::Rc, time::Instant};

use super::{message::Target, session::Session};

/// Sends requests over one connection until the session ends.
pub(crate) async fn connection(session: Rc<Session>, target: Rc<Target>) {
    let mut link = session.link(&target);
    while session.may_start() {
        session.exchange(&mut link, &target, Instant::now(), true).await;
    }
    link.disconnect();
}
