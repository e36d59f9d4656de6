//! The fields of admission, which every method has.

use crate::{
    Admission,
    fields::{
        configured::{Configured, its_own_draft},
        field::{Field, Place},
    },
};

impl Configured for Admission {
    its_own_draft!(Self);

    const FIELDS: &'static [Field<Self>] = &[
        Field {
            name: "require_cache_affinity_key",
            place: Place::Flag { at: |admission| &mut admission.require_cache_affinity_key },
        },
        Field {
            name: "require_input_tokens",
            place: Place::Flag { at: |admission| &mut admission.require_input_tokens },
        },
        Field {
            name: "max_input_work_seconds",
            place: Place::OptionalPositive { at: |admission| &mut admission.max_input_work_seconds },
        },
    ];
}
