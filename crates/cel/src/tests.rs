//! Expressions, their errors in upstream's words, their values and their costs.

use serde_json::json;

use super::*;

fn spec() -> Declaration {
    let text = || Declaration::string(10);
    Declaration::object(
        "self",
        [
            ("num", Declaration::simple(Type::Int)),
            ("color", text()),
            ("items", Declaration::list(Declaration::string(3_145_726), 1_048_575)),
            ("few", Declaration::list(text(), 4)),
            ("when", Declaration { max_elements: Some(32), min_size: 21, ..Declaration::simple(Type::Timestamp) }),
        ],
    )
}

fn compile(source: &str) -> Result<Program, String> {
    Environment::new().variable("self", spec()).dynamic("object").dynamic("variables.limit").compile(source)
}

fn value(source: &str) -> Result<serde_json::Value, String> {
    let program = compile(source)?;
    let object = json!({ "num": 7, "color": "red", "items": ["a", "b"], "when": "2026-06-01T08:00:00Z", "unknown": 1 });
    let bindings = Bindings(vec![
        ("self", spec().value(&object)),
        ("object", Value::from(&object)),
        ("variables.limit", Value::Int(5)),
    ]);
    let mut budget = Budget::of(PER_CALL_LIMIT);
    program.evaluate(&bindings, &mut budget).map(|value| value.to_json()).map_err(|failure| failure.to_string())
}

#[test]
fn errors_are_upstreams() {
    let operand = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    let argument = operand.replace("'(', '.'", "'(', ')', '.'");
    let cases = [
        ("self.num >", format!("ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>' expecting {operand}\n | self.num >\n | ..........^")),
        ("self.nope == 1", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^".to_owned()),
        ("object.metadata.name.startsWith(", format!("ERROR: <input>:1:33: Syntax error: mismatched input '<EOF>' expecting {argument}\n | object.metadata.name.startsWith(\n | ................................^")),
        ("undefinedVar > 1", "ERROR: <input>:1:1: undeclared reference to 'undefinedVar' (in container '')\n | undefinedVar > 1\n | ^".to_owned()),
        ("self.num > 'one'", "ERROR: <input>:1:10: found no matching overload for '_>_' applied to '(int, string)'\n | self.num > 'one'\n | .........^".to_owned()),
        (
            "object.driver = 'x'",
            "ERROR: <input>:1:15: Syntax error: token recognition error at: '= '\n | object.driver = 'x'\n | ..............^\nERROR: <input>:1:17: Syntax error: extraneous input ''x'' expecting <EOF>\n | object.driver = 'x'\n | ................^".to_owned(),
        ),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^".to_owned()),
        ("self.color.matches('[')", "ERROR: <input>:1:20: invalid matches argument\n | self.color.matches('[')\n | ...................^".to_owned()),
        ("self.few.all(f.x, true)", "ERROR: <input>:1:15: argument must be a simple name\n | self.few.all(f.x, true)\n | ..............^".to_owned()),
        ("nosuch(1)", "ERROR: <input>:1:7: undeclared reference to 'nosuch' (in container '')\n | nosuch(1)\n | ......^".to_owned()),
    ];
    for (source, expected) in cases {
        assert_eq!(compile(source).unwrap_err(), expected, "{source}");
    }
}

#[test]
fn values() {
    let cases = [
        ("self.num + 1", json!(8)),
        ("self.color == 'red' && self.num < 10", json!(true)),
        ("has(self.few) ? size(self.few) : -1", json!(-1)),
        ("self.items.map(i, i + '!').join(',')", json!("a!,b!")),
        ("self.items.all(i, i.size() == 1)", json!(true)),
        ("object.items.exists_one(i, i == 'b')", json!(true)),
        ("['x', 'y'].transformMap(i, v, v + 'z')", json!({"0": "xz", "1": "yz"})),
        ("{'a': 1, 'b': 2}.filter(k, k != 'a')", json!(["b"])),
        ("object.nope == 1 || true", json!(true)),
        ("object.?nope.orValue('none')", json!("none")),
        ("object.?num.optMap(n, n * 2).value()", json!(14)),
        ("[?object.?nope, ?object.?num]", json!([7])),
        ("variables.limit * 2", json!(10)),
        ("self.when < timestamp('2026-06-01T09:00:00Z') && self.when.getHours() == 8", json!(true)),
        ("duration('90m').getHours()", json!(1)),
        ("string(duration('1h30m'))", json!("5400s")),
        ("quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('1k').asInteger() == 1000", json!(true)),
        ("quantity('1').add(quantity('1500m')) == quantity('2500m')", json!(true)),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1', true).major() == 1", json!(true)),
        ("ip('::1').isLoopback() && cidr('10.0.0.0/8').containsIP('10.1.2.3')", json!(true)),
        ("cidr('10.0.0.0/8').containsCIDR('11.0.0.0/16')", json!(false)),
        ("url('https://user@example.com:80/path?k=v').getHost()", json!("example.com:80")),
        ("format.dns1123Label().validate('A').hasValue()", json!(true)),
        ("'%s has %d, %.2f'.format([dyn('it'), 3, 1.0])", json!("it has 3, 1.00")),
        ("'a-b-c'.split('-').reverse()", json!(["c", "b", "a"])),
        ("'hello'.substring(1, 3) + 'hello'.charAt(4) + string('hello'.lastIndexOf('l'))", json!("elo3")),
        ("sets.contains([1, 2, 3], [2]) && [3, 1].sum() == 4 && ![3, 1].isSorted()", json!(true)),
        ("lists.range(3).slice(1, 3)", json!([1, 2])),
        ("'abc123'.find('[0-9]+') + ('x.y'.matches('^x\\\\.y$') ? '!' : '?')", json!("123!")),
        ("type(self.num) == int && type('x') == string", json!(true)),
        ("int('12') + int(3.7) + int(2u)", json!(17)),
        ("dyn(1) == 1.0 && dyn(2u) > dyn(1)", json!(true)),
        ("b'ab' == bytes('ab')", json!(true)),
        ("-self.num + -3", json!(-10)),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source).unwrap_or_else(|error| panic!("{source}: {error}")), expected, "{source}");
    }
}

