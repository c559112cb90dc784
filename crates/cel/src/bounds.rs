//! How much a call makes and goes through, found before it is made: upstream's costs leave out values that are shared, and
//! count results once they are there.

use crate::value::Value;

/// Most that the calls of one evaluation may handle. A unit is a value or 16 bytes of text.
pub(crate) const MAX_UNITS: u64 = 4 << 20;

/// Bytes of text that weigh as much as a value.
const BYTES: usize = 16;

/// The weight of a call with these values, the receiver first.
pub(crate) fn of_call(function: &str, values: &[Value]) -> u64 {
    match (function, values) {
        ("_==_" | "_!=_", [one, two]) => weight(one).min(weight(two)),
        ("_+_", [Value::String(one), Value::String(two)]) => units(one.len().saturating_add(two.len())),
        ("_+_", [one, two]) => length(one).saturating_add(length(two)),
        ("replace", [Value::String(text), Value::String(from), Value::String(to), ..]) => {
            let replaced = text.matches(from.as_ref()).count();
            units(text.len().saturating_add(replaced.saturating_mul(to.len())))
        }
        ("join", [Value::List(list), Value::String(separator)]) => {
            weight(&values[0]).saturating_add(units(list.items.len().saturating_mul(separator.len())))
        }
        ("join" | "flatten", [list, ..])
        | ("@in", [_, list])
        | ("indexOf" | "lastIndexOf", [list @ Value::List(_), ..]) => weight(list),
        ("format", [_, arguments]) => weight(arguments),
        ("distinct", [list]) => weight(list).saturating_mul(length(list)),
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [one, two]) => {
            weight(one).saturating_mul(length(two)).min(weight(two).saturating_mul(length(one)))
        }
        _ => 0,
    }
}

fn units(bytes: usize) -> u64 {
    (bytes / BYTES) as u64
}

fn length(value: &Value) -> u64 {
    match value {
        Value::List(list) => list.items.len() as u64,
        _ => 1,
    }
}

/// The units of a value as it is written out, where parts that it shares are repeated; a few more than [`MAX_UNITS`] at most.
pub(crate) fn weight(value: &Value) -> u64 {
    let mut sum = 0;
    add(value, &mut sum);
    sum
}

fn add(value: &Value, sum: &mut u64) {
    *sum = sum.saturating_add(1);
    if *sum > MAX_UNITS {
        return;
    }
    match value {
        Value::String(text) => *sum = sum.saturating_add(units(text.len())),
        Value::Bytes(bytes) => *sum = sum.saturating_add(units(bytes.len())),
        Value::List(list) => list.items.iter().for_each(|item| add(item, sum)),
        Value::Map(map) => map.values().for_each(|entry| add(entry, sum)),
        Value::Optional(Some(inner)) => add(inner, sum),
        _ => {}
    }
}
