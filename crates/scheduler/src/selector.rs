//! Label selectors: the structured form of the API, the text form of `kubectl -l`, and matching.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Lexer, Parser, Requirement.Matches (v1.36)

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiLabelSelector;
use serde::Deserialize;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// How a requirement compares a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The label is there and its value is one of the list.
    In,
    /// The label is missing or its value is not in the list.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label's value is an integer above the one given.
    Gt,
    /// The label's value is an integer below the one given.
    Lt,
}

impl Operator {
    /// Reads the operator names of the API (`In`, `NotIn`, …).
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }

    /// The operator's name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
        }
    }
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with; sorted, without duplicates.
    pub values: Vec<String>,
}

impl Requirement {
    /// A requirement with its values in canonical order.
    pub fn new(key: impl Into<String>, operator: Operator, mut values: Vec<String>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { key: key.into(), operator, values }
    }

    /// Whether a label value (`None`: no such label) satisfies the requirement.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.integers(value).is_some_and(|(have, wanted)| have > wanted),
            Operator::Lt => self.integers(value).is_some_and(|(have, wanted)| have < wanted),
        }
    }

    /// Both sides of `Gt` and `Lt`, if they are integers.
    fn integers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let [wanted] = self.values.as_slice() else { return None };
        Some((parse_integer(value?)?, parse_integer(wanted)?))
    }
}

/// An integer as Go's `ParseInt(s, 10, 64)` accepts it.
fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl fmt::Display for Requirement {
    /// The text form that `kubectl -l` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match (self.operator, self.values.as_slice()) {
            (Operator::Exists, _) => f.write_str(key),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::In, [value]) => write!(f, "{key}={value}"),
            (Operator::NotIn, [value]) => write!(f, "{key}!={value}"),
            (Operator::In, values) => write!(f, "{key} in ({})", values.join(",")),
            (Operator::NotIn, values) => write!(f, "{key} notin ({})", values.join(",")),
            (Operator::Gt, values) => write!(f, "{key}>{}", values.join(",")),
            (Operator::Lt, values) => write!(f, "{key}<{}", values.join(",")),
        }
    }
}

/// A label selector: all requirements must hold.
///
/// `null` in the API selects nothing, `{}` everything; both are kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Selects nothing.
    Nothing,
    /// Selects what satisfies every requirement; with none, everything.
    All(Vec<Requirement>),
}

impl Selector {
    /// Whether there is no requirement at all, so that everything is selected.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Whether an object is selected whose labels are looked up one by one.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => {
                requirements.iter().all(|requirement| requirement.accepts(label(&requirement.key)))
            }
        }
    }

    /// A selector for equal labels, as Services and ReplicationControllers use it.
    pub fn from_map(labels: &Labels) -> Self {
        Self::All(labels.iter().map(|(key, value)| Requirement::new(key, Operator::In, vec![value.clone()])).collect())
    }

    /// The selector of the API; absent means nothing.
    pub fn from_api(selector: Option<&ApiLabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::Nothing) };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new(key, Operator::In, vec![value.clone()]));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = Operator::parse(&expression.operator)
                .filter(|operator| !matches!(operator, Operator::Gt | Operator::Lt))
                .ok_or_else(|| {
                    SelectorError(format!("{:?} is not a valid label selector operator", expression.operator))
                })?;
            let values = expression.values.clone().unwrap_or_default();
            check_value_count(operator, &values)?;
            requirements.push(Requirement::new(&expression.key, operator, values));
        }
        Ok(Self::All(requirements))
    }

    /// The selector of the API in an object's JSON: `null` selects nothing, and so does one that the API would refuse.
    pub fn from_json(selector: &serde_json::Value) -> Self {
        let api = Option::<ApiLabelSelector>::deserialize(selector).ok().flatten();
        Self::from_api(api.as_ref()).unwrap_or(Self::Nothing)
    }

    /// The requirements; none for [`Selector::Nothing`].
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Self::Nothing => &[],
            Self::All(requirements) => requirements,
        }
    }
}

