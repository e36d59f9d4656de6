//! What wait-and-widen is configured by.

use super::ring::VirtualNodes;
use crate::{
    FieldError, Widening,
    fields::{
        configured::Configured,
        field::{Field, Place},
    },
    selection::widening::{Draft, Widens},
};

/// Parameters of wait-and-widen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitAndWidenParameters {
    /// Buckets, capacity and the affinity wait.
    pub widening: Widening,
    /// Clusters in the affinity group of a key; 0 is no group.
    pub affinity_group: u32,
    /// Points of each cluster on the ring that affinity groups are taken from.
    pub virtual_nodes: VirtualNodes,
}

// === impl WaitAndWidenParameters ===

impl Widens for WaitAndWidenParameters {
    fn widening(&self) -> &Widening {
        &self.widening
    }

    fn widening_mut(&mut self) -> &mut Widening {
        &mut self.widening
    }
}

impl Configured for WaitAndWidenParameters {
    type Draft = Draft<Self>;

    const FIELDS: &'static [Field<Self::Draft>] = &[
        Self::Draft::SEED,
        Self::Draft::N,
        Self::Draft::COMPARATOR,
        Self::Draft::MAX_QUEUED,
        Self::Draft::QUEUE_FLOOR,
        Self::Draft::QUEUE_CEIL,
        Self::Draft::BUCKET_SIZE,
        Self::Draft::UNLOCK_FACTOR,
        Self::Draft::IGNORE_QUEUE_TIME,
        Self::Draft::IGNORE_INPUT_PROCESSING_TIME,
        Self::Draft::UNKNOWN_CONCURRENCY,
        Field {
            name: "cache_affinity_backend_selection_count",
            place: Place::Whole {
                at: |draft| &mut draft.parameters.affinity_group,
                min: 0,
                max: u32::MAX as u64,
            },
        },
        Field {
            name: "cache_affinity_virtual_nodes",
            place: Place::Whole {
                at: |draft| &mut draft.parameters.virtual_nodes,
                min: 1,
                max: VirtualNodes::MAX as u64,
            },
        },
        Self::Draft::AFFINITY_WAIT,
        Self::Draft::AFFINITY_SCALE,
    ];

    fn draft(&self) -> Self::Draft {
        Draft::new(self.clone())
    }

    fn of_draft(draft: Self::Draft) -> Result<Self, FieldError> {
        draft.build()
    }
}
