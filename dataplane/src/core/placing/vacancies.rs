//! Which targets somebody waits for on this core, and how many places have become free there since those were decided.
//!
//! Whoever gives a place back notes it here and knows nothing of who waits; while nobody does, that costs a look at a
//! length.

use std::{cell::RefCell, sync::Arc};

use stargate_routing::TargetName;

use crate::core::wakeup::Wakeup;

/// Places that have become free, by target.
#[derive(Debug, Default)]
pub(crate) struct Vacancies {
    /// Those that are waited for.
    targets: RefCell<Vec<(TargetKey, u32)>>,
    /// Something has happened that those who wait may be concerned by.
    pub(crate) wakeup: Wakeup,
}

/// Tells targets apart without comparing names: the address of the name, which lives as long as its target, and
/// which a queue keeps alive. A target that ends and comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetKey(usize);

// === impl TargetKey ===

impl TargetKey {
    pub(crate) fn of(name: &Arc<TargetName>) -> Self {
        Self(Arc::as_ptr(name).addr())
    }
}

// === impl Vacancies ===

impl Vacancies {
    /// From now on what becomes free of this target is noted.
    pub(crate) fn watch(&self, target: TargetKey) {
        let mut targets = self.targets.borrow_mut();
        if !targets.iter().any(|(watched, _)| *watched == target) {
            targets.push((target, 0));
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn unwatch(&self, target: TargetKey) {
        self.targets.borrow_mut().retain(|(watched, _)| *watched != target);
    }

    /// A place of this target has become free.
    pub(crate) fn freed(&self, target: TargetKey) {
        let mut targets = self.targets.borrow_mut();
        if let Some((_, places)) = targets.iter_mut().find(|(watched, _)| *watched == target) {
            *places = places.saturating_add(1);
            drop(targets);
            self.wakeup.wake();
        }
    }

    /// How many have since this was last asked.
    pub(crate) fn take(&self, target: TargetKey) -> u32 {
        let mut targets = self.targets.borrow_mut();
        let noted = targets.iter_mut().find(|(watched, _)| *watched == target);
        noted.map_or(0, |(_, places)| std::mem::take(places))
    }
}
