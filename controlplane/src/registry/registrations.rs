//! All registrations: what becomes of a PUT, a report, a check, a lease that runs out.
//!
//! Plain state without a clock, a lock or I/O: every operation gets `now`, applies whole or not at all, and
//! counts up the revision when routing may have to change.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::Duration,
};

use stargate_routing::BackendUid;
use tokio::time::Instant;

use super::{
    error::RegistryError,
    identity::Identity,
    registration::{Lease, Registration},
    request::{ModelRequest, RegisterRequest, StatsRequest},
    stats::ModelStats,
};
use crate::{
    backend_url::Host,
    config::{Config, StaticBackend},
    health::{CheckReport, HealthState, Thresholds, Transition},
    learn::Sample,
    names::{BackendId, ModelName},
};

/// All registrations.
#[derive(Debug)]
pub struct Registry {
    lease_default: Duration,
    backends_max: usize,
    models_max: usize,
    thresholds: Thresholds,
    backends: BTreeMap<BackendId, Registration>,
    ids: HashMap<BackendUid, BackendId>,
    last_uid: u64,
    last_report: u64,
    revision: u64,
    backends_revision: u64,
}

/// What a registration came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The registration.
    pub uid: BackendUid,
    /// Whether it is new.
    pub is_new: bool,
}

// === impl Registry ===

impl Registry {
    /// With the static backends of the configuration, all of unknown health.
    pub fn new(config: &Config) -> Self {
        let mut registry = Self {
            lease_default: config.registration.lease_ms.millis(),
            backends_max: config.registration.max_backends.count(),
            models_max: config.registration.max_models_per_backend.count(),
            thresholds: Thresholds {
                unhealthy_after: config.health.unhealthy_after.get() as u32,
                healthy_after: config.health.healthy_after.get() as u32,
            },
            backends: BTreeMap::new(),
            ids: HashMap::new(),
            last_uid: 0,
            last_report: 0,
            revision: 1,
            backends_revision: 0,
        };
        for backend in &config.backends {
            registry.add_static(backend);
        }
        registry
    }

    /// Counts changes that routing may have to follow.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts changes of what registrations look like in a snapshot, whatever their health and stats.
    pub fn backends_revision(&self) -> u64 {
        self.backends_revision
    }

    /// All registrations, ordered by backend id.
    pub fn backends(&self) -> impl Iterator<Item = &Registration> {
        self.backends.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.backends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.backends.is_empty()
    }

    /// The registration of this backend.
    pub fn get(&self, id: &BackendId) -> Result<&Registration, RegistryError> {
        self.backends.get(id).ok_or_else(|| RegistryError::NotFound { id: id.to_string() })
    }

    /// The registration of this identity, its own or its backend's in snapshots, while it lives.
    pub fn by_uid(&self, uid: BackendUid) -> Option<&Registration> {
        self.backends.get(self.ids.get(&uid)?)
    }

    /// Registers a backend or renews its registration. `looked_up` is where its URL points, when that is a
    /// name; a registration in force keeps the address that it has.
    pub fn register(
        &mut self,
        id: &BackendId,
        mut request: RegisterRequest,
        looked_up: Option<SocketAddr>,
        now: Instant,
    ) -> Result<Registered, RegistryError> {
        let models = request.models.len();
        if models == 0 || models > self.models_max {
            return Err(RegistryError::ModelCount { found: models, max: self.models_max });
        }
        let length = request.lease_ms.map_or(self.lease_default, |lease| Duration::from_millis(lease.get()));
        let lease = Lease { length, expires_at: now + length };
        let identity = Identity::of_request(id, &request);
        let count = self.backends.len();
        let (uid, is_new) = match self.backends.get_mut(id) {
            Some(Registration { lease: None, .. }) => {
                return Err(RegistryError::Static { id: id.to_string() });
            }
            Some(registration) => {
                registration.identity.check_unchanged(&identity)?;
                registration.lease = Some(lease);
                (registration.uid, false)
            }
            None if count >= self.backends_max => {
                return Err(RegistryError::TooManyBackends { max: self.backends_max });
            }
            // Registering counts as healthy: whoever registers has just shown that it lives.
            None => (self.insert(id, identity, Some(lease), HealthState::healthy(), looked_up), true),
        };
        if is_new {
            // Nothing has been sent to it yet: these are the attempts of a registration before.
            let stats = request.models.values_mut().filter_map(|model| model.stats.as_mut());
            stats.for_each(ModelStats::disown_attempts);
        }
        self.set_models(id, request.models, now);
        self.revision += 1;
        Ok(Registered { uid, is_new })
    }

    /// Takes stats of some of a backend's models, all or none, and renews its lease.
    pub fn report(
        &mut self,
        id: &BackendId,
        request: StatsRequest,
        now: Instant,
    ) -> Result<(), RegistryError> {
        let registration =
            self.backends.get_mut(id).ok_or_else(|| RegistryError::NotFound { id: id.to_string() })?;
        if let Some(model) = request.models.keys().find(|model| !registration.models.contains_key(*model)) {
            return Err(RegistryError::UnknownModel { model: model.to_string() });
        }
        if let Some(lease) = &mut registration.lease {
            lease.expires_at = now + lease.length;
        }
        self.backends_revision += u64::from(registration.set_publishes_stats());
        for (name, stats) in request.models {
            self.last_report += 1;
            if let Some(model) = registration.models.get_mut(&name) {
                model.report(stats, self.last_report, now);
            }
        }
        self.revision += 1;
        Ok(())
    }

