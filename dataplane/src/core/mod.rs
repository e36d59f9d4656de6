//! The state of one core: everything that its connections share, none of it behind a lock.
//!
//! It keeps, lends and counts. What becomes of a request is for `stages` to say, and how bytes come and go for `io`.

pub(crate) mod bell;
pub(crate) mod clients;
pub(crate) mod contain_panic;
pub(crate) mod drain;
pub(crate) mod flush;
pub(crate) mod levels;
pub(crate) mod placing;
pub(crate) mod shared;
pub(crate) mod waiting;
pub(crate) mod wakeup;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use crossbeam::queue::ArrayQueue;
use stargate_routing::{CoreLoads, Snapshot};

use self::{
    bell::Bell,
    clients::Clients,
    drain::Drain,
    levels::Levels,
    placing::Decider,
    shared::{Shared, SharedSnapshot},
    waiting::WaitRoom,
};
use crate::{
    gateway_id::AttemptStamp,
    io::{buffers::Buffers, deadlines::Deadlines, engine::pool::Pool},
    observation::Observation,
    request_id::RequestId,
    retry::budget::RetryBudget,
    routing_expression::MethodCache,
    settings::{Reservations, Settings},
};

/// One core.
pub(crate) struct Core {
    pub(crate) settings: Arc<Settings>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) clients: Rc<Clients>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) retry_budget: RefCell<RetryBudget>,
    pub(crate) rng: RefCell<fastrand::Rng>,
    pub(crate) decider: Rc<Decider>,
    pub(crate) waiting: Rc<WaitRoom>,
    pub(crate) methods: RefCell<MethodCache>,
    observations: Arc<ArrayQueue<Observation>>,
    /// Reservations that had lapsed when the core last looked.
    lapsed: Cell<u64>,
    /// Listeners open.
    pub(crate) listening: Cell<usize>,
    pub(crate) drain: Drain,
}

// === impl Core ===

impl Core {
    pub(crate) fn new(
        settings: Arc<Settings>,
        snapshot: SharedSnapshot,
        shared: Arc<Shared>,
        levels: Arc<Levels>,
        observations: Arc<ArrayQueue<Observation>>,
        bell: Arc<Bell>,
    ) -> Self {
        let now = Instant::now();
        let Reservations { ttl_min, ttl_max } = settings.reservations;
        let loads = CoreLoads::new(levels.cpu as u32, shared.cores, ttl_min..=ttl_max);
        let decider = Rc::new(Decider::new(loads, snapshot, levels.clone(), now));
        Self {
            buffers: Rc::default(),
            deadlines: Rc::new(Deadlines::new(now)),
            clients: Rc::new(Clients::new(levels.clone(), shared.clone())),
            pool: RefCell::new(Pool::new(settings.pool.clone())),
            retry_budget: RefCell::new(RetryBudget::new(&settings.retry, now)),
            waiting: Rc::new(WaitRoom::new(decider.clone(), bell, levels.clone())),
            decider,
            rng: RefCell::new(fastrand::Rng::new()),
            methods: RefCell::default(),
            lapsed: Cell::new(0),
            listening: Cell::new(0),
            drain: Drain::default(),
            settings,
            levels,
            shared,
            observations,
        }
    }

    /// Looks at the current snapshot. What is taken out of it must not hold on to the whole.
    pub(crate) fn with_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        self.decider.with_snapshot(look)
    }

    pub(crate) fn new_request_id(&self) -> RequestId {
        RequestId::generate(&mut self.rng.borrow_mut())
    }

    /// The name of an attempt of this core, by its number at its backend.
    pub(crate) fn stamp(&self, sequence: u64) -> AttemptStamp {
        AttemptStamp { gateway: self.shared.gateway, core: self.levels.cpu, sequence }
    }

    /// Hands an observation to the control plane; counts it where there is no room.
    pub(crate) fn observe(&self, observation: Observation) {
        if self.observations.push(observation).is_err() {
            self.levels.observations_dropped.add(1);
        }
    }

    /// Whether no more requests are to be taken on kept connections.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_set()
    }

    /// Ends idle connections now and others after the response that is under way.
    pub(crate) fn start_draining(&self) {
        self.drain.set();
        self.clients.end_idle();
    }

    /// Whether anything is left to end: a thread that ends before would leave it to nobody.
    pub(crate) fn is_busy(&self) -> bool {
        self.listening.get() > 0 || !self.clients.is_empty()
    }

    /// What is to be looked at often: passed deadlines, the current snapshot (so that no core keeps an old one),
    /// and those who wait.
    pub(crate) fn tick(&self, now: Instant) {
        self.deadlines.tick(now);
        self.with_snapshot(|_| ());
        self.settle_loads(now);
        self.levels.reservations.set(&self.decider.loads.counts());
        self.waiting.refresh();
    }

    /// Tells the other cores what this one holds back, ends reservations whose time is over, and has those who wait
    /// decided again where that may have made room.
    pub(crate) fn settle_loads(&self, now: Instant) {
        let loads = &self.decider.loads;
        loads.advance(self.decider.time(now));
        loads.flush();
        let lapsed = loads.lapsed();
        if self.lapsed.replace(lapsed) != lapsed {
            self.waiting.refresh();
        }
    }

    /// Housekeeping, about once a second.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut pool = self.pool.borrow_mut();
        pool.sweep(now);
        self.levels.upstream_idle.set(pool.count());
        self.waiting.sweep(now);
    }
}
