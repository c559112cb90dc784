//! Types of all nodes, and which overloads their calls may mean.
//!
//! // upstream: cel-go checker/checker.go

use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Kind};
use crate::errors::Issue;
use crate::parser::Parsed;
use crate::signatures::{self, Overload};
use crate::types::{Declaration, Type};
use crate::unify::{Mapping, instantiate, most_general};
use crate::value::Value;

/// What the checker found out, by number of node.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    pub(crate) overloads: Vec<Vec<&'static str>>,
}

/// Names that are types.
const TYPES: &[(&str, Type)] = &[
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("null_type", Type::Null),
    ("dyn", Type::Dyn),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("google.protobuf.Duration", Type::Duration),
];

/// Checks a tree, which it changes where dots turn out to be parts of names.
pub(crate) fn check(parsed: &mut Parsed, variables: &[(String, Declaration)]) -> Result<Checked, Vec<Issue>> {
    let nodes = parsed.offsets.len();
    let mut checker = Checker {
        offsets: &parsed.offsets,
        variables: variables.iter().map(|(name, declaration)| (name.clone(), declaration.to_type())).collect(),
        types: vec![Type::Dyn; nodes],
        overloads: vec![Vec::new(); nodes],
        mapping: Mapping::default(),
        issues: Vec::new(),
    };
    checker.expression(&mut parsed.root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|found| checker.mapping.substitute(found, true)).collect();
    Ok(Checked { types, overloads: checker.overloads })
}

