//! CEL expressions on one object, which they see as `object`: the condition `cel` of checks.

use klab_cel::{Bindings, Budget, Environment, Failure, PER_CALL_LIMIT, Program, Value};

/// Most that the expressions of all checks may cost in one look.
pub(crate) const MAX_COST: u64 = 4 * PER_CALL_LIMIT;

/// Longest description of what went wrong, in characters.
const MAX_WORDS: usize = 300;

/// What an expression comes to on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// Whether it is true.
    pub holds: bool,
    /// What it comes to, and the values it looked at: `` `object.a == 2` is false; object.a is 1 ``.
    pub now: String,
}

/// Checks that a text is a CEL expression on `object`.
///
/// # Errors
/// The first thing that is wrong with it, in one line.
pub(crate) fn parse(text: &str) -> Result<(), String> {
    compile(text).map(drop)
}

fn compile(text: &str) -> Result<Program, String> {
    let program = Environment::new().dynamic("object").compile_or_issues(text).map_err(|issues| {
        let first = issues.into_iter().next().map_or_else(String::new, |issue| issue.message);
        let message = first.trim_start_matches("Syntax error: ").trim_end_matches(" (in container '')");
        message.lines().next().unwrap_or_default().to_owned()
    })?;
    if program.names("object") {
        Ok(program)
    } else {
        Err("the expression does not mention `object`, so it could not fail".to_owned())
    }
}

/// Evaluates an expression on an object. What cannot be decided, such as a field that is not there, or within the budget,
/// does not hold.
pub(crate) fn evaluate(expression: &str, object: &serde_json::Value, budget: &mut Budget) -> Evaluation {
    let fails = |what: String| Evaluation { holds: false, now: format!("`{expression}` {what}") };
    let program = match compile(expression) {
        Ok(program) => program,
        Err(error) => return fails(format!("is not an expression: {error}")),
    };
    let bindings = Bindings(vec![("object", Value::from(object))]);
    match program.evaluate(&bindings, budget) {
        Ok(Value::Bool(true)) => Evaluation { holds: true, now: format!("`{expression}` is true") },
        Ok(Value::Bool(false)) => fails(format!("is false{}", operands(expression, object))),
        Ok(other) => fails(format!("is of type {}, not true or false", other.type_name())),
        Err(Failure::OutOfBudget) => {
            fails("cannot be decided: it takes more time or memory than klab gives the expressions of a lab".to_owned())
        }
        Err(Failure::Error(message)) => fails(format!("cannot be decided: {}", sentence(&message))),
    }
}

fn sentence(message: &str) -> String {
    match message.strip_prefix("no such key: ") {
        Some(key) => format!("there is no field `{key}`"),
        None => message.chars().take(MAX_WORDS).collect(),
    }
}

