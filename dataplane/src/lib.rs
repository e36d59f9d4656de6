//! The data plane: one pinned monoio thread a core, each with its own listener, connection pools and
//! decision state, proxying HTTP/1.1 to the backend that the current snapshot says is best.
//!
//! A request goes through `stages`, a file each; what the requests of a core share is in `core`, how their bytes
//! come and go in `io` and `http`, and `data_plane` starts and stops it all. Each knows only those below it. A core
//! thread takes no lock, makes no blocking call and allocates nothing to decide. The border to the control plane is
//! two things only: snapshots come in ([`SharedSnapshot`], and [`Bells`] to ring for them), observations go out
//! ([`Observations`]).

mod core;
mod cpus;
mod data_plane;
mod error;
mod explain;
mod gateway_id;
mod http;
mod io;
mod observation;
mod request_id;
mod retry;
mod routing_expression;
pub mod rtt;
mod settings;
mod stages;

pub use crate::core::{bell::Bells, levels::CoreLevels, shared::SharedSnapshot};
pub use data_plane::{DataPlane, LevelReader, start, start_error::StartError};
pub use error::{ErrorCode, ErrorRow, Fault, Rejection};
pub use explain::{ReadRequest, RequestRefusal, read_request};
pub use gateway_id::{GatewayId, InvalidGatewayId};
pub use observation::{Attempt, AttemptResult, Failure, Observation, Observations, Request, Selection};
pub use routing_expression::{ExpressionError, method_of};
pub use settings::{
    Driver, HeaderPolicy, KernelLog, Limits, Pool, Reservations, Retry, RttChoice, RttSettings, Settings,
    SettingsError, Timeouts,
};
