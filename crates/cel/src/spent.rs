//! What a call costs when it is made, of the real sizes.
//!
//! // upstream: cel-go interpreter/runtimecost.go costCall, ext/lists.go, ext/sets.go; apiserver pkg/cel/library/cost.go
//! // CallCost

use crate::value::Value;

/// A tenth of a unit a character.
fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}

/// A quarter of a unit a character of a pattern.
fn pattern(size: u64) -> u64 {
    size.div_ceil(4)
}

/// The cost of a call with these values, the receiver first.
pub(crate) fn call(function: &str, values: &[Value], result: Option<&Value>) -> u64 {
    let size = |at: usize| values.get(at).map_or(0, Value::size);
    let text = |at: usize| matches!(values.get(at), Some(Value::String(_) | Value::Bytes(_)));
    match function {
        "check" => 350_000,
        "fieldSelector" | "labelSelector" => {
            traversal(size(1)).saturating_add(size(1).div_ceil(2).saturating_mul(50)).saturating_add(10)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => values.first().map_or(0, whole),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "startsWith"
        | "endsWith"
        | "format"
        | "strings.quote" => traversal(size(0)),
        "ip" if text(0) => traversal(size(0)),
        "bytes" | "string" if text(0) => traversal(size(0)),
        "ip.isCanonical" | "replace" | "split" => size(0).saturating_mul(2).div_ceil(10),
        "join" => result.map_or(0, Value::size).saturating_mul(2).div_ceil(10),
        "find" | "findAll" | "matches" => traversal(size(0).saturating_add(1)).saturating_mul(pattern(size(1))),
        "validate" => traversal(size(1).saturating_add(1)).saturating_mul(pattern(128)),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        "slice" | "lists.range" | "reverse" => made(result.map_or(0, Value::size)),
        "flatten" => {
            let depth =
                if let Some(Value::Int(depth)) = values.get(1) { u64::try_from(*depth).unwrap_or(0) } else { 1 };
            made(size(0).saturating_mul(depth))
        }
        "distinct" | "sort" => {
            let pairs = size(0).saturating_mul(size(0));
            let texts = match values.first() {
                Some(Value::List(list)) => matches!(list.items.first(), Some(Value::String(_) | Value::Bytes(_))),
                _ => false,
            };
            made(pairs.saturating_mul(2).saturating_add(if texts { pairs / 10 } else { 0 }))
        }
        "containsIP" => {
            let parsed = if text(1) { traversal(size(1)) } else { 0 };
            traversal(size(0).saturating_mul(2)).saturating_add(parsed)
        }
        "containsCIDR" => {
            let parsed = if text(1) { traversal(size(1)) } else { 0 };
            traversal(size(0).saturating_mul(2))
                .saturating_add(traversal(size(0)))
                .saturating_add(1)
                .saturating_add(parsed)
        }
        "@in" => match values.get(1) {
            Some(Value::List(list)) => list.items.len() as u64,
            _ => 1,
        },
        "_==_" | "_!=_" if !matches!(values.first(), Some(Value::Opaque(_))) => traversal(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if text(0) && text(1) => traversal(size(0).min(size(1))),
        "_+_" if text(0) && text(1) => traversal(size(0).saturating_add(size(1))),
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        _ => 1,
    }
}

/// The cost of a call that makes a list, whose own work costs that much.
fn made(work: u64) -> u64 {
    work.saturating_add(1 + 10)
}

/// The cost of going through all of a value.
fn whole(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.items.iter().map(whole).fold(0, u64::saturating_add),
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| whole(&Value::from(key)).saturating_add(whole(value)))
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