fn check_value_count(operator: Operator, values: &[String]) -> Result<(), SelectorError> {
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => Err(SelectorError(
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".into(),
        )),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => Err(SelectorError(format!(
            "values: Invalid value: {values:?}: values set must be empty for exists and does not exist"
        ))),
        Operator::Gt | Operator::Lt if values.len() != 1 => Err(SelectorError(format!(
            "values: Invalid value: {values:?}: for 'Gt', 'Lt' operators, exactly one value is required"
        ))),
        _ => Ok(()),
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("<nothing>"),
            Self::All(requirements) => {
                for (index, requirement) in requirements.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{requirement}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why a selector is not valid, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl FromStr for Selector {
    type Err = SelectorError;

    /// Reads `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        TextParser { rest: text }.selector()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    const fn text(&self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

/// A reader of the text form; errors carry the words `kubectl` prints.
struct TextParser<'a> {
    rest: &'a str,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

fn expected<T>(found: &Token<'_>, what: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{}', expected: {what}", found.text())))
}

impl<'a> TextParser<'a> {
    fn next(&mut self) -> Token<'a> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let is_symbol = |c: char| "=!(),<>".contains(c);
        let length = match rest.chars().next() {
            None => {
                self.rest = rest;
                return Token::End;
            }
            Some('=' | '!' | '<' | '>') => {
                let run = rest.find(|c| !"=!<>".contains(c)).unwrap_or(rest.len());
                ["==", "!="].iter().find(|symbol| rest[..run].starts_with(**symbol)).map_or(1, |symbol| symbol.len())
            }
            Some('(' | ')' | ',') => 1,
            Some(_) => {
                let end = rest.find(|c: char| is_symbol(c) || c.is_ascii_whitespace()).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                self.rest = after;
                return Token::Word(word);
            }
        };
        let (symbol, after) = rest.split_at(length);
        self.rest = after;
        Token::Symbol(symbol)
    }

    fn peek(&self) -> Token<'a> {
        TextParser { rest: self.rest }.next()
    }

    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => break,
                Token::Word(_) | Token::Symbol("!") => {}
                other @ Token::Symbol(_) => return expected(&other, "!, identifier, or 'end of string'"),
            }
            let requirement =
                self.requirement().map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => break,
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return expected(&other, "identifier after ','"),
                },
                other => return expected(&other, "',' or 'end of string'"),
            }
        }
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(Selector::All(requirements))
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else { return expected(&token, "identifier") };
        check_key(key)?;
        if absent {
            return Ok(Requirement::new(key, Operator::DoesNotExist, Vec::new()));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement::new(key, Operator::Exists, Vec::new()));
        }
        let token = self.next();
        let (operator, values) = match token {
            Token::Word("in") => (Operator::In, self.values()?),
            Token::Word("notin") => (Operator::NotIn, self.values()?),
            Token::Symbol("=" | "==") => (Operator::In, vec![self.exact_value()?]),
            Token::Symbol("!=") => (Operator::NotIn, vec![self.exact_value()?]),
            Token::Symbol(">") => (Operator::Gt, vec![self.exact_value()?]),
            Token::Symbol("<") => (Operator::Lt, vec![self.exact_value()?]),
            other => return expected(&other, OPERATORS),
        };
        check_value_count(operator, &values)?;
        if matches!(operator, Operator::Gt | Operator::Lt) {
            if values.iter().any(|value| parse_integer(value).is_none()) {
                return Err(SelectorError(format!(
                    "values[0]: Invalid value: {:?}: for 'Gt', 'Lt' operators, the value must be an integer",
                    values[0]
                )));
            }
        } else {
            values.iter().try_for_each(|value| check_value(key, value))?;
        }
        Ok(Requirement::new(key, operator, values))
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let token = self.next();
        if token != Token::Symbol("(") {
            return Err(SelectorError(format!("found '{}' expected: '('", token.text())));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value.to_owned());
                    match self.next() {
                        Token::Symbol(",") => {
                            if matches!(self.peek(), Token::Symbol("," | ")")) {
                                values.push(String::new());
                            }
                        }
                        Token::Symbol(")") => return Ok(values),
                        other => return expected(&other, "',' or ')'"),
                    }
                }
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => values.push(String::new()),
                other => return expected(&other, "',', ')' or identifier"),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => expected(&other, "identifier"),
        }
    }
}

