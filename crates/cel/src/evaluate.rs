//! Walks a checked tree with values for its variables, and counts what that costs.
//!
//! // upstream: cel-go interpreter/interpretable.go, interpreter/runtimecost.go

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, Kind};
use crate::bounds;
use crate::functions;
use crate::meter::Meter;
use crate::spent;
use crate::value::{Key, Value, select};

/// Most that one evaluation may cost.
///
/// // upstream: apiserver pkg/apis/cel/config.go PerCallLimit
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// Most that all evaluations for one request may cost.
///
/// // upstream: apiserver pkg/apis/cel/config.go RuntimeCELCostBudget
pub const REQUEST_LIMIT: u64 = 10_000_000;

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The expression failed, in upstream's words.
    Error(String),
    /// It would have cost more than it may.
    OutOfBudget,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(message) => formatter.write_str(message),
            Self::OutOfBudget => formatter.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

/// Units of cost that take as long as a step of work.
const UNITS: u64 = 4;

/// What evaluations may cost, and what they have.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Spent so far.
    pub spent: u64,
    /// Most that may be spent.
    pub limit: u64,
    /// What calls have made and gone through so far, in the units of `bounds`.
    handled: u64,
}

impl Budget {
    /// One that allows so much.
    pub fn of(limit: u64) -> Self {
        Self { spent: 0, limit, handled: 0 }
    }
}

/// Where the values of variables come from.
pub trait Variables {
    /// The value of a variable; `None` where it has none.
    fn value(&self, name: &str) -> Option<Result<Value, Failure>>;
}

/// Values by name.
#[derive(Debug, Clone, Default)]
pub struct Bindings(pub Vec<(&'static str, Value)>);

impl Variables for Bindings {
    fn value(&self, name: &str) -> Option<Result<Value, Failure>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok(value.clone()))
    }
}

impl Variables for BTreeMap<String, Value> {
    fn value(&self, name: &str) -> Option<Result<Value, Failure>> {
        self.get(name).map(|value| Ok(value.clone()))
    }
}

/// The value of a tree.
pub(crate) fn evaluate(
    root: &Expr,
    variables: &dyn Variables,
    budget: &mut Budget,
    meter: Option<Meter>,
) -> Result<Value, Failure> {
    let mut evaluation = Evaluation { variables, budget, meter, locals: Vec::new() };
    let value = evaluation.expression(root)?;
    // It may be written out, where parts that are shared here are repeated.
    evaluation.handle(bounds::weight(&value))?;
    Ok(value)
}

struct Evaluation<'a> {
    variables: &'a dyn Variables,
    budget: &'a mut Budget,
    meter: Option<Meter>,
    /// Variables of folds, the innermost last. What an accumulator comes to may be an error.
    locals: Vec<(String, Result<Value, Failure>)>,
}

fn error<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(message.into()))
}

