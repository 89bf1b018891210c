//! Panics of handlers, which become failures.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::handlers::{Failure, Result};

/// Runs a handler and converts a panic into a failure, so that the connection and its other requests continue.
pub(super) fn caught<T>(handler: impl FnOnce() -> Result<T>) -> Result<T> {
    // Unwind safe: locks and batches are restored by their guards.
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|payload| Err(panicked(payload)))
}

/// Returns the failure for a panic with this payload, which is its message.
fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let text = payload.downcast::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|payload| payload.downcast::<String>().map(|text| *text));
    Failure::Panicked(text.unwrap_or_else(|_| "no message".to_owned()))
}