    /// Ends a registration.
    pub fn remove(&mut self, id: &BackendId) -> Result<(), RegistryError> {
        if self.get(id)?.lease.is_none() {
            return Err(RegistryError::Static { id: id.to_string() });
        }
        self.end(id);
        Ok(())
    }

    /// Ends the registrations whose lease has run out, and names them.
    pub fn expire(&mut self, now: Instant) -> Vec<BackendId> {
        let expired: Vec<BackendId> = self
            .backends
            .values()
            .filter(|registration| registration.lease.is_some_and(|lease| lease.expires_at <= now))
            .map(|registration| registration.id.clone())
            .collect();
        for id in &expired {
            self.end(id);
        }
        expired
    }

    /// When the next lease runs out.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.backends
            .values()
            .filter_map(|registration| registration.lease)
            .map(|lease| lease.expires_at)
            .min()
    }

    /// Takes what an active check found. `None` when that registration has ended.
    pub fn checked(&mut self, uid: BackendUid, report: &CheckReport) -> Option<Transition> {
        let registration = self.backends.get_mut(self.ids.get(&uid)?)?;
        let moved = report.address.filter(|address| registration.address() != Some(*address));
        if let Some(address) = moved {
            let mut backend_uid = registration.backend_uid();
            if registration.address().is_some() {
                if backend_uid != registration.uid {
                    self.ids.remove(&backend_uid);
                }
                self.last_uid += 1;
                backend_uid = BackendUid(self.last_uid);
                self.ids.insert(backend_uid, registration.id.clone());
            }
            registration.set_address(address, backend_uid);
            self.backends_revision += 1;
        }
        if let Some(connect) = report.connect {
            registration.probed(connect);
        }
        let measured = registration.follow_rtt();
        let transition = registration.health.record(&report.result, self.thresholds);
        if moved.is_some() || measured || transition != Transition::None {
            self.revision += 1;
        }
        Some(transition)
    }

    /// Takes what an attempt showed of a backend's prefill throughput.
    pub fn measured(&mut self, uid: BackendUid, model: &str, sample: Sample, now: Instant) {
        let Some(registration) = self.ids.get(&uid).and_then(|id| self.backends.get_mut(id)) else { return };
        let Some(model) = registration.models.get_mut(model) else { return };
        model.report_interval.completion();
        if model.measured.add(sample, now) {
            self.revision += 1;
        }
    }

    /// Follows the round-trip times that are measured now: whoever measures them does so behind the
    /// registry's back.
    pub fn follow_rtts(&mut self) {
        let changed =
            self.backends.values_mut().filter_map(|registration| registration.follow_rtt().then_some(()));
        self.revision += changed.count() as u64;
    }

    /// Forgets measured throughputs that are too old to be believed.
    pub fn expire_measured(&mut self, now: Instant) {
        let models = self.backends.values_mut().flat_map(|registration| registration.models.values_mut());
        let changed = models.filter_map(|model| model.measured.expire(now).then_some(())).count();
        self.revision += changed as u64;
    }

    fn add_static(&mut self, backend: &StaticBackend) {
        self.insert(&backend.id, Identity::of_static(backend), None, HealthState::unknown(), None);
        let request = ModelRequest::of_static(backend);
        self.set_models(
            &backend.id,
            backend.models.iter().map(|name| (name.clone(), request.clone())).collect(),
            Instant::now(),
        );
    }

    fn insert(
        &mut self,
        id: &BackendId,
        identity: Identity,
        lease: Option<Lease>,
        health: HealthState,
        looked_up: Option<SocketAddr>,
    ) -> BackendUid {
        self.last_uid += 1;
        let uid = BackendUid(self.last_uid);
        let address = match identity.url.host() {
            Host::Address(address) => Some(*address),
            Host::Name(..) => looked_up,
        };
        let registration = Registration::new(uid, id.clone(), identity, lease, health, address);
        self.backends.insert(id.clone(), registration);
        self.backends_revision += 1;
        self.ids.insert(uid, id.clone());
        uid
    }

    fn set_models(&mut self, id: &BackendId, requested: BTreeMap<ModelName, ModelRequest>, now: Instant) {
        let Some(registration) = self.backends.get_mut(id) else { return };
        registration.models.retain(|name, _| requested.contains_key(name));
        let mut hands_over = false;
        for (name, request) in requested {
            let model = registration.models.entry(name).or_default();
            model.status = request.status;
            if let Some(stats) = request.stats {
                // Who hands over has to see which attempts it gets, from the first on.
                hands_over |= stats.attempts.is_some();
                self.last_report += 1;
                model.report(stats, self.last_report, now);
            }
        }
        if hands_over {
            self.backends_revision += u64::from(registration.set_publishes_stats());
        }
    }

    fn end(&mut self, id: &BackendId) {
        if let Some(registration) = self.backends.remove(id) {
            self.ids.remove(&registration.uid);
            self.ids.remove(&registration.backend_uid());
            self.revision += 1;
            self.backends_revision += 1;
        }
    }
}

#[cfg(test)]
mod tests;
