//! CEL expressions on one object, which they see as `object`: the condition `cel` of checks.

mod budget;

pub(crate) use budget::Budget;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value};

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(budget::environment()));

/// Longest expression in bytes; the parser recurses, so deep nesting must end before the stack does.
const LONGEST: usize = 4096;
/// Deepest nesting of brackets and chain of prefix operators.
const DEEPEST: usize = 64;

/// Stack for the library's recursion, in bytes; only what is used of it is taken.
const STACK: usize = 64 << 20;
/// Longest description of what went wrong, in characters.
const LONGEST_WORDS: usize = 300;

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ExpressionError {
    /// What is wrong, in one line.
    pub message: String,
    /// Byte offset in the expression, where the parser knows one.
    pub offset: Option<usize>,
}

impl ExpressionError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), offset: None }
    }
}

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
/// Where it is none, or does not mention `object`.
pub(crate) fn parse(text: &str) -> Result<(), ExpressionError> {
    with_stack(|| compile(text).map(|_| ())).unwrap_or_else(|| Err(ExpressionError::new("not a CEL expression")))
}

/// Runs what the library does with an expression where its recursion has room, and where a panic of it ends nothing else.
fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        thread.ok()?.join().ok()
    })
}

/// The expression as it is evaluated: with everything counted that costs.
fn compile(text: &str) -> Result<IdedExpr, ExpressionError> {
    if text.len() > LONGEST {
        return Err(ExpressionError::new(format!("the expression is longer than {LONGEST} bytes")));
    }
    if nesting(text) > DEEPEST {
        return Err(ExpressionError::new(format!("the expression is nested deeper than {DEEPEST} levels")));
    }
    let program = Program::compile(text).map_err(|errors| {
        let Some(first) = errors.errors.first() else { return ExpressionError::new("not a CEL expression") };
        let line: isize = first.pos.0;
        let column: isize = first.pos.1;
        let before =
            text.split_inclusive('\n').take(usize::try_from(line - 1).unwrap_or(0)).map(str::len).sum::<usize>();
        let offset = before + usize::try_from(column - 1).unwrap_or(0);
        ExpressionError {
            message: first.msg.trim_start_matches("Syntax error: ").to_owned(),
            offset: Some(offset.min(text.len())),
        }
    })?;
    if !program.references().has_variable("object") {
        return Err(ExpressionError::new("the expression does not mention `object`, so it could not fail"));
    }
    budget::count(program.expression()).ok_or_else(|| ExpressionError::new("the expression is nested too deeply"))
}

/// An upper bound of how deep the parser will go.
fn nesting(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut prefixes = 0_usize;
    let mut deepest = 0;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if let Some(open) = quote {
            match character {
                // Escapes mean nothing in raw strings; taking them for such ends a string late, which only a raw
                // string that ends in a backslash does.
                '\\' => drop(characters.next()),
                character if character == open => quote = None,
                _ => {}
            }
            continue;
        }
        match character {
            '"' | '\'' => quote = Some(character),
            '(' | '[' | '{' | '?' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match character {
            '!' | '-' => prefixes += 1,
            character if character.is_whitespace() => {}
            _ => prefixes = 0,
        }
        deepest = deepest.max(depth + prefixes);
    }
    deepest
}

/// Evaluates an expression on an object. What cannot be decided, such as a field that is not there, or within the budget,
/// does not hold.
pub(crate) fn evaluate(expression: &str, object: &serde_json::Value, budget: &Budget) -> Evaluation {
    let fails = |what: &str| Evaluation { holds: false, now: format!("`{expression}` {what}") };
    let left = budget.left();
    let Some((evaluation, left)) = with_stack(|| budget::counting(left, || decide(expression, object))) else {
        return fails("cannot be decided");
    };
    budget.set(left);
    match left {
        Some(_) => evaluation,
        None => fails("cannot be decided: it takes more time or memory than klab gives the expressions of a lab"),
    }
}