fn has_form_of_name(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(alphanumeric)
        && bytes.last().copied().is_some_and(alphanumeric)
        && bytes.iter().all(|&byte| alphanumeric(byte) || b"-_.".contains(&byte))
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(lower)
            && bytes.last().copied().is_some_and(lower)
            && bytes.iter().all(|&byte| lower(byte) || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Checks a label key (`name` or `prefix/name`) as the API does.
pub fn check_key(key: &str) -> Result<(), SelectorError> {
    match key_problems(key).join("; ") {
        why if why.is_empty() => Ok(()),
        why => Err(SelectorError(format!("key: Invalid value: {key:?}: {why}"))),
    }
}

/// What is wrong with a label key.
///
/// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go IsLabelKey (v1.36)
pub(crate) fn key_problems(key: &str) -> Vec<String> {
    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const PREFIX: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
        '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        let example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![format!("a valid label key {NAME} {example}")];
    }
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if !is_dns_subdomain(prefix) => problems.push(format!("prefix part {PREFIX}")),
        _ => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !has_form_of_name(name) {
        problems.push(format!("name part {NAME}"));
    }
    problems
}

/// Checks a label value as the API does; `key` is only named in the error.
pub fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    match value_problems(value).join("; ") {
        why if why.is_empty() => Ok(()),
        why => Err(SelectorError(format!("values[0][{key}]: Invalid value: {value:?}: {why}"))),
    }
}

/// What is wrong with a label value.
///
/// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go IsLabelValue (v1.36)
pub(crate) fn value_problems(value: &str) -> Vec<&'static str> {
    const FORM: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
        and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
        for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let long = (value.len() > 63).then_some("must be no more than 63 bytes");
    let malformed = (!value.is_empty() && !has_form_of_name(value)).then_some(FORM);
    long.into_iter().chain(malformed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn text_form_matches() {
        let object = labels(&[("app", "web"), ("tier", "2"), ("example.com/x", "")]);
        for (text, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , tier=2", true),
            ("app!=web", false),
            ("app!=db", true),
            ("missing!=x", true),
            ("app in (db, web)", true),
            ("app in(db,web)", true),
            ("app notin (db,web)", false),
            ("missing notin (a)", true),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("tier>1", true),
            ("tier<2", false),
            ("app>1", false),
            ("example.com/x", true),
            ("example.com/x=", true),
            ("app in (web,)", true),
        ] {
            let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(&object), matches, "{text}");
        }
    }

    #[test]
    fn text_form_errors() {
        for (text, message) in [
            ("app=web,", "found '', expected: identifier after ','"),
            ("=web", "found '=', expected: !, identifier, or 'end of string'"),
            ("app web", "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"),
            ("app=web db", "found 'db', expected: ',' or 'end of string'"),
            ("app in web", "unable to parse requirement: found 'web' expected: '('"),
            ("app in (web", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(text.parse::<Selector>().map_err(|error| error.0), Err(message.to_owned()), "{text}");
        }
        let error = "-app=x".parse::<Selector>().unwrap_err().0;
        assert!(
            error.starts_with("unable to parse requirement: key: Invalid value: \"-app\": name part must consist of"),
            "{error}"
        );
    }

    #[test]
    fn null_selects_nothing_and_empty_everything() {
        let object = labels(&[("app", "web")]);
        assert!(!Selector::from_api(None).unwrap().matches(&object));
        let empty = ApiLabelSelector::default();
        assert!(Selector::from_api(Some(&empty)).unwrap().matches(&object));
    }

    #[test]
    fn displays_as_text() {
        let text = "!h,a=b,c!=d,e in (x,y),f notin (y,z),g";
        let selector: Selector = text.parse().unwrap();
        assert_eq!(selector.to_string(), "a=b,c!=d,e in (x,y),f notin (y,z),g,!h");
    }
}
