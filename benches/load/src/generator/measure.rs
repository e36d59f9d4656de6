//! One measurement: warm-up, a window in which everything counts, and the account at its end.

use std::{
    pin::{Pin, pin},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Context;
use stargate_wire::net::race::{First, race};

use super::{
    closed,
    message::Target,
    open::{Arrivals, Dispatcher},
    report::{Open, ProcessCost, Report},
    session::Session,
};
use crate::procfs::{self, ProcessSample};

/// After the window, answers under way get this long before they are abandoned (they no longer count).
const DRAIN: Duration = Duration::from_millis(500);

/// A closed loop that is bounded both ways waits for its last answers for up to so many times its time.
const PATIENCE: u32 = 4;

/// What to measure.
pub(crate) struct Plan {
    /// Connections are spread over them in turn. Not empty.
    pub(crate) targets: Vec<Rc<Target>>,
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    pub(crate) warmup: Duration,
    /// Nothing of an answer for this long is a failure.
    pub(crate) timeout: Duration,
    /// A first byte within this time is in time.
    pub(crate) goal: Option<Duration>,
    /// Processes whose cost is counted.
    pub(crate) pids: Vec<u32>,
    pub(crate) seed: u64,
}

/// When requests are sent, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// The next when the last is answered.
    Closed(Until),
    /// At a rate.
    Open { rate: f64, arrivals: Arrivals, time: Duration },
}

/// How long a closed loop runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// So many requests after the warm-up.
    Requests(u64),
    /// So long after the warm-up.
    Time(Duration),
    /// So many requests after the warm-up, but none is started later than this. Those under way then are waited for, four
    /// times as long: with few slow requests, half done ones would make up much of the account.
    RequestsWithin(u64, Duration),
}

/// State at the opening of the window.
struct Opening {
    at: Instant,
    samples: Vec<ProcessSample>,
}

// === impl Until ===

impl Until {
    /// How many requests, where they are bounded.
    fn requests(self) -> Option<u64> {
        match self {
            Self::Requests(requests) | Self::RequestsWithin(requests, _) => Some(requests),
            Self::Time(_) => None,
        }
    }
}

/// Carries a plan out. Call it inside the runtime.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let session = Rc::new(Session::new(plan.timeout, plan.goal));
    let work = pin!(async {
        match plan.pace {
            Pace::Closed(until) => closed_loop(plan, &session, until).await,
            Pace::Open { rate, arrivals, time } => open_loop(plan, &session, rate, arrivals, time).await,
        }
    });
    match race(work, pin!(session.watch())).await {
        First::Left(report) => report,
        First::Right(()) => unreachable!("the watch does not end"),
    }
}

async fn closed_loop(plan: &Plan, session: &Rc<Session>, until: Until) -> anyhow::Result<Report> {
    let limit = until.requests();
    // Without a warm-up the first connections count too: the window opens before them.
    let opening = if plan.warmup.is_zero() { Some(open_window(plan, session, limit)?) } else { None };
    let connections: Vec<_> = (0..plan.connections)
        .map(|index| monoio::spawn(closed::connection(session.clone(), target(plan, index))))
        .collect();
    let opening = if let Some(opening) = opening {
        opening
    } else {
        monoio::time::sleep(plan.warmup).await;
        open_window(plan, session, limit)?
    };
    let mut all = pin!(join(connections));
    let ended = match until {
        Until::Requests(_) => {
            all.as_mut().await;
            true
        }
        Until::Time(time) => within(time, all.as_mut()).await,
        Until::RequestsWithin(_, time) => {
            let ended = within(time, all.as_mut()).await;
            session.ending.set(true);
            ended || within(time * PATIENCE, all.as_mut()).await
        }
    };
    session.ending.set(true);
    session.recording.set(false);
    let elapsed = opening.at.elapsed();
    let costs = costs_since(&opening, session)?;
    if !ended {
        drain(session, all.as_mut()).await;
    }
    Ok(Report::new(&session.recorder.borrow(), elapsed, plan.connections, costs, None))
}

async fn open_loop(
    plan: &Plan,
    session: &Rc<Session>,
    rate: f64,
    arrivals: Arrivals,
    time: Duration,
) -> anyhow::Result<Report> {
    let dispatcher = Rc::new(Dispatcher::new(session.clone()));
    let connections: Vec<_> = (0..plan.connections)
        .map(|index| monoio::spawn(dispatcher.clone().connection(target(plan, index))))
        .collect();
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    dispatcher.run(rate, arrivals, &mut rng, plan.warmup, false).await.context("timer")?;
    let opening = open_window(plan, session, None)?;
    dispatcher.run(rate, arrivals, &mut rng, time, true).await.context("timer")?;
    let elapsed = opening.at.elapsed();
    let costs = costs_since(&opening, session)?;
    dispatcher.close().await;
    // Answers under way count, however late: dropping them would flatter the tail.
    join(connections).await;
    let open = Open {
        rate,
        arrivals: format!("{arrivals:?}").to_lowercase(),
        dispatched: dispatcher.dispatched.get(),
        late: dispatcher.late.get(),
        unsent: dispatcher.unsent.get(),
    };
    Ok(Report::new(&session.recorder.borrow(), elapsed, plan.connections, costs, Some(open)))
}

fn target(plan: &Plan, index: usize) -> Rc<Target> {
    plan.targets[index % plan.targets.len()].clone()
}

fn open_window(plan: &Plan, session: &Session, requests: Option<u64>) -> anyhow::Result<Opening> {
    let samples = plan.pids.iter().map(|pid| procfs::sample(*pid)).collect::<anyhow::Result<_>>()?;
    session.open_window(requests);
    Ok(Opening { at: Instant::now(), samples })
}

fn costs_since(opening: &Opening, session: &Session) -> anyhow::Result<Vec<ProcessCost>> {
    let recorder = session.recorder.borrow();
    let requests = recorder.completed + recorder.failed;
    opening
        .samples
        .iter()
        .map(|before| {
            let after = procfs::sample(before.pid)?;
            Ok(ProcessCost::between(before, &after, requests, recorder.sse_events))
        })
        .collect()
}

/// Waits for `all` to end, but no longer than `time`; returns whether it did.
async fn within(time: Duration, all: Pin<&mut impl Future<Output = ()>>) -> bool {
    matches!(race(all, pin!(monoio::time::sleep(time))).await, First::Left(()))
}

/// Waits for the connections to end, and cuts those that do not.
async fn drain(session: &Session, mut all: Pin<&mut impl Future<Output = ()>>) {
    if let First::Right(()) = race(all.as_mut(), pin!(monoio::time::sleep(DRAIN))).await {
        session.abort_all();
        all.await;
    }
}

async fn join(tasks: Vec<monoio::task::JoinHandle<()>>) {
    for task in tasks {
        task.await;
    }
}
