//! Arithmetic, comparison, membership and size.

use std::cmp::Ordering;

use super::outcome::{Outcome, some};
use crate::value::key_text;
use crate::value::{List, ListKind, Value, identity, list};

const INT: &str = "integer overflow";
const UINT: &str = "unsigned integer overflow";

/// The operators; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    use Value::{Bool, Double, Int, String, Uint};
    Some(match (function, values) {
        ("_==_", [one, two]) => Ok(Bool(one == two)),
        ("_!=_", [one, two]) => Ok(Bool(one != two)),
        ("!_", [Bool(value)]) => Ok(Bool(!value)),
        ("-_", [Int(value)]) => value.checked_neg().map(Int).ok_or_else(|| INT.to_owned()),
        ("-_", [Double(value)]) => Ok(Double(-value)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, two]) => {
            let Some(order) = one.compare(two) else {
                return match (one, two) {
                    (Double(_), _) | (_, Double(_)) => Some(Ok(Bool(false))),
                    _ => None,
                };
            };
            Ok(Bool(match function {
                "_<_" => order == Ordering::Less,
                "_<=_" => order != Ordering::Greater,
                "_>_" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        ("_+_", [Int(one), Int(two)]) => one.checked_add(*two).map(Int).ok_or_else(|| INT.to_owned()),
        ("_-_", [Int(one), Int(two)]) => one.checked_sub(*two).map(Int).ok_or_else(|| INT.to_owned()),
        ("_*_", [Int(one), Int(two)]) => one.checked_mul(*two).map(Int).ok_or_else(|| INT.to_owned()),
        ("_/_", [Int(_), Int(0)] | [Uint(_), Uint(0)]) => Err("division by zero".to_owned()),
        ("_%_", [Int(_), Int(0)] | [Uint(_), Uint(0)]) => Err("modulus by zero".to_owned()),
        ("_/_", [Int(one), Int(two)]) => one.checked_div(*two).map(Int).ok_or_else(|| INT.to_owned()),
        ("_%_", [Int(one), Int(two)]) => one.checked_rem(*two).map(Int).ok_or_else(|| INT.to_owned()),
        ("_+_", [Uint(one), Uint(two)]) => one.checked_add(*two).map(Uint).ok_or_else(|| UINT.to_owned()),
        ("_-_", [Uint(one), Uint(two)]) => one.checked_sub(*two).map(Uint).ok_or_else(|| UINT.to_owned()),
        ("_*_", [Uint(one), Uint(two)]) => one.checked_mul(*two).map(Uint).ok_or_else(|| UINT.to_owned()),
        ("_/_", [Uint(one), Uint(two)]) => one.checked_div(*two).map(Uint).ok_or_else(|| UINT.to_owned()),
        ("_%_", [Uint(one), Uint(two)]) => one.checked_rem(*two).map(Uint).ok_or_else(|| UINT.to_owned()),
        ("_+_", [Double(one), Double(two)]) => Ok(Double(one + two)),
        ("_-_", [Double(one), Double(two)]) => Ok(Double(one - two)),
        ("_*_", [Double(one), Double(two)]) => Ok(Double(one * two)),
        ("_/_", [Double(one), Double(two)]) => Ok(Double(one / two)),
        ("_+_", [String(one), String(two)]) => Ok(Value::from(format!("{one}{two}"))),
        ("_+_", [Value::Bytes(one), Value::Bytes(two)]) => Ok(Value::Bytes([&one[..], &two[..]].concat().into())),
        ("_+_", [Value::List(one), Value::List(two)]) => Ok(joined(one, two)),
        ("size", [value]) => match value {
            String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => Ok(Int(value.size() as i64)),
            _ => return None,
        },
        ("@in", [value, Value::List(list)]) => Ok(Bool(list.items.contains(value))),
        ("@in", [value, Value::Map(map)]) => Ok(Bool(value.key().is_some_and(|key| map.contains_key(&key)))),
        ("@in", [value, Value::Opaque(map)]) => return map.call("@in", std::slice::from_ref(value)),
        ("_[_]", [Value::Optional(None), _]) => Ok(Value::Optional(None)),
        ("_[_]", [Value::Optional(Some(inner)), at]) => Ok(index(inner, at).map_or(Value::Optional(None), some)),
        ("_[_]", [operand, at]) => index(operand, at),
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Value::Type(value.type_name().into())),
        _ => return None,
    })
}

/// An element of a list or an entry of a map.
pub(super) fn index(operand: &Value, at: &Value) -> Outcome {
    match operand {
        Value::List(list) => {
            let position = match at {
                Value::Int(position) => Some(*position),
                Value::Uint(position) => i64::try_from(*position).ok(),
                Value::Double(position) if position.fract() == 0.0 => Some(*position as i64),
                _ => None,
            };
            let Some(position) = position else {
                return Err(format!("unsupported index type '{}' in list", at.type_name()));
            };
            let found = usize::try_from(position).ok().and_then(|position| list.items.get(position));
            found.cloned().ok_or_else(|| format!("index out of bounds: {position}"))
        }
        Value::Map(map) => match at.key() {
            Some(key) => map.get(&key).cloned().ok_or_else(|| format!("no such key: {}", key_text(&key))),
            None => Err("no such overload".to_owned()),
        },
        Value::Opaque(map) => {
            map.call("_[_]", std::slice::from_ref(at)).unwrap_or_else(|| Err("no such overload".to_owned()))
        }
        _ => Err("no such overload".to_owned()),
    }
}

/// Lists added as their kind has it.
///
/// // upstream: apiserver pkg/cel/common/maplist.go Add
fn joined(one: &List, two: &List) -> Value {
    let mut items = one.items.clone();
    match &one.kind {
        ListKind::Atomic => items.extend(two.items.iter().cloned()),
        ListKind::Set => {
            for item in &two.items {
                if !items.contains(item) {
                    items.push(item.clone());
                }
            }
        }
        ListKind::Map(keys) => {
            for item in &two.items {
                let wanted = identity(item, keys);
                match items.iter_mut().find(|known| identity(known, keys) == wanted) {
                    Some(known) => *known = item.clone(),
                    None => items.push(item.clone()),
                }
            }
        }
    }
    match &one.kind {
        ListKind::Atomic => list(items),
        kind => Value::List(std::sync::Arc::new(List { items, kind: kind.clone() })),
    }
}
