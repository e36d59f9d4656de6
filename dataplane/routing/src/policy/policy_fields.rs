//! The fields of a policy besides its method: how requests wait, and where affinity keys come from.

use crate::{
    FieldError, Scalar, Waiting,
    fields::{
        configured::{Configured, its_own_draft},
        field::{DAY_MS, Field, Place},
        listed,
    },
    request::WAIT_MS_MAX,
};

/// Most waiters of one target on one core.
const WAITERS_MAX: u64 = 65_536;
/// Most leading messages that can make an affinity key: beyond this a key is as good as unique.
const LEADING_MESSAGES_MAX: u64 = 64;

/// What a policy says besides its method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFields {
    /// How requests wait.
    pub waiting: Waiting,
    /// See [`crate::Policy::affinity_from_leading_messages`].
    pub affinity_from_leading_messages: usize,
}

// === impl PolicyFields ===

impl PolicyFields {
    /// Whether a field of this name is among them.
    pub fn has(name: &str) -> bool {
        Self::names().any(|known| known == name)
    }

    /// Their names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        <Self as Configured>::names().into_iter()
    }

    /// The defaults, changed by `fields`.
    ///
    /// # Errors
    /// The first field that is unknown or out of its bounds.
    pub fn with_fields<'a>(
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        Self::default()
            .overlay(fields, |name, _| Err(FieldError::new(name, "an unknown field", listed(Self::names()))))
    }

    /// Every field with its value; those that are not set are left out.
    pub fn fields(&self) -> Vec<(&'static str, Scalar<'static>)> {
        self.values()
    }
}

impl Configured for PolicyFields {
    its_own_draft!(Self);

    const FIELDS: &'static [Field<Self>] = &[
        Field {
            name: "default_max_wait_ms",
            place: Place::Whole {
                at: |fields| &mut fields.waiting.default_max_wait,
                min: 0,
                max: WAIT_MS_MAX,
            },
        },
        Field {
            name: "slo_ms",
            place: Place::Whole { at: |fields| &mut fields.waiting.slo, min: 1, max: DAY_MS },
        },
        Field {
            name: "shed_unreachable",
            place: Place::Flag { at: |fields| &mut fields.waiting.shed_unreachable },
        },
        Field { name: "wait_order", place: Place::Word { at: |fields| &mut fields.waiting.order } },
        Field {
            name: "max_waiters",
            place: Place::Whole { at: |fields| &mut fields.waiting.max_waiters, min: 1, max: WAITERS_MAX },
        },
        Field {
            name: "affinity_from_leading_messages",
            place: Place::Whole {
                at: |fields| &mut fields.affinity_from_leading_messages,
                min: 0,
                max: LEADING_MESSAGES_MAX,
            },
        },
    ];
}