#[test]
fn failures_are_upstreams() {
    let cases = [
        ("object.nope == 1", "no such key: nope"),
        ("1 / (self.num - 7)", "division by zero"),
        ("9223372036854775807 + self.num", "integer overflow"),
        ("self.items[5]", "index out of bounds: 5"),
        ("object.num + 'x'", "no such overload"),
        (
            "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source).unwrap_err(), expected, "{source}");
    }
}

#[test]
fn costs_are_estimated_from_sizes() {
    let cost = |source: &str| compile(source).unwrap().cost();
    // self.num, >, a literal
    assert_eq!(cost("self.num > 0"), Range { min: 3, max: 3 });
    assert_eq!(cost("has(self.color)"), Range { min: 1, max: 1 });
    // two selects and their variables, and a tenth of ten characters
    assert_eq!(cost("self.color == self.color"), Range { min: 5, max: 5 });
    assert_eq!(cost("self.few.all(f, f == 'x')").max, 2 + 4 * (1 + 1 + 1 + 1 + 1) + 1);
    // A type is not larger than what is looked at: rules on numbers or texts compare them.
    let number_or_text = Declaration { max_elements: Some(100), ..Declaration::simple(Type::Dyn) };
    let rule = "type(self) == int && self > 0 || type(self) == string && self.startsWith('a')";
    let program = Environment::new().variable("self", number_or_text).compile(rule).unwrap();
    assert!(program.cost().max < 100, "{:?}", program.cost());
    assert!(cost("self.items.all(i, self.items.all(j, i == j || i.contains(j)))").max > 1_000_000_000_000);
}

/// Estimates from least to most, and what evaluation spends.
///
/// // upstream: apiserver pkg/cel/library/cost_test.go; cel-go ext/lists_test.go
#[test]
fn costs_are_upstreams() {
    let cases: &[(&str, (u64, u64), u64)] = &[
        ("[1, 2, 3, 4, 5].sum()", (15, 15), 15),
        ("[uint(1), uint(2), uint(3), uint(4), uint(5)].max()", (20, 20), 20),
        ("[1, 2, 3, 4, 5].indexOf(3)", (15, 15), 15),
        ("'01234567890123456789012345678901234567890123456789'.lastIndexOf('123')", (5, 5), 5),
        ("url('https://kubernetes.io/a').getHost()", (4, 4), 4),
        ("url('https://kubernetes.io/a') == url('https://kubernetes.io/a')", (7, 9), 7),
        ("url('https://kubernetes.io/a') == url('http://x.b')", (5, 5), 5),
        ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isLoopback()", (5, 5), 5),
        ("ip('192.168.0.1') == ip('192.168.0.1')", (5, 5), 5),
        ("ip.isCanonical('2001:db8::abcd')", (3, 3), 3),
        ("cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')", (7, 11), 7),
        ("cidr('192.168.0.0/16').containsIP('192.169.0.1')", (5, 8), 5),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", (7, 9), 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", (7, 11), 9),
        ("'abc 123 def 123'.replace('123', '456', 1)", (3, 3), 3),
        ("'abc 123 def 123'.split(' ', 1)", (3, 3), 3),
        ("'abc 123 def 123'.substring(5, 8)", (2, 2), 2),
        ("'abc 123 def 123'.findAll('123', 1)", (2, 2), 2),
        ("quantity('12Mi') == quantity('12Mi')", (3, 3), 3),
        ("semver('1.0.0').compareTo(semver('1.2.3'))", (3, 3), 3),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", (5, 11), 5),
        ("sets.contains([1, 2, 3, 4], [2, 3])", (29, 29), 29),
        ("!sets.contains([1], [1, 2])", (24, 24), 24),
        ("sets.equivalent([1], [1, 1])", (25, 25), 25),
        ("[1, 2, 3].slice(1, 3)", (23, 23), 23),
        ("lists.range(5)", (16, 16), 16),
        ("[1, 2, 3].reverse()", (24, 24), 24),
        ("[[1, 2], [3]].flatten()", (43, 43), 43),
        ("[1, 2, 3].distinct()", (39, 39), 39),
        ("['c', 'a', 'b'].sort()", (40, 40), 39),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", (37, 41), 41),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", (39, 43), 40),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", (67, 75), 75),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", (131, 131), 131),
        ("[1, 2].existsOne(i, v, v > 0)", (18, 20), 20),
        ("[1, 2].transformList(i, v, v < 5, v + 1)", (27, 53), 53),
    ];
    let mut wrong = Vec::new();
    for (source, (min, max), spent) in cases {
        let program = Environment::new().compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let mut budget = Budget::of(PER_CALL_LIMIT);
        program.evaluate(&Bindings(Vec::new()), &mut budget).unwrap_or_else(|error| panic!("{source}: {error}"));
        if program.cost() != (Range { min: *min, max: *max }) || budget.spent != *spent {
            wrong.push((source, program.cost(), budget.spent));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lists_of_sets_and_maps_have_no_order() {
    let set = |items: serde_json::Value| {
        let shape = Shape::List(std::sync::Arc::new(Declaration::simple(Type::String)), ListKind::Set);
        Declaration { shape, max_elements: None, min_size: 2 }.value(&items)
    };
    assert_eq!(set(json!(["a", "b"])), set(json!(["b", "a"])));
    assert_ne!(Value::from(&json!(["a", "b"])), Value::from(&json!(["b", "a"])));
}

#[test]
fn large_expressions_are_refused() {
    let long = |first: &str, step: &str, times: usize| format!("{first}{}", step.repeat(times));
    for (source, refusal) in [
        (long("object", ".a", 20_000), "expression recursion limit exceeded: 400"),
        (long("1", " + 1", 20_000), "expression recursion limit exceeded: 400"),
        (long("object.?a", ".optMap(a, a)", 60), "expression size limit exceeded: 400000"),
        (long("(", "(", 20_000), "expression recursion limit exceeded: 100"),
    ] {
        let error = compile(&source).unwrap_err();
        assert!(error.lines().next().is_some_and(|line| line.ends_with(refusal)), "{:?}", error.lines().next());
    }
    let conditions = vec!["object.num == 7"; 300].join(" && ");
    assert_eq!(value(&conditions), Ok(json!(true)));
}

#[test]
fn large_values_are_not_made() {
    let repeated = |first: &str, step: &str| format!("{first}{}", step.repeat(40));
    let pairs = repeated("[1]", ".map(a, [a, a])");
    for source in [
        repeated("[lists.range(1000)]", ".map(a, a + a)"),
        repeated("['some text']", ".map(a, a + a)"),
        format!("{pairs} == {pairs}"),
        format!("{pairs} in [{pairs}]"),
        format!("'%s'.format([{pairs}])"),
        format!("{pairs}.flatten(100)"),
        pairs.clone(),
        "lists.range(1000).map(i, 'a').join().replace('a', lists.range(100000).map(i, 'b').join())".to_owned(),
    ] {
        assert_eq!(value(&source).unwrap_err(), "operation cancelled: actual cost limit exceeded", "{source}");
    }
    assert_eq!(value(&format!("{pairs}.size() == 1")), Ok(json!(true)));
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_written_panics(source in "[-a-z0-9'\"\\\\().\\[\\]{}?:,!<>=&|+*/% \n\u{e4}]{0,60}") {
        let _ = value(&source);
    }
}
