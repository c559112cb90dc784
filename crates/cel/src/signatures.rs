//! Which functions there are, what they take and what they give.
//!
//! One line an overload: its name, what it takes (with a receiver before the dot), what it gives, and its upstream id, by
//! which costs differ.
//!
//! // upstream: cel-go common/stdlib/standard.go, ext/*.go; apiserver pkg/cel/library/*.go

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::types::Type;

/// An overload of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    /// The receiver is the first.
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
    /// Names of the type parameters.
    pub(crate) parameters: Vec<Arc<str>>,
}

/// All functions with their overloads.
static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        if let Some((name, overload)) = read(line) {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
});

/// The overloads of a function; `None` where there is no such function.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Reads a line: `name | receiver . arguments | result | id`, arguments separated by `; `.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let mut parts = line.split(" | ");
    let (name, takes, gives, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (receiver, arguments) = match takes.split_once(" . ") {
        Some((receiver, arguments)) => (Some(receiver), arguments),
        None => (None, takes),
    };
    let types: Vec<Type> = receiver
        .into_iter()
        .chain(arguments.split("; ").filter(|argument| !argument.is_empty() && *argument != "-"))
        .map(Type::parse)
        .collect();
    let result = Type::parse(gives);
    let mut parameters = Vec::new();
    for given in types.iter().chain([&result]) {
        collect(given, &mut parameters);
    }
    Some((name, Overload { id, member: receiver.is_some(), arguments: types, result, parameters }))
}

fn collect(given: &Type, parameters: &mut Vec<Arc<str>>) {
    if let Type::Param(name) = given
        && !parameters.contains(name)
    {
        parameters.push(Arc::clone(name));
    }
    for inner in given.parameters() {
        collect(inner, parameters);
    }
}

const TABLE: &str = include_str!("signatures.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let lines = TABLE.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(FUNCTIONS.values().map(Vec::len).sum::<usize>(), lines);
        assert_eq!(overloads("matches").map(<[Overload]>::len), Some(2));
        assert!(overloads("nosuch").is_none());
    }
}
