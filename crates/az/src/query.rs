//! `--query`: JMESPath, and the order in which an expression names the columns of its result.

use jmespath::ast::Ast;
use serde_json::Value;

use crate::refusal::Refusal;

/// What an expression makes of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The result.
    pub value: Value,
    /// The keys of its objects in the order in which the expression names them.
    pub order: Option<Vec<String>>,
}

/// An expression.
pub struct Query(jmespath::Expression<'static>);

impl Query {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(expression: &str) -> Result<Self, Refusal> {
        let read = jmespath::compile(&with_json_literals(expression));
        read.map(Self).map_err(|_| {
            Refusal::usage(format!("argument --query: invalid jmespath_type value: '{expression}'")).advise(
                "To learn more about --query, please visit: 'https://learn.microsoft.com/cli/azure/query-azure-cli'",
            )
        })
    }

    /// Applies it.
    ///
    /// # Errors
    /// When it asks for what the document cannot give.
    pub fn search(&self, document: &Value) -> Result<Found, Refusal> {
        let failed = |error: jmespath::JmespathError| Refusal::new(error.reason.to_string());
        let found = self.0.search(document).map_err(failed)?;
        let value = serde_json::to_value(&*found).map_err(|error| Refusal::new(error.to_string()))?;
        Ok(Found { value: whole_numbers(value), order: order(self.0.as_ast()) })
    }
}

/// Applies an expression.
///
/// # Errors
/// When it is none, or asks for what the document cannot give.
pub fn search(expression: &str, document: &Value) -> Result<Found, Refusal> {
    Query::read(expression)?.search(document)
}

/// The expression with literals that are JSON: az takes `` `text` `` for a text, as older JMESPath did.
fn with_json_literals(expression: &str) -> String {
    let mut plain = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find(['`', '\'', '"']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let quote = from.chars().next().unwrap_or_default();
        let inside = from.get(1..).unwrap_or_default();
        let mut is_escaped = false;
        let end = inside.find(|letter: char| {
            let ends = letter == quote && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        let Some(end) = end else {
            rest = from;
            break;
        };
        let (literal, after) = inside.split_at(end);
        let is_text = quote == '`' && serde_json::from_str::<Value>(literal).is_err();
        let text = if is_text { Value::from(literal.trim_start()).to_string() } else { literal.to_owned() };
        plain.extend([quote.to_string(), text, quote.to_string()]);
        rest = after.get(1..).unwrap_or_default();
    }
    plain + rest
}

/// Numbers that were whole before the library made floating-point numbers of them.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => (float as i64).into(),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, whole_numbers(value))).collect(),
        value => value,
    }
}

fn order(ast: &Ast) -> Option<Vec<String>> {
    match ast {
        Ast::MultiHash { elements, .. } => Some(elements.iter().map(|pair| pair.key.clone()).collect()),
        Ast::Projection { lhs, rhs, .. } | Ast::Subexpr { lhs, rhs, .. } => order(rhs).or_else(|| order(lhs)),
        Ast::Condition { then, .. } => order(then),
        Ast::Flatten { node, .. } => order(node),
        Ast::Function { args, .. } => args.first().and_then(order),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_of_workshops_find_what_they_ask_for() {
        let document = json!([
            { "name": "nodepool1", "count": 2, "mode": "System", "nodeLabels": null },
            { "name": "extra", "count": 1, "mode": "User", "nodeLabels": { "workload": "extra" } },
        ]);
        for (expression, expected) in [
            ("[].name", json!(["nodepool1", "extra"])),
            ("[0].count", json!(2)),
            ("[?mode=='User'].name | [0]", json!("extra")),
            ("length(@)", json!(2)),
            (
                "[].{Name:name, Nodes:count}",
                json!([{ "Name": "nodepool1", "Nodes": 2 }, { "Name": "extra", "Nodes": 1 }]),
            ),
            ("[1].nodeLabels.workload", json!("extra")),
            ("[?count > `1`].[name, count]", json!([["nodepool1", 2]])),
            ("sort_by(@, &name)[].name", json!(["extra", "nodepool1"])),
            ("[0].nothing", json!(null)),
            ("[?mode==`User`].name", json!(["extra"])),
            ("[?count==`2`].name | join(`, `, @)", json!("nodepool1")),
            ("[?name=='a`b'] || `[]`", json!([])),
        ] {
            assert_eq!(search(expression, &document).unwrap().value, expected, "{expression}");
        }
        let refusal = search("[", &document).unwrap_err();
        assert_eq!(
            (refusal.exit_code, refusal.message.as_str()),
            (2, "argument --query: invalid jmespath_type value: '['")
        );
    }

    #[test]
    fn columns_come_in_the_order_of_the_expression() {
        let document = json!([{ "a": { "b": 1 } }]);
        for (expression, expected) in [
            ("[].{z:a.b, a:a}", Some("z a")),
            ("[?a].{z:a, b:a}", Some("z b")),
            ("{z:@, b:@}", Some("z b")),
            ("[].{z:a, b:a} | [0]", Some("z b")),
            ("sort_by([].{z:a.b, b:a}, &z)", Some("z b")),
            ("[].a", None),
        ] {
            let order = search(expression, &document).unwrap().order;
            assert_eq!(order.map(|keys| keys.join(" ")).as_deref(), expected, "{expression}");
        }
    }
}
