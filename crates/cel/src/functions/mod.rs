//! What functions do.

mod convert;
mod format;
mod go_pattern;
mod lists;
mod named_format;
mod network;
mod operators;
mod outcome;
mod quantity;
mod semver;
mod strings;
mod times;
mod url;

use self::outcome::{Outcome, some};
pub(super) use self::quantity::value as quantity_value;
pub(super) use self::semver::version as semver_value;
pub(super) use self::strings::pattern;
use crate::meter::Meter;
use crate::value::{Value, select};

/// Calls a function with its values, the receiver first.
pub(super) fn call(function: &str, member: bool, values: &[Value], meter: Option<Meter>) -> Outcome {
    if member
        && let Some((Value::Opaque(receiver), arguments)) = values.split_first()
        && let Some(outcome) = receiver.call(function, arguments)
    {
        return outcome;
    }
    operators::call(function, values)
        .or_else(|| optional(function, values))
        .or_else(|| convert::call(function, values))
        .or_else(|| strings::call(function, values, meter))
        .or_else(|| lists::call(function, values))
        .or_else(|| times::call(function, values))
        .or_else(|| network::call(function, values))
        .or_else(|| quantity::call(function, values))
        .or_else(|| semver::call(function, values))
        .or_else(|| url::call(function, values))
        .or_else(|| named_format::call(function, values))
        .unwrap_or_else(|| Err("no such overload".to_owned()))
}

/// Functions of values that may be missing.
fn optional(function: &str, values: &[Value]) -> Option<Outcome> {
    Some(Ok(match (function, values) {
        ("optional.of", [value]) => some(value.clone()),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Value::Optional(None),
        ("optional.ofNonZeroValue", [value]) => some(value.clone()),
        ("optional.none", []) => Value::Optional(None),
        ("hasValue", [Value::Optional(inner)]) => Value::Bool(inner.is_some()),
        ("value", [Value::Optional(Some(inner))]) => inner.as_ref().clone(),
        ("value", [Value::Optional(None)]) => return Some(Err("optional.none() dereference".to_owned())),
        ("_?._", [operand, Value::String(field)]) => match operand {
            Value::Optional(_) => return Some(select(operand, field)),
            _ => select(operand, field).map_or(Value::Optional(None), some),
        },
        ("_[?_]", [Value::Optional(None), _]) => Value::Optional(None),
        ("_[?_]", [Value::Optional(Some(inner)), index]) => {
            operators::index(inner, index).map_or(Value::Optional(None), some)
        }
        ("_[?_]", [operand, index]) => operators::index(operand, index).map_or(Value::Optional(None), some),
        _ => return None,
    }))
}
