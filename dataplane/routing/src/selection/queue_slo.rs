//! How long a queue delay may be for a request to be sent there: longer, the more of its SLO it has waited already.

use std::time::Duration;

use crate::{RoutingRequest, Seconds};

/// Bounds of the queue delay that is allowed: from the floor at arrival to the ceiling at the request's SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSlo {
    floor: Duration,
    ceil: Duration,
}

// === impl QueueSlo ===

impl QueueSlo {
    /// `None` when the floor is above the ceiling.
    pub fn new(floor: Duration, ceil: Duration) -> Option<Self> {
        (floor <= ceil).then_some(Self { floor, ceil })
    }

    /// The delay allowed at arrival.
    pub fn floor(self) -> Duration {
        self.floor
    }

    /// The delay allowed from the SLO on, and without one.
    pub fn ceil(self) -> Duration {
        self.ceil
    }

    /// The delay that is allowed to a request now: it grows from the floor at arrival to the ceiling at the
    /// request's SLO. Without a positive SLO it is the ceiling.
    pub(crate) fn allowed(self, request: &RoutingRequest<'_>) -> Seconds {
        let (floor, ceil) = (self.floor().as_secs_f64(), self.ceil().as_secs_f64());
        let slo = request.slo.map(Duration::from).unwrap_or_default();
        if request.elapsed >= slo {
            return Seconds(ceil);
        }
        Seconds(floor + (ceil - floor) * (request.elapsed.as_secs_f64() / slo.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_above_the_ceiling_is_no_queue_slo() {
        let ms = Duration::from_millis;
        assert!(QueueSlo::new(ms(3), ms(2)).is_none());
        let equal = QueueSlo::new(ms(2), ms(2)).unwrap();
        assert_eq!((equal.floor(), equal.ceil()), (ms(2), ms(2)));
    }
}
