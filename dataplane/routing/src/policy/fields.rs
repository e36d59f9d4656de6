//! The fields of a policy besides its method: how requests wait, and where affinity keys come from.

use std::time::Duration;

use super::method::{WAIT_MS_MAX, millis};
use crate::{
    FieldError, Millis, Scalar, WaitOrder, Waiting,
    fields::{
        field::{Field, Place, Word},
        listed,
    },
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

#[derive(Clone)]
struct Draft {
    default_max_wait_ms: u64,
    slo_ms: Option<u64>,
    shed_unreachable: bool,
    order: WaitOrder,
    max_waiters: u64,
    leading_messages: u64,
}

/// The table.
const FIELDS: &[Field<Draft>] = &[
    Field {
        name: "default_max_wait_ms",
        place: Place::Whole { at: |draft| &mut draft.default_max_wait_ms, min: 0, max: WAIT_MS_MAX },
    },
    Field {
        name: "slo_ms",
        place: Place::OptionalWhole { at: |draft| &mut draft.slo_ms, min: 1, max: 86_400_000 },
    },
    Field { name: "shed_unreachable", place: Place::Flag { at: |draft| &mut draft.shed_unreachable } },
    Field {
        name: "wait_order",
        place: Place::Word {
            read: |draft, text| Word::put(&mut draft.order, text),
            write: |draft| draft.order.as_str(),
            words: WaitOrder::words,
        },
    },
    Field {
        name: "max_waiters",
        place: Place::Whole { at: |draft| &mut draft.max_waiters, min: 1, max: WAITERS_MAX },
    },
    Field {
        name: "affinity_from_leading_messages",
        place: Place::Whole { at: |draft| &mut draft.leading_messages, min: 0, max: LEADING_MESSAGES_MAX },
    },
];

// === impl PolicyFields ===

impl PolicyFields {
    /// Whether a field of this name is among them.
    pub fn has(name: &str) -> bool {
        Self::names().any(|known| known == name)
    }

    /// Their names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FIELDS.iter().map(|field| field.name)
    }

    /// The defaults, changed by `fields`.
    ///
    /// # Errors
    /// The first field that is unknown or out of its bounds.
    pub fn with_fields<'a>(
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        let mut draft = Self::default().draft();
        for (name, value) in fields {
            let field = FIELDS
                .iter()
                .find(|field| field.name == name)
                .ok_or_else(|| FieldError::new(name, "an unknown field", listed(Self::names())))?;
            field.read(&mut draft, &value)?;
        }
        Ok(draft.build())
    }

    /// Every field with its value; those that are not set are left out.
    pub fn fields(&self) -> Vec<(&'static str, Scalar<'static>)> {
        let mut draft = self.draft();
        FIELDS.iter().filter_map(|field| Some((field.name, field.write(&mut draft)?))).collect()
    }

    fn draft(&self) -> Draft {
        let Waiting { default_max_wait, slo, shed_unreachable, order, max_waiters } = &self.waiting;
        Draft {
            default_max_wait_ms: millis(*default_max_wait),
            slo_ms: slo.map(|slo| slo.0),
            shed_unreachable: *shed_unreachable,
            order: *order,
            max_waiters: u64::from(*max_waiters),
            leading_messages: self.affinity_from_leading_messages as u64,
        }
    }
}

// === impl Draft ===

impl Draft {
    fn build(self) -> PolicyFields {
        PolicyFields {
            waiting: Waiting {
                default_max_wait: Duration::from_millis(self.default_max_wait_ms),
                slo: self.slo_ms.map(Millis),
                shed_unreachable: self.shed_unreachable,
                order: self.order,
                max_waiters: self.max_waiters as u32,
            },
            affinity_from_leading_messages: self.leading_messages as usize,
        }
    }
}
