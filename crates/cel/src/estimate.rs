//! How much an expression may cost at most, from the declared sizes of its variables.
//!
//! // upstream: cel-go checker/cost.go coster; apiserver pkg/cel/library/cost.go EstimateCallCost

mod library;

use std::collections::HashMap;

use crate::ast::{Comprehension, Expr, Kind};
use crate::check::Checked;
use crate::cost::Range;
use crate::types::{Declaration, Type};
use crate::value::Value;

/// A tenth of a unit a character gone through.
const TRAVERSAL: f64 = 0.1;
/// A quarter of a unit a character of a pattern.
const PATTERN: f64 = 0.25;

/// The cost of a checked tree. Selectors of devices (`devices`) estimate sizes by rules of their own.
pub(crate) fn cost(root: &Expr, checked: &Checked, variables: &[(String, Declaration)], devices: bool) -> Range {
    let mut coster = Coster {
        checked,
        variables,
        devices,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    coster.cost(root)
}

/// Sizes of the entries of a collection that an expression makes.
#[derive(Debug, Clone, Copy)]
struct Entries {
    list: bool,
    key: Range,
    value: Range,
}

#[derive(Debug, Clone)]
struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Coster<'a> {
    checked: &'a Checked,
    variables: &'a [(String, Declaration)],
    devices: bool,
    /// The way from a variable to a node, by number of node.
    paths: HashMap<usize, Vec<String>>,
    sizes: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
    locals: Vec<Local>,
}

/// What a call costs, and how large its result is.
struct CallCost {
    cost: Range,
    size: Option<Range>,
}

impl From<Range> for CallCost {
    fn from(cost: Range) -> Self {
        Self { cost, size: None }
    }
}