/// `; object.status.readyReplicas is 1` for the plain paths in an expression.
fn operands(expression: &str, object: &serde_json::Value) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (start, _) in expression.match_indices("object.") {
        let path: String = expression[start..]
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric() || matches!(character, '.' | '_'))
            .collect();
        let pointer = format!("/{}", path.trim_start_matches("object.").replace('.', "/"));
        let found = object.pointer(&pointer);
        if let Some(found) = found.filter(|found| !found.is_object() && !found.is_array()) {
            let text = format!("{path} is {found}");
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    if texts.is_empty() { String::new() } else { format!("; {}", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn truth_and_what_is_seen() {
        let object = json!({
            "metadata": {"name": "web", "labels": {"a/b": "x"}},
            "spec": {"replicas": 2},
            "status": {"readyReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]},
        });
        for (expression, holds, now) in [
            ("object.spec.replicas == 2", true, "`object.spec.replicas == 2` is true"),
            (
                "object.status.readyReplicas == 2",
                false,
                "`object.status.readyReplicas == 2` is false; object.status.readyReplicas is 1",
            ),
            (
                "object.status.readyReplicas + 1 == object.spec.replicas",
                true,
                "`object.status.readyReplicas + 1 == object.spec.replicas` is true",
            ),
            (
                "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
                true,
                "`object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')` is true",
            ),
            ("object.metadata.labels['a/b'] == 'x'", true, "`object.metadata.labels['a/b'] == 'x'` is true"),
            (
                "has(object.status.replicas) && object.status.replicas > 0",
                false,
                "`has(object.status.replicas) && object.status.replicas > 0` is false",
            ),
            ("object.status.foo == 1", false, "`object.status.foo == 1` cannot be decided: there is no field `foo`"),
            ("object.spec.replicas", false, "`object.spec.replicas` is of type int, not true or false"),
        ] {
            let seen = evaluate(expression, &object, &mut Budget::of(MAX_COST));
            assert_eq!((seen.holds, seen.now.as_str()), (holds, now));
        }
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        for (text, message) in [
            ("1 == 1", "the expression does not mention `object`, so it could not fail"),
            ("", "mismatched input '<EOF>'"),
            ("object.spec ==", "mismatched input '<EOF>'"),
            ("object.size == small", "undeclared reference to 'small'"),
            ("sizes(object) == 1", "undeclared reference to 'sizes'"),
            ("object.a == 1 && 1 == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
            (&format!("{}object{}", "(".repeat(300), ")".repeat(300)), "expression recursion limit exceeded"),
            (&format!("object{}", ".a".repeat(2_000)), "expression recursion limit exceeded"),
            (&format!("object == 1{}", " + 1".repeat(1_000)), "expression recursion limit exceeded"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn every_expression_ends() {
        let text = "x".repeat(100_000);
        let object = json!({ "text": text, "list": vec![1; 5_000], "map": {"a": {"b": text}} });
        let nested = |list: &str, levels: usize, inner: &str| {
            (0..levels).fold(inner.to_owned(), |inner, level| format!("{list}.all(v{level}, {inner})"))
        };
        let repeated = |first: &str, step: &str| (0..40).fold(first.to_owned(), |inner, _| format!("{inner}{step}"));
        let pairs = repeated("[object]", ".map(a, [a, a])");
        for expression in [
            nested("[1,2,3,4,5,6,7,8,9,10]", 10, "object.text != ''"),
            nested("object.list", 3, "true"),
            format!("{}.size() == 0 && object.list == []", repeated("[object.text]", ".map(a, a + a)")),
            format!("{}.size() == 0", repeated("[object.list]", ".map(a, a + a)")),
            format!("{pairs} == {pairs}"),
            "object.text.replace('x', object.text).size() == 0".to_owned(),
            "object.list.map(a, object.text).join().size() == 0".to_owned(),
            "object.list.all(a, object.list.all(b, object.map.a.b.contains('y') || true))".to_owned(),
            "object.list.all(a, object.text.matches('(x{9}){9}$'))".to_owned(),
            "object.list.map(a, object.text).map(b, b + b).size() == 5000".to_owned(),
            // What passes over errors does not hide this one.
            format!("{} || true", nested("object.list", 3, "true")),
            format!("{} && false", nested("object.list", 3, "true")),
        ] {
            let seen = evaluate(&expression, &object, &mut Budget::of(MAX_COST));
            assert!(!seen.holds && seen.now.contains("more time or memory"), "{}", seen.now);
        }
        let mut budget = Budget::of(MAX_COST);
        for expression in [
            "object.list.all(x, x == 1)",
            "object.text.matches('^x+$') && size(object.map.a.b) == 100000",
            &format!("{pairs}.size() == 1"),
        ] {
            let seen = evaluate(expression, &object, &mut budget);
            assert!(seen.holds, "{}", seen.now);
        }
        evaluate(&nested("object.list", 3, "true"), &object, &mut budget);
        assert!(
            !evaluate("object.list == [] || true", &object, &mut budget).holds,
            "one budget is for all expressions"
        );
    }
}
