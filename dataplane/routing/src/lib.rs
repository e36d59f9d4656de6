//! Routing decisions: which cluster answers a request, and which of its backends.
//!
//! Everything here is a pure function of (snapshot, load, request, now, rng). It knows no I/O, no clock,
//! no thread and no configuration file, so that the proxy, the simulator under a virtual clock and the
//! property tests run one and the same code.

// Unit tests run on ordinary threads, which may wait for each other.
#![cfg_attr(test, allow(clippy::disallowed_types, clippy::disallowed_methods))]

mod admission;
mod algorithms;
mod atomics;
mod core_loads;
mod decide;
mod decision;
mod explain;
mod fields;
mod load;
mod policy;
mod ranking;
mod request;
mod rtt;
mod selection;
mod snapshot;
#[cfg(test)]
mod testing;
mod units;
mod wait_queue;

pub use admission::{AdmissionRefusal, admit, best_ttft};
pub use algorithms::round_robin::RoundRobinCursor;
pub use algorithms::{
    Algorithm, AlgorithmKind, Comparator, PowerOfNParameters, PrimaryAdmission, PulsarParameters,
    PulsarWaitAndWidenParameters, QueueSlo, RendezvousWeight, SampleCount, Seed, UnknownConcurrency,
    VirtualNodes, WaitAndWidenParameters, Widening,
};
pub use core_loads::inclusion::{CoreInclusion, Inclusion, Inclusions};
pub use core_loads::{CoreLoads, ReservationCounts, Running};
pub use decide::state::DecisionState;
pub use decide::{decide, decide_and_enter, has_place};
pub use decision::{Decision, Selected, UnavailableReason, Wait, WaitReason};
pub use explain::explain;
pub use explain::explanation::{Band, Candidacy, ExplainedCluster, Explanation, Verdict};
pub use fields::{FieldError, Scalar};
pub use load::stats::{Accounting, ClusterStats, EffectiveStats, RoomShare};
pub use load::{ClusterLoad, Counted};
pub use policy::fields::PolicyFields;
pub use policy::{Admission, Method, Policy, WaitOrder, Waiting};
pub use ranking::{Ranking, RankingTable, Slot};
pub use request::{Exclusions, RoutingRequest};
pub use rtt::{BackendRtt, RecentRtts, RttSample, RttSource};
pub use snapshot::{
    Backend, BackendUid, Cluster, ClusterIndex, ClusterUid, RendezvousWeights, Snapshot, Target, TargetName,
};
pub use units::{Millis, Nanos, Seconds, Tokens, TokensPerSecond};
pub use wait_queue::{Ticket, WaitQueue};