fn decide(expression: &str, object: &serde_json::Value) -> Evaluation {
    let fails = |what: String| Evaluation { holds: false, now: format!("`{expression}` {what}") };
    let program = match compile(expression) {
        Ok(program) => program,
        Err(error) => return fails(format!("is not an expression: {error}")),
    };
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    context.add_variable_from_value("object", value(object));
    match Value::resolve(&program, &context) {
        Ok(Value::Bool(true)) => Evaluation { holds: true, now: format!("`{expression}` is true") },
        Ok(Value::Bool(false)) => fails(format!("is false{}", operands(expression, object))),
        Ok(other) => fails(format!("is of type {}, not true or false", other.type_of())),
        Err(error) => fails(format!("cannot be decided: {}", sentence(&error))),
    }
}

fn sentence(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no field `{key}`"),
        ExecutionError::UndeclaredReference(name) => format!("there is nothing called `{name}`"),
        // Values are shown whole, however large.
        other => other.to_string().chars().take(LONGEST_WORDS).collect(),
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

/// JSON as CEL sees Kubernetes objects: whole numbers are `int`, whatever their sign.
fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(bool) => Value::Bool(*bool),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Null,
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(value).collect::<Vec<_>>().into()),
        serde_json::Value::Object(fields) => {
            let fields: HashMap<String, Value> =
                fields.iter().map(|(key, field)| (key.clone(), value(field))).collect();
            Value::from(fields)
        }
    }
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
            let seen = evaluate(expression, &object, &Budget::default());
            assert_eq!((seen.holds, seen.now.as_str()), (holds, now));
        }
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        for (text, message) in [
            ("1 == 1", "the expression does not mention `object`, so it could not fail"),
            ("", "mismatched input '<EOF>'"),
            ("object.spec ==", "mismatched input '<EOF>'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message.starts_with(message), "{text}: {error}");
        }
        assert_eq!(parse("object.a ==").unwrap_err().offset, Some(11));
        let deep = format!("{}object{}", "(".repeat(300), ")".repeat(300));
        assert!(parse(&deep).unwrap_err().message.contains("nested"));
        let negated = format!("{}object.a", "!".repeat(300));
        assert!(parse(&negated).unwrap_err().message.contains("nested"));
    }

    #[test]
    fn every_expression_ends() {
        let text = "x".repeat(100_000);
        let object = json!({ "text": text, "list": vec![1; 5_000], "map": {"a": {"b": text}} });
        let nested = |list: &str, levels: usize, inner: &str| {
            (0..levels).fold(inner.to_owned(), |inner, level| format!("{list}.all(v{level}, {inner})"))
        };
        let doubled =
            |levels| (0..levels).fold("[object.text]".to_owned(), |inner, _| format!("{inner}.map(a, a + a)"));
        for expression in [
            nested("[1,2,3,4,5,6,7,8,9,10]", 10, "object.text != ''"),
            nested("object.list", 3, "true"),
            format!("{}.size() == 0 && object.list == []", doubled(40)),
            (0..40).fold("object".to_owned(), |inner, _| format!("[{inner}].map(a, [a, a])")) + ".size() == 1",
            (0..40).fold("object".to_owned(), |inner, _| format!("[{inner}].map(a, {{'a': a, 'b': a}})"))
                + ".size() == 1",
            "object.list.all(a, object.list.all(b, object.map.a.b.contains('y') || true))".to_owned(),
            "object.list.all(a, object.text.matches('(x{9}){9}$'))".to_owned(),
            "object.list.map(a, object.text).map(b, b + b).size() == 5000".to_owned(),
            // What passes over errors does not hide this one.
            format!("{} || true", nested("object.list", 3, "true")),
            format!("{} && false", nested("object.list", 3, "true")),
        ] {
            let seen = evaluate(&expression, &object, &Budget::default());
            assert!(!seen.holds && seen.now.contains("more time or memory"), "{}", seen.now);
        }
        let budget = Budget::default();
        assert!(evaluate("object.list.all(x, x == 1)", &object, &budget).holds, "what lessons ask is far below");
        assert!(evaluate("object.text.matches('^x+$') && size(object.map.a.b) == 100000", &object, &budget).holds);
        let spent = Budget::default();
        evaluate(&nested("object.list", 3, "true"), &object, &spent);
        assert!(!evaluate("object.list == [] || true", &object, &spent).holds, "one budget is for all expressions");
        for chain in ["object".to_owned() + &".a".repeat(2_000), "object == 1".to_owned() + &" + 1".repeat(1_000)] {
            assert!(parse(&chain).is_err(), "{chain}");
        }
    }
}
