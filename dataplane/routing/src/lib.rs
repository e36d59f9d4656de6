//! Routing decisions: which cluster answers a request, and which of its backends.
//!
//! Everything here is a pure function of (snapshot, load, request, now, rng). It knows no I/O, no clock,
//! no thread and no configuration file, so that the proxy, the simulator under a virtual clock and the
//! property tests run one and the same code.

// Unit tests run on ordinary threads, which may wait for each other.
#![cfg_attr(test, allow(clippy::disallowed_types, clippy::disallowed_methods))]

mod admission;
mod affinity_ring;
mod algorithm;
mod atomics;
mod backend;
mod bands;
mod buckets;
mod comparator;
mod core_loads;
mod decide;
mod decision;
mod decision_state;
mod eligible;
mod explain;
mod explanation;
#[cfg(test)]
mod fleet;
mod inclusion;
mod load;
mod moment;
#[cfg(test)]
mod naive;
mod parameters;
mod policy;
mod power_of_n;
mod pulsar;
mod pulsar_wait_and_widen;
mod random;
mod ranking;
mod request;
mod round_robin;
mod rtt;
mod sample;
mod selection;
mod snapshot;
mod stats;
mod trace;
mod units;
mod wait_and_widen;
mod waiting;

pub use admission::{AdmissionRefusal, admit, best_ttft};
pub use algorithm::{
    Algorithm, AlgorithmKind, Comparator, PowerOfNParameters, PrimaryAdmission, PulsarParameters,
    PulsarWaitAndWidenParameters, QueueSlo, RendezvousWeight, SampleCount, Seed, UnknownConcurrency,
    VirtualNodes, WaitAndWidenParameters, Widening,
};
pub use core_loads::{CoreLoads, ReservationCounts, Running};
pub use decide::{NoChoice, decide, decide_and_enter, has_place};
pub use decision::{Decision, Selected, UnavailableReason, Wait, WaitReason};
pub use decision_state::DecisionState;
pub use explain::explain;
pub use explanation::{Band, Candidacy, ExplainedCluster, Explanation, Verdict};
pub use inclusion::{CoreInclusion, Inclusion, Inclusions};
pub use load::{ClusterLoad, Counted};
pub use parameters::{FieldError, PolicyFields, Scalar};
pub use policy::{Admission, Method, Policy, WaitOrder, Waiting};
pub use ranking::{Ranking, RankingTable, Slot};
pub use request::{Exclusions, RoutingRequest};
pub use round_robin::RoundRobinCursor;
pub use rtt::{BackendRtt, RecentRtts, RttSample, RttSource};
pub use snapshot::{
    Backend, BackendUid, Cluster, ClusterIndex, ClusterUid, RendezvousWeights, Snapshot, Target, TargetName,
};
pub use stats::{Accounting, ClusterStats, EffectiveStats, RoomShare};
pub use units::{Millis, Nanos, Seconds, Tokens, TokensPerSecond};
pub use waiting::{
    Claim, Decides, Deciding, Hold, Line, Patience, PatienceSource, Refused, Ruling, Taken, Ticket,
    WaitQueue, WaitedFor, Waits,
};
