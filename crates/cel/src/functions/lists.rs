//! Functions of lists and sets.

use std::cmp::Ordering;

use super::outcome::Outcome;
use crate::value::{Value, list};

/// Longest list that `lists.range` makes and `flatten` and others give back.
const MAX_RANGE: i64 = 1_000_000;

/// The functions of lists; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    if function == "lists.range" {
        let [Value::Int(end)] = values else { return None };
        return Some(if *end > MAX_RANGE {
            Err(format!("lists.range() size {end} exceeds limit {MAX_RANGE}"))
        } else {
            Ok(list((0..*end).map(Value::Int).collect()))
        });
    }
    let (Value::List(first), rest) = values.split_first()? else { return None };
    let items = &first.items;
    Some(match (function, rest) {
        ("isSorted", []) => Ok(Value::Bool(
            items.is_sorted_by(|one, two| one.compare(two).is_some_and(|order| order != Ordering::Greater)),
        )),
        ("sum", []) => sum(items),
        ("max" | "min", []) => {
            let wanted = if function == "max" { Ordering::Greater } else { Ordering::Less };
            let mut best: Option<&Value> = None;
            for item in items {
                if best.is_none_or(|best| item.compare(best) == Some(wanted)) {
                    best = Some(item);
                }
            }
            best.cloned().ok_or_else(|| format!("{function} called on empty list"))
        }
        ("indexOf", [value]) => Ok(place(items.iter().position(|item| item == value))),
        ("lastIndexOf", [value]) => Ok(place(items.iter().rposition(|item| item == value))),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(items, *from, *to),
        ("flatten", []) => Ok(list(flattened(items, 1))),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => Err("level must be non-negative".to_owned()),
        ("flatten", [Value::Int(depth)]) => Ok(list(flattened(items, *depth))),
        ("reverse", []) => Ok(list(items.iter().rev().cloned().collect())),
        ("distinct", []) => {
            let mut seen: Vec<Value> = Vec::new();
            for item in items {
                if !seen.contains(item) {
                    seen.push(item.clone());
                }
            }
            Ok(list(seen))
        }
        ("sort", []) => {
            let mut sorted = items.clone();
            sorted.sort_by(|one, two| one.compare(two).unwrap_or(Ordering::Equal));
            Ok(list(sorted))
        }
        ("sets.contains", [Value::List(two)]) => Ok(Value::Bool(two.items.iter().all(|item| items.contains(item)))),
        ("sets.intersects", [Value::List(two)]) => Ok(Value::Bool(two.items.iter().any(|item| items.contains(item)))),
        ("sets.equivalent", [Value::List(two)]) => Ok(Value::Bool(
            two.items.iter().all(|item| items.contains(item)) && items.iter().all(|item| two.items.contains(item)),
        )),
        _ => return None,
    })
}

fn place(found: Option<usize>) -> Value {
    Value::Int(found.map_or(-1, |at| at as i64))
}

fn sum(items: &[Value]) -> Outcome {
    let mut total: Option<Value> = None;
    for item in items {
        total = Some(match total {
            None => item.clone(),
            Some(Value::Duration(before)) => match item {
                Value::Duration(more) => {
                    Value::Duration(before.checked_add(*more).ok_or_else(|| "integer overflow".to_owned())?)
                }
                _ => return Err("no such overload".to_owned()),
            },
            Some(before) => super::operators::call("_+_", &[before, item.clone()])
                .unwrap_or_else(|| Err("no such overload".to_owned()))?,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn slice(items: &[Value], from: i64, to: i64) -> Outcome {
    let length = items.len() as i64;
    if from < 0 || to < 0 {
        return Err(format!("cannot slice({from}, {to}), negative indexes not supported"));
    }
    if from > to {
        return Err(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"));
    }
    if to > length {
        return Err(format!("cannot slice({from}, {to}), list is length {length}"));
    }
    Ok(list(items.get(from as usize..to as usize).unwrap_or_default().to_vec()))
}

fn flattened(items: &[Value], depth: i64) -> Vec<Value> {
    let mut flat = Vec::new();
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => flat.extend(flattened(&inner.items, depth.saturating_sub(1).min(100))),
            _ => flat.push(item.clone()),
        }
    }
    flat
}
