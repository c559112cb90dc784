//! What comes of a call.

use std::sync::Arc;

use crate::value::Value;

/// A value, or why there is none.
pub(super) type Outcome = Result<Value, String>;

/// A value that is there.
pub(super) fn some(value: Value) -> Value {
    Value::Optional(Some(Arc::new(value)))
}
