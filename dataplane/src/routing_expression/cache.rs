//! What expressions have been read as, by the policy that they were read against.
//!
//! A few ways in each of a few sets: bounded, found without allocating, and one caller's many expressions push
//! out only what shares their sets. A policy that is kept here is not freed, so its address is its identity.

use std::{rc::Rc, sync::Arc};

use stargate_routing::{Method, Policy};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Sets; a power of two.
const SETS: usize = 64;
/// Expressions in a set.
const WAYS: usize = 4;

/// One core's cache.
#[derive(Debug)]
pub(crate) struct MethodCache {
    sets: Vec<[Option<Entry>; WAYS]>,
}

#[derive(Debug)]
struct Entry {
    policy: Arc<Policy>,
    expression: Box<[u8]>,
    method: Rc<Method>,
}

// === impl MethodCache ===

impl MethodCache {
    /// What this expression was read as, if that is kept.
    pub(crate) fn get(&mut self, policy: &Arc<Policy>, expression: &[u8]) -> Option<Rc<Method>> {
        let set = self.set(policy, expression);
        let is_it = |entry: &Entry| Arc::ptr_eq(&entry.policy, policy) && *entry.expression == *expression;
        let way = set.iter().position(|entry| entry.as_ref().is_some_and(is_it))?;
        // Used last, pushed out last.
        set[..=way].rotate_right(1);
        set[0].as_ref().map(|entry| entry.method.clone())
    }

    /// Keeps what it was read as, in place of what its set has not used for longest.
    pub(crate) fn insert(&mut self, policy: &Arc<Policy>, expression: &[u8], method: Method) -> Rc<Method> {
        let method = Rc::new(method);
        let set = self.set(policy, expression);
        set.rotate_right(1);
        let entry = Entry { policy: policy.clone(), expression: expression.into(), method: method.clone() };
        set[0] = Some(entry);
        method
    }

    fn set(&mut self, policy: &Arc<Policy>, expression: &[u8]) -> &mut [Option<Entry>; WAYS] {
        let seed = Arc::as_ptr(policy).addr() as u64;
        let hash = xxh3_64_with_seed(expression, seed);
        &mut self.sets[hash as usize % SETS]
    }
}

impl Default for MethodCache {
    fn default() -> Self {
        Self { sets: (0..SETS).map(|_| [const { None }; WAYS]).collect() }
    }
}
