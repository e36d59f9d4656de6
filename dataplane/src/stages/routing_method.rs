//! The method that a request selects by `x-routing-method`, found as this core has read it before, or read now.
//!
//! How an expression is read is `routing_expression`'s to know; here it is looked up, counted and refused.

use std::{rc::Rc, sync::Arc};

use stargate_routing::{Method, Policy};

use crate::{core::Core, error::Refusal, routing_expression::method_of};

/// The method that `expression` selects for a request of this core where `policy` holds.
pub(crate) fn resolve(core: &Core, policy: &Arc<Policy>, expression: &[u8]) -> Result<Rc<Method>, Refusal> {
    let mut cache = core.methods.borrow_mut();
    if let Some(method) = cache.get(policy, expression) {
        core.levels.expressions_found.add(1);
        return Ok(method);
    }
    match method_of(policy, expression) {
        Ok(method) => {
            core.levels.expressions_read.add(1);
            Ok(cache.insert(policy, expression, method))
        }
        Err(error) => {
            core.levels.expressions_refused.add(1);
            Err(error.into())
        }
    }
}
