//! The open loop: requests are due at their times, whatever became of those before.
//!
//! Latency counts from the time at which a request was due, so a stall is felt by all that were due meanwhile (no
//! coordinated omission). What finds no free connection waits in line; what is still there at the end was never sent.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    io,
    rc::Rc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use stargate_wire::net::timer::PreciseTimer;

use super::{message::Target, session::Session};

/// Requests that wait for a connection; beyond, they count as not sent at once.
const BACKLOG_MAX: usize = 1_000_000;

/// After the last one became due, those that wait get this long to find a connection.
const BACKLOG_DRAIN: Duration = Duration::from_secs(1);

/// How often the backlog is looked at meanwhile.
const BACKLOG_POLL: Duration = Duration::from_millis(2);

/// A request sent later than this after its time was late.
const LATE: Duration = Duration::from_millis(1);

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// Exponential gaps, as of many independent clients.
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// Hands due requests to free connections.
pub(crate) struct Dispatcher {
    session: Rc<Session>,
    due: RefCell<VecDeque<Due>>,
    /// Free connections, the one that is free longest first.
    idle: RefCell<VecDeque<Waker>>,
    closed: Cell<bool>,
    pub(crate) dispatched: Cell<u64>,
    pub(crate) late: Cell<u64>,
    pub(crate) unsent: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Due {
    at: Instant,
    counted: bool,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// No request is due yet.
    pub(crate) fn new(session: Rc<Session>) -> Self {
        Self {
            session,
            due: RefCell::default(),
            idle: RefCell::default(),
            closed: Cell::new(false),
            dispatched: Cell::new(0),
            late: Cell::new(0),
            unsent: Cell::new(0),
        }
    }

    /// Makes requests due at `rate` a second for `time`; those of the warm-up (`counted` false) are not measured.
    pub(crate) async fn run(
        &self,
        rate: f64,
        arrivals: Arrivals,
        rng: &mut fastrand::Rng,
        time: Duration,
        counted: bool,
    ) -> io::Result<()> {
        let timer = PreciseTimer::new()?;
        let start = Instant::now();
        let mut offset = Duration::ZERO;
        loop {
            offset += gap(rate, arrivals, rng);
            if offset >= time {
                timer.sleep((start + time).saturating_duration_since(Instant::now())).await?;
                return Ok(());
            }
            let at = start + offset;
            timer.sleep(at.saturating_duration_since(Instant::now())).await?;
            self.make_due(Due { at, counted });
        }
    }

    /// No more requests become due; what nobody took within a second from now is not sent.
    pub(crate) async fn close(&self) {
        let last = Instant::now();
        while !self.due.borrow().is_empty() && last.elapsed() < BACKLOG_DRAIN {
            monoio::time::sleep(BACKLOG_POLL).await;
        }
        self.closed.set(true);
        let left = self.due.take().iter().filter(|due| due.counted).count();
        self.unsent.set(self.unsent.get() + left as u64);
        for waker in self.idle.take() {
            waker.wake();
        }
    }

    /// Sends due requests over one connection until the dispatcher closes.
    pub(crate) async fn connection(self: Rc<Self>, target: Rc<Target>) {
        let mut link = self.session.link(&target);
        // Connected ahead: the handshake is not part of what a pool's request costs. A refusal shows at the first request.
        let _ = link.connect().await;
        while let Some(due) = self.take_due().await {
            if due.counted {
                self.dispatched.set(self.dispatched.get() + 1);
                if due.at.elapsed() > LATE {
                    self.late.set(self.late.get() + 1);
                }
            }
            self.session.exchange(&mut link, &target, due.at, due.counted).await;
        }
        link.disconnect();
    }

    fn make_due(&self, due: Due) {
        let mut waiting = self.due.borrow_mut();
        if waiting.len() >= BACKLOG_MAX {
            self.unsent.set(self.unsent.get() + u64::from(due.counted));
            return;
        }
        waiting.push_back(due);
        if let Some(waker) = self.idle.borrow_mut().pop_front() {
            waker.wake();
        }
    }

    async fn take_due(&self) -> Option<Due> {
        poll_fn(|context| {
            if let Some(due) = self.due.borrow_mut().pop_front() {
                return Poll::Ready(Some(due));
            }
            if self.closed.get() {
                return Poll::Ready(None);
            }
            self.idle.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

fn gap(rate: f64, arrivals: Arrivals, rng: &mut fastrand::Rng) -> Duration {
    let mean = 1.0 / rate;
    Duration::from_secs_f64(match arrivals {
        Arrivals::Fixed => mean,
        // 1 − [0, 1) is never 0.
        Arrivals::Poisson => -(1.0 - rng.f64()).ln() * mean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_of_their_rate() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(gap(2000.0, Arrivals::Fixed, &mut rng), Duration::from_micros(500));
        let gaps: Vec<f64> =
            (0..100_000).map(|_| gap(2000.0, Arrivals::Poisson, &mut rng).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 0.0005 - 1.0).abs() < 0.02, "{mean}");
        // Exponential: a share of 1/e is longer than the mean.
        let longer = gaps.iter().filter(|gap| **gap > 0.0005).count() as f64 / gaps.len() as f64;
        assert!((longer - 0.3679).abs() < 0.01, "{longer}");
    }
}