struct Checker<'a> {
    offsets: &'a [usize],
    variables: Vec<(String, Type)>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    mapping: Mapping,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn set(&mut self, id: usize, found: Type) -> Type {
        if let Some(place) = self.types.get_mut(id) {
            *place = found.clone();
        }
        found
    }

    fn report(&mut self, id: usize, message: String) -> Type {
        self.issues.push(Issue { offset: self.offsets.get(id).copied().unwrap_or_default(), message });
        Type::Error
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let variable = self.variables.iter().rev().find(|(known, _)| known == name);
        variable
            .map(|(_, found)| found.clone())
            .or_else(|| {
                let (_, named) = TYPES.iter().find(|(known, _)| *known == name)?;
                Some(Type::Type(Arc::new(named.clone())))
            })
            .or_else(|| match name {
                "list" => Some(Type::Type(Arc::new(Type::list(Type::Dyn)))),
                "map" => Some(Type::Type(Arc::new(Type::map(Type::Dyn, Type::Dyn)))),
                "type" => Some(Type::Type(Arc::new(Type::Type(Arc::new(Type::Dyn))))),
                "optional_type" => Some(Type::Type(Arc::new(Type::Optional(Arc::new(Type::Dyn))))),
                "net.IP" | "net.CIDR" | "kubernetes.URL" | "kubernetes.Quantity" | "kubernetes.Semver" => {
                    Some(Type::Type(Arc::new(Type::Opaque(name.into()))))
                }
                _ => None,
            })
    }

    fn expression(&mut self, node: &mut Expr) -> Type {
        let id = node.id;
        let found = match &mut node.kind {
            Kind::Literal(value) => literal(value),
            Kind::Ident(name) => match self.lookup(name) {
                Some(found) => found,
                None => {
                    let message = format!("undeclared reference to '{name}' (in container '')");
                    self.report(id, message)
                }
            },
            Kind::Select { .. } => return self.select(node),
            Kind::Call { .. } => return self.call(node),
            Kind::List(elements) => {
                let mut joined: Option<Type> = None;
                for element in elements {
                    let mut found = self.expression(&mut element.value);
                    if element.optional {
                        found = self.unwrapped(&element.value, found);
                    }
                    joined = Some(self.join(element.value.id, joined, found));
                }
                let joined = joined.unwrap_or_else(|| self.mapping.fresh());
                Type::list(joined)
            }
            Kind::Map(entries) => {
                let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
                for entry in entries {
                    let key = self.expression(&mut entry.key);
                    keys = Some(self.join(entry.key.id, keys, key));
                    let mut value = self.expression(&mut entry.value);
                    if entry.optional {
                        value = self.unwrapped(&entry.value, value);
                    }
                    values = Some(self.join(entry.value.id, values, value));
                }
                let keys = keys.unwrap_or_else(|| self.mapping.fresh());
                let values = values.unwrap_or_else(|| self.mapping.fresh());
                Type::map(keys, values)
            }
            Kind::Struct { name, fields } => {
                let name = name.clone();
                for (_, _, value) in fields.iter_mut() {
                    self.expression(value);
                }
                self.message(id, &name, fields)
            }
            Kind::Comprehension(fold) => self.fold(fold),
        };
        self.set(id, found)
    }

    /// A message that is made: only declared objects and types of patches can be.
    fn message(&mut self, id: usize, name: &str, fields: &[(usize, String, Expr)]) -> Type {
        let Some(Type::Type(inner)) = self.lookup(name) else {
            return self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        };
        let Type::Object(object) = inner.as_ref() else {
            return self.report(id, format!("'{name}' is not a message type"));
        };
        for (_, field, value) in fields {
            let found = self.types.get(value.id).cloned().unwrap_or(Type::Dyn);
            match object.fields.get(field) {
                None => {
                    self.report(value.id, format!("undefined field '{field}'"));
                }
                Some(declared) => {
                    let declared = declared.declaration.to_type();
                    if !self.mapping.assignable(&found, &declared) {
                        let message =
                            format!("expected type of field '{field}' is '{declared}' but provided type is '{found}'");
                        self.report(value.id, message);
                    }
                }
            }
        }
        inner.as_ref().clone()
    }

    /// What is in an optional element.
    fn unwrapped(&mut self, node: &Expr, found: Type) -> Type {
        match found {
            Type::Optional(inner) => inner.as_ref().clone(),
            Type::Dyn | Type::Error => found,
            other => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.report(node.id, message)
            }
        }
    }

    /// One type for both; elements of one literal must be alike.
    fn join(&mut self, id: usize, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        if self.mapping.assignable(&before, &found) {
            return most_general(&before, &found);
        }
        let (before, found) = (self.mapping.substitute(&before, false), self.mapping.substitute(&found, false));
        self.report(id, format!("expected type '{before}' but found '{found}'"))
    }

    fn select(&mut self, node: &mut Expr) -> Type {
        let id = node.id;
        // A path may be the name of a variable.
        if let Some(name) = node.qualified_name()
            && let Some(found) = self.lookup(&name)
        {
            node.kind = Kind::Ident(name);
            return self.set(id, found);
        }
        let Kind::Select { operand, field, test } = &mut node.kind else { return Type::Error };
        let (field, test) = (field.clone(), *test);
        let of = self.expression(operand);
        let found = self.field(id, &of, &field, false);
        self.set(id, if test { Type::Bool } else { found })
    }

    fn field(&mut self, id: usize, of: &Type, field: &str, optional: bool) -> Type {
        let of = self.mapping.substitute(of, false);
        let (of, wrapped) = match &of {
            Type::Optional(inner) => (inner.as_ref().clone(), true),
            other => (other.clone(), false),
        };
        let found = match &of {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(declared) => declared.declaration.to_type(),
                None => self.report(id, format!("undefined field '{field}'")),
            },
            Type::Variable(_) => {
                self.mapping.assignable(&Type::Dyn, &of);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Opaque(name) => match opaque_field(name, field) {
                Some(found) => found,
                None => self.report(id, format!("undefined field '{field}'")),
            },
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if wrapped || optional { Type::Optional(Arc::new(found)) } else { found }
    }

    fn call(&mut self, node: &mut Expr) -> Type {
        let id = node.id;
        let Kind::Call { function, target, arguments } = &mut node.kind else { return Type::Error };
        if function == "_?._" {
            let of = arguments.first_mut().map_or(Type::Dyn, |operand| self.expression(operand));
            let name = match arguments.get(1).map(|field| &field.kind) {
                Some(Kind::Literal(Value::String(name))) => name.to_string(),
                _ => String::new(),
            };
            let found = self.field(id, &of, &name, true);
            self.overload(id, "select_optional_field");
            return self.set(id, found);
        }
        for argument in arguments.iter_mut() {
            self.expression(argument);
        }
        // The receiver may be a part of the function's name: `sets.contains`.
        if let Some(receiver) = target.as_ref().and_then(|target| target.qualified_name()) {
            let qualified = format!("{receiver}.{function}");
            if let Some(overloads) = signatures::overloads(&qualified) {
                let ids: Vec<usize> = arguments.iter().map(|argument| argument.id).collect();
                (*function, *target) = (qualified.clone(), None);
                return self.resolve(id, &qualified, overloads, &ids, false);
            }
        }
        let name = function.clone();
        let mut ids = Vec::new();
        if let Some(target) = target {
            self.expression(target);
            ids.push(target.id);
        }
        ids.extend(arguments.iter().map(|argument| argument.id));
        let member = target.is_some();
        match signatures::overloads(&name) {
            Some(overloads) => self.resolve(id, &name, overloads, &ids, member),
            None => {
                let found = self.report(id, format!("undeclared reference to '{name}' (in container '')"));
                self.set(id, found)
            }
        }
    }

    fn overload(&mut self, id: usize, overload: &'static str) {
        if let Some(place) = self.overloads.get_mut(id) {
            place.push(overload);
        }
    }

    fn resolve(
        &mut self,
        id: usize,
        name: &str,
        overloads: &'static [Overload],
        nodes: &[usize],
        member: bool,
    ) -> Type {
        let given: Vec<Type> = nodes.iter().map(|node| self.types.get(*node).cloned().unwrap_or(Type::Dyn)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.logical(id, overloads, nodes, &given);
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let variables: Vec<Type> = overload.parameters.iter().map(|_| self.mapping.fresh()).collect();
            let wanted: Vec<Type> = overload
                .arguments
                .iter()
                .map(|argument| instantiate(argument, &overload.parameters, &variables))
                .collect();
            if !self.mapping.all_assignable(&given, &wanted) {
                continue;
            }
            self.overload(id, overload.id);
            let gives = instantiate(&overload.result, &overload.parameters, &variables);
            let gives = self.mapping.substitute(&gives, false);
            result = Some(match result {
                None => gives,
                Some(before) if matches!(before, Type::Dyn) || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        let found = result.unwrap_or_else(|| {
            let texts: Vec<String> =
                given.iter().map(|found| self.mapping.substitute(found, true).to_string()).collect();
            let signature = match (member, texts.split_first()) {
                (true, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
                _ => format!("({})", texts.join(", ")),
            };
            self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
        });
        self.set(id, found)
    }

    fn logical(&mut self, id: usize, overloads: &'static [Overload], nodes: &[usize], given: &[Type]) -> Type {
        let mut found = Type::Bool;
        for (node, given) in nodes.iter().zip(given) {
            if !self.mapping.assignable(given, &Type::Bool) {
                found = self.report(*node, format!("expected type 'bool' but found '{given}'"));
            }
        }
        for overload in overloads {
            self.overload(id, overload.id);
        }
        self.set(id, found)
    }

    fn fold(&mut self, fold: &mut Comprehension) -> Type {
        let range = self.expression(&mut fold.range);
        let init = self.expression(&mut fold.init);
        let range = self.mapping.substitute(&range, false);
        let (first, second) = match &range {
            Type::List(element) if fold.second.is_some() => (Type::Int, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.mapping.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.report(fold.range.id, message), Type::Error)
            }
        };
        let depth = self.variables.len();
        self.variables.push((fold.accumulator.clone(), init.clone()));
        self.variables.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.variables.push((name.clone(), second));
        }
        let condition = self.expression(&mut fold.condition);
        if !self.mapping.assignable(&condition, &Type::Bool) {
            self.report(fold.condition.id, format!("expected type 'bool' but found '{condition}'"));
        }
        let step = self.expression(&mut fold.step);
        if !Expr::is_bind(fold) && !self.mapping.assignable(&step, &init) {
            self.report(fold.step.id, format!("expected type '{init}' but found '{step}'"));
        }
        self.variables.truncate(depth.saturating_add(1));
        let result = self.expression(&mut fold.result);
        self.variables.truncate(depth);
        self.mapping.substitute(&result, false)
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::String,
    }
}

/// Fields of opaque types: there are none yet that have any.
fn opaque_field(_name: &str, _field: &str) -> Option<Type> {
    None
}
