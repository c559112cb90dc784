//! What rules of schemas are estimated to cost.
//!
//! // upstream: apiextensions-apiserver pkg/apiserver/schema/cel/compilation_test.go TestCostEstimation

use serde_json::{Value, json};

use super::declaration::declare;
use super::rules::Rule;

/// The most that a rule about values of the schema costs.
fn cost(schema: &Value, rule: &str) -> u64 {
    let declaration = declare(schema, false, "selfType").unwrap();
    let compiled = Rule::compile(&json!({ "rule": rule }), &declaration);
    compiled.program.unwrap_or_else(|error| panic!("{rule}: {error}")).cost().max
}

/// A schema as upstream's tests abbreviate it: `number`, `date-time`, `[string]` for a list of them, `{string}` for a map,
/// `object` for one with a required and an optional text. `most` limits the whole.
fn schema(text: &str, most: Option<u64>) -> Value {
    let mut schema = if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        json!({ "type": "array", "items": schema(inner, None), "maxItems": most })
    } else if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        json!({ "type": "object", "additionalProperties": schema(inner, None), "maxProperties": most })
    } else {
        match text {
            "int-or-string" => json!({ "x-kubernetes-int-or-string": true, "maxLength": most }),
            "object" => json!({ "type": "object", "required": ["required"], "properties": {
                "required": { "type": "string" }, "optional": { "type": "string" },
            } }),
            "date" | "date-time" | "duration" | "byte" => {
                json!({ "type": "string", "format": text, "maxLength": most })
            }
            "enum" => json!({ "type": "string", "enum": ["A", "B", "C", "LongValue"], "maxLength": most }),
            other => json!({ "type": other, "maxLength": most }),
        }
    };
    if let Some(map) = schema.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    schema
}

#[test]
fn estimates_are_upstreams() {
    // The schema and its rule; what it costs without a limit; a limit, and what it costs with it.
    let cases: &[(&str, &str, u64, u64, u64)] = &[
        ("[number]", "self.all(x, true)", 4_718_591, 10, 32),
        ("[string]", "self.all(x, true)", 3_145_727, 20, 62),
        ("[boolean]", "self.all(x, true)", 1_887_437, 5, 17),
        ("[[number]]", "self.all(x, true)", 3_145_727, 100, 302),
        ("[object]", "self.all(x, true)", 555_128, 50, 152),
        ("{number}", "self.all(x, true)", 1_348_169, 10, 32),
        ("{string}", "self.all(x, true)", 1_179_647, 3, 11),
        ("{boolean}", "self.all(x, true)", 943_718, 100, 302),
        ("string", "self.contains('test')", 314_574, 10, 5),
        ("string", "self.startsWith('test')", 2, 15, 2),
        ("string", "size(self + \"hello\") > size(\"hello\")", 314_578, 4, 7),
        ("[number]", "self[1] == 0.0", 2, 5000, 2),
        ("[string]", "self[1] == self[1]", 314_577, 8, 314_577),
        ("string", "self.matches(\"x\")", 314_574, 50, 22),
        ("string", "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7, 10, 7),
        ("string", "self.matches(\"\")", 1, 100, 1),
        ("{number}", "self[\"x\"] == 0.0", 2, 0, 2),
        ("string", "self == \"x\"", 2, 0, 1),
        ("byte", "self == b\"x\"", 2, 0, 1),
        ("[number]", "self.all(x, x == 0.0)", 6_291_454, 3 * 1024 * 2048, 25_165_826),
        ("[int-or-string]", "self.all(x, true)", 4_718_591, 10, 32),
        ("[int-or-string]", "self[0] == 5", 3, 10, 3),
        ("[object]", "self[0] == null", 2, 422, 2),
        ("[[number]]", "self[0][0] == -1.0", 3, 51, 3),
        ("[{number}]", "self.all(x, x.y == 25.2)", 6_291_452, 12, 74),
        ("[{number}]", "self[0].x > 2.0", 4, 3000, 4),
        ("[duration]", "self.all(x, true)", 2_359_295, 5, 17),
        ("[duration]", "self[0].getHours() == 2", 4, 525, 4),
        ("[date]", "self.all(x, true)", 725_936, 15, 47),
        ("[date-time]", "self.all(x, true)", 428_963, 25, 77),
        ("{object}", "self.all(x, true)", 428_963, 20, 62),
        ("{{number}}", "self.all(x, true)", 1_179_647, 10, 32),
        ("{[number]}", "self.all(x, true)", 1_179_647, 25, 77),
        ("{duration}", "self.all(x, true)", 1_048_577, 5, 17),
        ("{date}", "self.all(x, true)", 524_288, 10, 32),
        ("{date-time}", "self.all(x, true)", 349_526, 25, 77),
        ("string", "self.find('[0-9]+') == ''", 629_147, 10, 11),
        ("string", "self.lowerAscii() == 'lower!'", 314_575, 10, 6),
        ("{integer}", "oldSelf.size() == self.size()", 5, 10, 5),
        ("{date-time}", "self[\"a\"] == self[\"b\"]", 8, 7, 8),
        ("{duration}", "self[\"c\"] == self[\"d\"]", 8, 42, 8),
        ("enum", "self.contains('A')", 2, 1000, 401),
        ("int-or-string", "isQuantity(self)", 314_574, 20, 9),
    ];
    for (text, rule, unlimited, most, limited) in cases {
        assert_eq!(cost(&schema(text, None), rule), *unlimited, "{text}: {rule}");
        assert_eq!(cost(&schema(text, Some(*most)), rule), *limited, "{text} of {most}: {rule}");
    }
    let texts = |most: Option<u64>| {
        let mut list = schema("[string]", most);
        list["items"] = schema("string", most);
        list
    };
    for (rule, unlimited, limited) in
        [("self.join(' ') == 'aa bb'", 329_853_068_905, 43), ("self.isSorted() == true", 329_854_432_052, 52)]
    {
        assert_eq!((cost(&texts(None), rule), cost(&texts(Some(10)), rule)), (unlimited, limited), "{rule}");
    }
    let named = |fields: &[&str], most: Option<u64>| {
        let fields: serde_json::Map<_, _> =
            fields.iter().map(|name| ((*name).to_owned(), schema("string", most))).collect();
        json!({ "type": "object", "properties": fields })
    };
    let rule = "self.str.split(self.separator) == []";
    let of = |most: Option<u64>| cost(&named(&["str", "separator"], most), rule);
    assert_eq!((of(None), of(Some(10))), (629_160, 22), "{rule}");
}

/// Objects, numbers and the keys of maps have no size: rules about them stay cheap, however large the values get.
#[test]
fn objects_and_keys_count_for_nothing() {
    let object = json!({ "type": "object", "properties": { "a": { "type": "string" }, "n": { "type": "integer" } } });
    let rows = json!({ "type": "array", "maxItems": 16, "items": object });
    let labels = schema("{string}", Some(8));
    for (schema, rule, expected) in [
        (&object, "self == oldSelf", 2),
        (&object, "self != oldSelf", 2),
        (&object, "self.n == oldSelf.n", 4),
        (&object, "['x', 'y'].exists(x, x == self.a)", 25),
        (&rows, "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0", 4286),
        (&labels, "self.all(k, k.matches('^[a-z]+$'))", 50),
        (&labels, "self.all(k, !k.contains('*'))", 42),
        (&labels, "self.all(k, k.find('[a-z]').size() > 0)", 66),
        (&labels, "self.all(k, k.split('/').size() < 3)", 50),
    ] {
        assert_eq!(cost(schema, rule), expected, "{rule}");
    }
}
