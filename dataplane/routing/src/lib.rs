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
mod cluster;
mod core_loads;
mod decide;
mod decision;
mod explain;
mod fields;
mod load;
mod names;
mod policy;
mod ranking;
mod request;
mod rtt;
mod selection;
mod snapshot;
#[cfg(test)]
mod testing;
mod units;
mod waiting;

pub use admission::{AdmissionRefusal, admit, best_ttft};
pub use algorithms::{
    Algorithm, AlgorithmKind,
    power_of_n::PowerOfNParameters,
    pulsar::PulsarParameters,
    pulsar_wait_and_widen::parameters::{PrimaryAdmission, PulsarWaitAndWidenParameters},
    round_robin::cursor::RoundRobinCursor,
    wait_and_widen::{parameters::WaitAndWidenParameters, ring::VirtualNodes},
};
pub use cluster::{
    Backend, Cluster,
    identity::{BackendUid, ClusterIndex, ClusterUid, TargetName},
    weights::{RendezvousWeight, RendezvousWeights},
};
pub use core_loads::{
    CoreLoads,
    counts::ReservationCounts,
    inclusion::{CoreInclusion, Inclusion, Inclusions},
    running::Running,
};
pub use decide::{decide, decide_and_enter, has_place, state::DecisionState};
pub use decision::{Decision, Selected, UnavailableReason, Wait, WaitReason};
pub use explain::{
    explain,
    explanation::{Band, Candidacy, ExplainedCluster, Explanation, Verdict},
};
pub use fields::{FieldError, scalar::Scalar};
pub use load::{
    ClusterLoad, Counted,
    effective::{EffectiveStats, UnknownConcurrency},
    stats::{Accounting, ClusterStats, RoomShare},
};
pub use policy::{Admission, Method, Policy, WaitOrder, Waiting, policy_fields::PolicyFields};
pub use ranking::{seed::Seed, slot::Slot, table::RankingTable};
pub use request::{Exclusions, RoutingRequest};
pub use rtt::{
    BackendRtt, RttSource,
    recent::{RecentRtts, RttSample},
};
pub use selection::{
    choice::NoChoice, comparator::Comparator, queue_slo::QueueSlo, sample::SampleCount, widening::Widening,
};
pub use snapshot::{Snapshot, ranking::Ranking, target::Target};
pub use units::{Millis, Nanos, Seconds, Tokens, TokensPerSecond};
pub use waiting::{
    Claim, Decides, Deciding, Hold, Line, Patience, PatienceSource, Refused, Ruling, Taken, Ticket,
    WaitQueue, WaitedFor, Waits,
};
