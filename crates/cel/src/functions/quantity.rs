//! Quantities: `quantity('1Gi').isGreaterThan(quantity('500Mi'))`.
//!
//! // upstream: apiserver pkg/cel/library/quantity.go

use std::cmp::Ordering;
use std::sync::Arc;

use klab_scheduler::quantity::Quantity;

use super::outcome::Outcome;
use crate::value::{Opaque, Value};

#[derive(Debug)]
struct Amount(Quantity);

/// A quantity as a value.
pub(crate) fn value(amount: Quantity) -> Value {
    Value::Opaque(Arc::new(Amount(amount)))
}

/// Functions that make quantities; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    Some(match (function, values) {
        ("quantity", [Value::String(text)]) => Quantity::parse(text).map(value).map_err(|_| {
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
        }),
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("sign", [Value::Opaque(opaque)]) => return opaque.call("sign", &[]),
        _ => return None,
    })
}

/// The number, where it is whole and fits.
fn whole(amount: Quantity) -> Option<i64> {
    let units = amount.units();
    (Quantity::from_units(units) == amount).then_some(units)
}

impl Opaque for Amount {
    fn type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.type_name() == self.type_name() && Quantity::parse(&other.text()).is_ok_and(|other| other == self.0)
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Outcome> {
        let other = match arguments {
            [Value::Opaque(opaque)] => Quantity::parse(&opaque.text()).ok(),
            [Value::Int(units)] => Some(Quantity::from_units(*units)),
            _ => None,
        };
        Some(Ok(match function {
            "isGreaterThan" => Value::Bool(self.0 > other?),
            "isLessThan" => Value::Bool(self.0 < other?),
            "compareTo" => Value::Int(order(self.0.cmp(&other?))),
            "add" => value(added(self.0, other?)),
            "sub" => value(taken(self.0, other?)),
            "sign" => Value::Int(order(self.0.cmp(&Quantity::ZERO))),
            "isInteger" => Value::Bool(whole(self.0).is_some()),
            "asInteger" => match whole(self.0) {
                Some(units) => Value::Int(units),
                None => return Some(Err("cannot convert value to integer".to_owned())),
            },
            "asApproximateFloat" => Value::Double(self.0.as_f64()),
            _ => return None,
        }))
    }
}

fn added(one: Quantity, two: Quantity) -> Quantity {
    one + two
}

fn taken(one: Quantity, two: Quantity) -> Quantity {
    one - two
}

/// -1, 0, 1
pub(super) fn order(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}
