//! Kubernetes' expression language (CEL): compiled once against declared variables, with upstream's errors and limits, and
//! evaluated with a budget. Rules of custom resources, admission policies, match conditions, device selectors and checks of
//! labs use it.
//!
//! ```text
//! source ─ lexer, parser, macros ─▶ tree ─ check (types, overloads) ─▶ Program ─ evaluate(variables, budget) ─▶ value
//!                                                                         └─ estimate (declared sizes) ─▶ cost
//! ```
//!
//! `functions/` holds the functions, `signatures.txt` their types, `spent.rs` their costs; `names` has the formats of names that
//! functions and the API server check alike.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]
#![allow(
    clippy::match_same_arms,
    clippy::single_match_else,
    clippy::too_many_lines,
    reason = "tables of functions, types and costs, an arm a line as upstream lists them"
)]

mod ast;
mod bounds;
mod check;
mod cost;
mod errors;
mod estimate;
mod evaluate;
mod functions;
mod lexer;
mod literals;
mod macros;
mod meter;
pub mod names;
mod parser;
mod paths;
mod signatures;
mod spent;
#[cfg(test)]
mod tests;
mod time;
mod tree;
mod types;
mod unify;
mod value;
mod words;

pub use self::cost::Range;
pub use self::errors::Issue;
pub use self::evaluate::{Bindings, Budget, Failure, PER_CALL_LIMIT, REQUEST_LIMIT, Variables};
pub use self::meter::Meter;
pub use self::types::{Declaration, Field, MAX_REQUEST, ObjectType, Shape, Type};
pub use self::value::{Key, List, ListKind, Opaque, Value};
pub use self::words::is_word;

use self::ast::Expr;

/// What expressions may name.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(String, Declaration)>,
    devices: bool,
    meter: Option<Meter>,
}

impl Environment {
    /// One without variables; all functions of Kubernetes are there.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one variable more. Its name may hold dots: `variables.limit` is then one variable.
    #[must_use]
    pub fn variable(mut self, name: &str, declaration: Declaration) -> Self {
        self.variables.push((name.to_owned(), declaration));
        self
    }

    /// As selectors of devices have it: with `cel.bind(name, value, expression)`, which gives a value a name, and with
    /// their estimates of sizes.
    #[must_use]
    pub fn for_devices(mut self) -> Self {
        self.devices = true;
        self
    }

    /// With one variable more whose type is known only when it is evaluated.
    #[must_use]
    pub fn dynamic(self, name: &str) -> Self {
        self.variable(name, Declaration::simple(Type::Dyn))
    }

    /// With a meter, which counts the work of compiling and evaluating and may stop an evaluation.
    #[must_use]
    pub fn metered(mut self, meter: Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// All that is wrong with it, in upstream's words: `ERROR: <input>:1:5: undefined field 'nope'` with the line.
    pub fn compile(&self, source: &str) -> Result<Program, String> {
        self.compile_or_issues(source).map_err(|issues| errors::display(source, &issues))
    }

    /// Compiles an expression, for who shows errors in another form than upstream.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of their places.
    pub fn compile_or_issues(&self, source: &str) -> Result<Program, Vec<Issue>> {
        let in_order = |mut issues: Vec<Issue>| {
            issues.sort_by_key(|issue| issue.offset);
            issues
        };
        let mut parsed = parser::parse(source, self.devices).map_err(in_order)?;
        let checked = check::check(&mut parsed, &self.variables).map_err(in_order)?;
        let found = literals::look(&parsed.root, &parsed.offsets, self.meter);
        if !found.issues.is_empty() {
            return Err(in_order(found.issues));
        }
        let cost = estimate::cost(&parsed.root, &checked, &self.variables, self.devices);
        let output = checked.types.get(parsed.root.id).cloned().unwrap_or(Type::Dyn);
        Ok(Program { root: parsed.root, output, cost, names: found.names, meter: self.meter })
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Expr,
    output: Type,
    cost: Range,
    names: Vec<String>,
    meter: Option<Meter>,
}

impl Program {
    /// The type of its value.
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Its cost, by the sizes its variables are declared to have.
    pub fn cost(&self) -> Range {
        self.cost
    }

    /// Whether it names this variable.
    pub fn names(&self, variable: &str) -> bool {
        self.names.iter().any(|name| name == variable)
    }

    /// What it reads of a variable as far as that is written out: fields and constant keys, as paths.
    pub fn reads(&self, variable: &str) -> Vec<Vec<String>> {
        paths::of(&self.root, variable)
    }

    /// Its value. What it costs is taken from the budget.
    ///
    /// # Errors
    /// When it fails (`no such key: color`), or would cost more than is left.
    pub fn evaluate(&self, variables: &dyn Variables, budget: &mut Budget) -> Result<Value, Failure> {
        evaluate::evaluate(&self.root, variables, budget, self.meter)
    }
}

/// A quantity as a value of `kubernetes.Quantity`.
pub fn quantity(amount: klab_scheduler::quantity::Quantity) -> Value {
    functions::quantity_value(amount)
}

/// A version as a value of `kubernetes.Semver`.
///
/// # Errors
/// When it is none.
pub fn semver(text: &str) -> Result<Value, String> {
    functions::semver_value(text)
}

/// Whether a text is an instant or a date.
pub fn is_timestamp(text: &str) -> bool {
    time::timestamp(text).is_some()
}

/// A pattern, compiled; the last ones used are kept. The meter counts what compiling takes.
///
/// # Errors
/// That of compiling.
pub fn pattern(text: &str, meter: Option<Meter>) -> Result<regex::Regex, String> {
    functions::pattern(text, meter)
}

/// A span of time as Go writes it, in nanoseconds.
pub fn duration_nanos(text: &str) -> Option<i64> {
    time::duration(text)
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