impl Evaluation<'_> {
    fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.budget.spent = self.budget.spent.saturating_add(cost);
        let goes_on = self.meter.is_none_or(|steps| steps(cost.div_ceil(UNITS)));
        if goes_on && self.budget.spent <= self.budget.limit { Ok(()) } else { Err(Failure::OutOfBudget) }
    }

    /// Counts what a call makes and goes through, beyond what it costs.
    fn handle(&mut self, weight: u64) -> Result<(), Failure> {
        self.budget.handled = self.budget.handled.saturating_add(weight);
        if self.budget.handled > bounds::MAX_UNITS { Err(Failure::OutOfBudget) } else { Ok(()) }
    }

    fn expression(&mut self, node: &Expr) -> Result<Value, Failure> {
        match &node.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Kind::Select { operand, field, test } => {
                let operand = self.expression(operand)?;
                if *test {
                    return has(&operand, field).map_err(Failure::Error);
                }
                self.charge(1)?;
                select(&operand, field).map_err(Failure::Error)
            }
            Kind::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Kind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    match (self.expression(&element.value)?, element.optional) {
                        (Value::Optional(inner), true) => items.extend(inner.map(|inner| inner.as_ref().clone())),
                        (value, _) => items.push(value),
                    }
                }
                self.charge(10)?;
                Ok(Value::from(items))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.expression(&entry.key)?;
                    let Some(key) = key.key() else { return error("unsupported key type") };
                    let value = match (self.expression(&entry.value)?, entry.optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(inner)), true) => inner.as_ref().clone(),
                        (value, _) => value,
                    };
                    if map.insert(key.clone(), value).is_some() {
                        return error(format!("duplicate key: {}", crate::value::key_text(&key)));
                    }
                }
                self.charge(30)?;
                Ok(Value::Map(Arc::new(map)))
            }
            Kind::Struct { fields, .. } => {
                let mut map = BTreeMap::new();
                for (_, field, value) in fields {
                    map.insert(Key::String(field.as_str().into()), self.expression(value)?);
                }
                self.charge(40)?;
                Ok(Value::Map(Arc::new(map)))
            }
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn variable(&self, name: &str) -> Result<Value, Failure> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| known == name) {
            return value.clone();
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(value) = self.variables.value(name) {
            return value;
        }
        match name {
            "bool"
            | "int"
            | "uint"
            | "double"
            | "string"
            | "bytes"
            | "list"
            | "map"
            | "null_type"
            | "type"
            | "dyn"
            | "google.protobuf.Timestamp"
            | "google.protobuf.Duration"
            | "optional_type"
            | "net.IP"
            | "net.CIDR"
            | "kubernetes.URL"
            | "kubernetes.Quantity"
            | "kubernetes.Semver" => Ok(Value::Type(name.into())),
            _ => error(format!("no such attribute(s): {name}")),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Result<Value, Failure> {
        match (function, arguments) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.expression(condition)? {
                    Value::Bool(true) => self.expression(yes),
                    Value::Bool(false) => self.expression(no),
                    _ => error("no such overload"),
                };
            }
            ("@not_strictly_false", [inner]) => {
                let inner = self.expression(inner);
                self.charge(1)?;
                return match inner {
                    Err(Failure::OutOfBudget) => Err(Failure::OutOfBudget),
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                };
            }
            // What a fold collects is added to in place.
            ("_+_" | "cel.@mapInsert", [first, rest @ ..]) if matches!(&first.kind, Kind::Ident(name) if name == ACCUMULATOR) =>
            {
                return self.collected(function, rest);
            }
            ("or" | "orValue", [alternative]) if target.is_some() => {
                let Some(target) = target else { return error("no such overload") };
                let receiver = self.expression(target)?;
                self.charge(1)?;
                return match (receiver, function) {
                    (Value::Optional(Some(inner)), "orValue") => Ok(inner.as_ref().clone()),
                    (Value::Optional(Some(inner)), _) => Ok(Value::Optional(Some(inner))),
                    (Value::Optional(None), _) => self.expression(alternative),
                    _ => error("no such overload"),
                };
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len().saturating_add(1));
        if let Some(target) = target {
            values.push(self.expression(target)?);
        }
        for argument in arguments {
            values.push(self.expression(argument)?);
        }
        self.called(function, target.is_some(), &values)
    }

    fn called(&mut self, function: &str, member: bool, values: &[Value]) -> Result<Value, Failure> {
        self.handle(bounds::of_call(function, values))?;
        let result = functions::call(function, member, values, self.meter);
        let cost = spent::call(function, values, result.as_ref().ok());
        if function == "check" {
            // Upstream asks an authoriser over the network; here it costs next to nothing.
            self.budget.spent = self.budget.spent.saturating_add(cost);
            self.charge(0)?;
        } else {
            self.charge(cost)?;
        }
        result.map_err(Failure::Error)
    }

    /// `@result + […]`, without copying what has been collected.
    fn collected(&mut self, function: &str, rest: &[Expr]) -> Result<Value, Failure> {
        self.charge(1)?;
        let mut values = Vec::with_capacity(rest.len());
        for argument in rest {
            values.push(self.expression(argument)?);
        }
        let slot = self.locals.iter_mut().rev().find(|(name, _)| name == ACCUMULATOR);
        let before = match slot {
            Some((_, value)) => std::mem::replace(value, Ok(Value::Null))?,
            None => return error("no such overload"),
        };
        match (before, values.as_slice()) {
            (Value::List(mut list), [Value::List(added)]) => {
                self.charge(1)?;
                Arc::make_mut(&mut list).items.extend(added.items.iter().cloned());
                Ok(Value::List(list))
            }
            (Value::Map(mut map), added) if function == "cel.@mapInsert" => {
                self.charge(1)?;
                let into = Arc::make_mut(&mut map);
                let entries: Vec<(Key, Value)> = match added {
                    [key, value] => match key.key() {
                        Some(key) => vec![(key, value.clone())],
                        None => return error("unsupported key type"),
                    },
                    [Value::Map(map)] => map.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
                    _ => return error("no such overload"),
                };
                for (key, value) in entries {
                    if into.insert(key.clone(), value).is_some() {
                        return error(format!("insert failed: key {} already exists", crate::value::key_text(&key)));
                    }
                }
                Ok(Value::Map(map))
            }
            (before, added) => {
                let values: Vec<Value> = std::iter::once(before).chain(added.iter().cloned()).collect();
                self.called(function, false, &values)
            }
        }
    }

    /// `&&` and `||`: one side that decides outweighs an error of the other.
    fn logical(&mut self, left: &Expr, right: &Expr, decides: bool) -> Result<Value, Failure> {
        let first = self.expression(left);
        match &first {
            Ok(Value::Bool(value)) if *value == decides => return first,
            Err(Failure::OutOfBudget) => return first,
            _ => {}
        }
        let second = self.expression(right);
        match (&first, &second) {
            (_, Ok(Value::Bool(value))) if *value == decides => second,
            (_, Err(Failure::OutOfBudget)) => second,
            (Err(_), _) => first,
            (_, Err(_)) => second,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => second,
            _ => error("no such overload"),
        }
    }

    fn fold(&mut self, fold: &Comprehension) -> Result<Value, Failure> {
        if Expr::is_bind(fold) {
            self.charge(10)?;
            let init = self.expression(&fold.init)?;
            self.locals.push((fold.accumulator.clone(), Ok(init)));
            let result = self.expression(&fold.result);
            self.locals.pop();
            return result;
        }
        let range = self.expression(&fold.range)?;
        let init = self.expression(&fold.init)?;
        let two = fold.second.is_some();
        let pairs: Vec<(Value, Value)> = match &range {
            Value::List(list) if two => {
                list.items.iter().enumerate().map(|(at, item)| (Value::Int(at as i64), item.clone())).collect()
            }
            Value::List(list) => list.items.iter().map(|item| (item.clone(), Value::Null)).collect(),
            Value::Map(map) => map
                .iter()
                .map(|(key, value)| (Value::from(key), if two { value.clone() } else { Value::Null }))
                .collect(),
            Value::Opaque(map) => match (map.call("@keys", &[]), two) {
                (Some(Ok(Value::List(keys))), _) => {
                    let of = |key: &Value| map.call("_[_]", std::slice::from_ref(key)).and_then(Result::ok);
                    let value = |key: &Value| if two { of(key).unwrap_or(Value::Null) } else { Value::Null };
                    keys.items.iter().map(|key| (key.clone(), value(key))).collect()
                }
                _ => return error("no such overload"),
            },
            _ => return error("no such overload"),
        };
        let depth = self.locals.len();
        self.locals.push((fold.accumulator.clone(), Ok(init)));
        let outcome = self.steps(fold, pairs, depth);
        self.locals.truncate(depth);
        outcome
    }

    fn steps(&mut self, fold: &Comprehension, pairs: Vec<(Value, Value)>, depth: usize) -> Result<Value, Failure> {
        for (first, second) in pairs {
            self.locals.truncate(depth.saturating_add(1));
            self.locals.push((fold.variable.clone(), Ok(first)));
            if let Some(name) = &fold.second {
                self.locals.push((name.clone(), Ok(second)));
            }
            match self.expression(&fold.condition)? {
                Value::Bool(true) => {}
                _ => break,
            }
            let step = self.expression(&fold.step);
            if step == Err(Failure::OutOfBudget) {
                return step;
            }
            if let Some((_, slot)) = self.locals.get_mut(depth) {
                *slot = step;
            }
        }
        self.locals.truncate(depth.saturating_add(1));
        self.expression(&fold.result)
    }
}

/// Whether there is such a field.
fn has(operand: &Value, field: &str) -> Result<Value, String> {
    match operand {
        Value::Map(map) => Ok(Value::Bool(map.contains_key(&Key::String(field.into())))),
        Value::Optional(Some(inner)) => has(inner, field),
        Value::Optional(None) => Ok(Value::Bool(false)),
        Value::Opaque(map) => {
            map.call("@in", &[Value::from(field)]).unwrap_or_else(|| Err(format!("no such key: {field}")))
        }
        _ => Err(format!("no such key: {field}")),
    }
}