impl Coster<'_> {
    fn type_of(&self, node: &Expr) -> &Type {
        self.checked.types.get(node.id).unwrap_or(&Type::Dyn)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, node: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &node.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&node.id).cloned().unwrap_or_default()
    }

    /// The way to a part of a node. Upstream extends the empty way of a computed value, too.
    fn below(&self, node: &Expr, part: &str) -> Vec<String> {
        let mut path = self.path(node);
        path.push(part.to_owned());
        path
    }

    fn extend(&mut self, node: &Expr, from: &Expr, by: &str) {
        let path = self.below(from, by);
        self.paths.insert(node.id, path);
    }

    /// The size that the declarations promise: nothing for numbers, booleans, objects and the keys of maps.
    ///
    /// // upstream: apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go EstimateSize;
    /// // dynamic-resource-allocation/cel/compile.go EstimateSize
    fn declared_size(&self, path: &[String]) -> Option<Range> {
        let (first, rest) = path.split_first()?;
        let mut variables = self.variables.iter();
        // In rules of custom resources every way counts as one from `self`: also that of the name of a type, as in
        // `type(self) == int`, and that of an entry of a computed list.
        let (_, declaration) = variables.find(|(name, _)| !self.devices || name == first)?;
        let named = self.devices;
        let found = rest.iter().try_fold(declaration.clone(), |declaration, part| declaration.part(part, named))?;
        Some(Range { min: 0, max: found.max_elements.unwrap_or(0) })
    }

    fn size(&mut self, node: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&node.id) {
            return Some(*size);
        }
        let own = match &node.kind {
            Kind::Literal(Value::String(text)) => Some(text.chars().count()),
            Kind::Literal(Value::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len()),
            Kind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(own) = own {
            return Some(Range::fixed(own as u64));
        }
        if let Some(size) = self.declared_size(&self.path(node)) {
            self.sizes.insert(node.id, size);
            return Some(size);
        }
        if self.type_of(node).is_scalar() {
            return Some(Range::fixed(1));
        }
        match &node.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, node: Option<&Expr>) -> Range {
        node.and_then(|node| self.size(node)).unwrap_or(Range::UNKNOWN)
    }

    fn entries_of(&self, node: &Expr) -> Option<Entries> {
        self.entries.get(&node.id).copied().or_else(|| match &node.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        })
    }

    fn cost(&mut self, node: &Expr) -> Range {
        match &node.kind {
            Kind::Literal(_) => Range::NOTHING,
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(node.id, path);
                Range::fixed(1)
            }
            Kind::Select { operand, field, test } => {
                let mut sum = self.cost(operand);
                if *test {
                    return sum;
                }
                if matches!(
                    self.type_of(operand),
                    Type::Map(..) | Type::Object(_) | Type::Param(_) | Type::Variable(_) | Type::Opaque(_)
                ) {
                    sum = sum.plus(Range::fixed(1));
                }
                self.extend(node, operand, field);
                sum
            }
            Kind::Call { function, target, arguments } => self.call(node, function, target.as_deref(), arguments),
            Kind::List(elements) => {
                let mut sum = Range::fixed(10);
                let mut size: Option<Range> = None;
                for element in elements {
                    sum = sum.plus(self.cost(&element.value));
                    let one = self.size_or_unknown(Some(&element.value));
                    size = Some(size.map_or(one, |size| size.union(one)));
                }
                let value = size.unwrap_or(Range::NOTHING);
                self.entries.insert(node.id, Entries { list: true, key: Range::fixed(1), value });
                sum
            }
            Kind::Map(entries) => {
                let mut sum = Range::fixed(30);
                let (mut keys, mut values): (Option<Range>, Option<Range>) = (None, None);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key));
                    sum = sum.plus(self.cost(&entry.value));
                    let (key, value) =
                        (self.size_or_unknown(Some(&entry.key)), self.size_or_unknown(Some(&entry.value)));
                    keys = Some(keys.map_or(key, |keys| keys.union(key)));
                    values = Some(values.map_or(value, |values| values.union(value)));
                }
                let (key, value) = (keys.unwrap_or(Range::NOTHING), values.unwrap_or(Range::NOTHING));
                self.entries.insert(node.id, Entries { list: false, key, value });
                sum
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(Range::fixed(40), |sum, (_, _, value)| sum.plus(self.cost(value)))
            }
            Kind::Comprehension(fold) if Expr::is_bind(fold) => {
                let mut sum = self.cost(&fold.range);
                sum = sum.plus(self.cost(&fold.init));
                self.push(fold.accumulator.clone(), &fold.init);
                sum = sum.plus(self.cost(&fold.result));
                self.locals.pop();
                self.copy_sizes(node, &fold.result);
                sum
            }
            Kind::Comprehension(fold) => self.fold(node, fold),
        }
    }

    fn push(&mut self, name: String, from: &Expr) {
        let local = Local { name, path: self.path(from), size: self.size(from), entries: self.entries_of(from) };
        self.locals.push(local);
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn fold(&mut self, node: &Expr, fold: &Comprehension) -> Range {
        let mut sum = self.cost(&fold.range);
        sum = sum.plus(self.cost(&fold.init));
        let depth = self.locals.len();
        self.push(fold.accumulator.clone(), &fold.init);
        let entries = self.entries_of(&fold.range);
        let list = entries.map_or_else(|| matches!(self.type_of(&fold.range), Type::List(_)), |entries| entries.list);
        let paths = |part: &str| self.below(&fold.range, part);
        let (indices, items, names, contents) = (paths("@indices"), paths("@items"), paths("@keys"), paths("@values"));
        let (keys, values) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let mut add = |name: &str, path: Vec<String>, size: Option<Range>| {
            self.locals.push(Local { name: name.to_owned(), path, size, entries: None });
        };
        match &fold.second {
            Some(second) => {
                add(&fold.variable, if list { indices } else { names }, keys);
                add(second, if list { items } else { contents }, values);
            }
            None if list => add(&fold.variable, items, values),
            None => add(&fold.variable, names, keys),
        }
        let condition = self.cost(&fold.condition);
        let step = self.cost(&fold.step);
        self.locals.truncate(depth.saturating_add(1));
        sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(Some(&fold.range));
        sum = sum.plus(count.times(step.plus(condition)));
        match fold.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(node.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(node.id, count);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(node.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn call(&mut self, node: &Expr, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Range {
        if let ("dyn", [argument]) = (function, arguments) {
            let cost = self.cost(argument);
            self.copy_sizes(node, argument);
            return Range::fixed(1).plus(cost);
        }
        let costs: Vec<Range> = arguments.iter().map(|argument| self.cost(argument)).collect();
        let overloads = self.checked.overloads.get(node.id).cloned().unwrap_or_default();
        if overloads.is_empty() {
            return Range::NOTHING;
        }
        let of_target = target.map_or(Range::NOTHING, |target| self.cost(target));
        let (mut cost, mut size): (Option<Range>, Option<Range>) = (None, None);
        for overload in overloads {
            let one = self.one(node, function, overload, target, arguments, &costs);
            cost = Some(cost.map_or(one.cost, |cost| cost.union(one.cost)));
            if let Some(given) = one.size {
                size = Some(size.map_or(given, |size| size.union(given)));
            }
            if let ("index_list" | "index_map", Some(operand)) = (overload, arguments.first()) {
                size = self.entries_of(operand).map(|entries| entries.value);
                self.extend(node, operand, if overload == "index_list" { "@items" } else { "@values" });
            }
            if size.is_none() {
                size = self.size(node);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(node.id, size);
        }
        of_target.plus(cost.unwrap_or(Range::NOTHING))
    }

    /// The cost of a call as one of its overloads.
    fn one(
        &mut self,
        node: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
        costs: &[Range],
    ) -> CallCost {
        let sum = costs.iter().fold(Range::NOTHING, |sum, cost| sum.plus(*cost));
        let known = self.collections(overload, target, arguments);
        if let Some(mut known) = known.or_else(|| self.library(function, overload, target, arguments)) {
            known.cost = known.cost.plus(sum);
            return known;
        }
        let size = |coster: &mut Self, at: usize| coster.size_or_unknown(arguments.get(at));
        let cost_of = |at: usize| costs.get(at).copied().unwrap_or(Range::NOTHING);
        let mut of_result = None;
        let cost = match overload {
            "logical_and" | "logical_or" => {
                return Range { min: cost_of(0).min, max: cost_of(0).plus(cost_of(1)).max }.into();
            }
            "conditional" => {
                let result = size(self, 1).union(size(self, 2));
                if let (Some(yes), Some(no)) = (arguments.get(1), arguments.get(2)) {
                    self.union_entries(node, yes, no);
                }
                return CallCost { cost: cost_of(0).plus(cost_of(1).union(cost_of(2))), size: Some(result) };
            }
            "string_format" => target.map_or(Range::fixed(1), |_| self.size_or_unknown(target).scaled(TRAVERSAL)),
            "string_to_bytes" => {
                let given = size(self, 0);
                of_result = Some(Range { min: given.min, max: given.max.saturating_mul(4) });
                given.scaled(TRAVERSAL)
            }
            "bytes_to_string" => {
                let given = size(self, 0);
                of_result = Some(Range { min: given.min / 4, max: given.max });
                given.scaled(TRAVERSAL)
            }
            "strings_quote" => {
                let given = size(self, 0);
                let max = given.max.saturating_mul(2).saturating_add(2);
                of_result = Some(Range { min: given.min.saturating_add(2), max });
                given.scaled(TRAVERSAL)
            }
            "starts_with_string" | "ends_with_string" => size(self, 0).scaled(TRAVERSAL),
            "in_list" => size(self, 1),
            "matches_string" => {
                let text = self.size_or_unknown(target);
                text.plus(Range::fixed(1)).scaled(TRAVERSAL).times(size(self, 0).scaled(PATTERN))
            }
            "contains_string" => {
                let text = self.size_or_unknown(target);
                text.scaled(TRAVERSAL).times(size(self, 0).scaled(TRAVERSAL))
            }
            "add_string" | "add_bytes" | "add_list" => {
                let result = size(self, 0).plus(size(self, 1));
                if let (Some(one), Some(two)) = (arguments.first(), arguments.get(1)) {
                    self.union_entries(node, one, two);
                }
                of_result = Some(result);
                if overload == "add_list" { Range::fixed(1) } else { result.scaled(TRAVERSAL) }
            }
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => {
                let max = size(self, 0).max.min(size(self, 1).max);
                Range { min: u64::from(max > 0), max }.scaled(TRAVERSAL)
            }
            _ => Range::fixed(1),
        };
        CallCost { cost: cost.plus(sum), size: of_result }
    }

    fn union_entries(&mut self, node: &Expr, one: &Expr, two: &Expr) {
        if let (Some(one), Some(two)) = (self.entries_of(one), self.entries_of(two)) {
            let entries = Entries { list: one.list, key: one.key.union(two.key), value: one.value.union(two.value) };
            self.entries.insert(node.id, entries);
        }
    }
}
