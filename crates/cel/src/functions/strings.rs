//! Functions of text, patterns among them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;

use super::format;
use super::go_pattern;
use super::outcome::Outcome;
use crate::meter::Meter;
use crate::value::{Value, list};

/// Patterns that were used, compiled. Expressions use few.
static PATTERNS: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);

/// How many compiled patterns are kept.
const KEPT: usize = 256;
/// Steps of work that one takes to compile, and one that is much longer once it is compiled: what repeats or names classes.
const TO_COMPILE: u64 = 20;
const TO_COMPILE_LONG: u64 = 2_000;

/// A pattern, compiled; the error is that of compiling.
pub(crate) fn pattern(text: &str, meter: Option<Meter>) -> Result<Regex, String> {
    let mut patterns = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = patterns.get(text) {
        return Ok(known.clone());
    }
    if let Some(steps) = meter {
        steps(if text.contains(['{', '\\']) { TO_COMPILE_LONG } else { TO_COMPILE });
    }
    let compiled = go_pattern::translated(text).and_then(|translated| {
        let compiled = regex::RegexBuilder::new(&translated).size_limit(1 << 20).build();
        compiled.map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
    });
    let compiled = compiled.map_err(|fault| format!("error parsing regexp: {fault}"))?;
    if patterns.len() >= KEPT {
        patterns.clear();
    }
    patterns.insert(text.to_owned(), compiled.clone());
    Ok(compiled)
}

/// The functions of text; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value], meter: Option<Meter>) -> Option<Outcome> {
    use Value::{Bool, Int, String};
    let pattern = |text: &str| pattern(text, meter);
    let texts = |items: Vec<&str>| list(items.into_iter().map(Value::from).collect());
    Some(match (function, values) {
        ("contains", [String(text), String(part)]) => Ok(Bool(text.contains(part.as_ref()))),
        ("startsWith", [String(text), String(part)]) => Ok(Bool(text.starts_with(part.as_ref()))),
        ("endsWith", [String(text), String(part)]) => Ok(Bool(text.ends_with(part.as_ref()))),
        ("matches", [String(text), String(wanted)]) => pattern(wanted).map(|pattern| Bool(pattern.is_match(text))),
        ("find", [String(text), String(wanted)]) => {
            pattern(wanted).map(|pattern| Value::from(pattern.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [String(text), String(wanted), rest @ ..]) => {
            let most = match rest {
                [] => None,
                [Int(most)] => usize::try_from(*most).ok(),
                _ => return None,
            };
            pattern(wanted).map(|pattern| {
                let found = pattern.find_iter(text).map(|found| found.as_str());
                texts(found.take(most.unwrap_or(usize::MAX)).collect())
            })
        }
        ("lowerAscii", [String(text)]) => Ok(Value::from(text.to_ascii_lowercase())),
        ("upperAscii", [String(text)]) => Ok(Value::from(text.to_ascii_uppercase())),
        ("trim", [String(text)]) => Ok(Value::from(text.trim())),
        ("charAt", [String(text), Int(at)]) => {
            let length = text.chars().count();
            match usize::try_from(*at) {
                Ok(at) if at == length => Ok(Value::from("")),
                Ok(at) => match text.chars().nth(at) {
                    Some(character) => Ok(Value::from(character.to_string())),
                    None => Err(format!("index out of range: {at}")),
                },
                Err(_) => Err(format!("index out of range: {at}")),
            }
        }
        ("substring", [String(text), Int(from), rest @ ..]) => {
            let length = text.chars().count() as i64;
            let to = match rest {
                [] => length,
                [Int(to)] => *to,
                _ => return None,
            };
            substring(text, *from, to, length, rest.is_empty())
        }
        ("indexOf" | "lastIndexOf", [String(text), String(part), rest @ ..]) => {
            let offset = match rest {
                [] => None,
                [Int(offset)] => Some(*offset),
                _ => return None,
            };
            position(function, text, part, offset)
        }
        ("replace", [String(text), String(from), String(to)]) => Ok(Value::from(text.replace(from.as_ref(), to))),
        ("replace", [String(text), String(from), String(to), Int(most)]) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            Ok(Value::from(text.replacen(from.as_ref(), to, most)))
        }
        ("split", [String(text), String(separator), rest @ ..]) => {
            let most = match rest {
                [] => -1,
                [Int(most)] => *most,
                _ => return None,
            };
            Ok(split(text, separator, most))
        }
        ("join", [Value::List(items), rest @ ..]) => {
            let separator = match rest {
                [] => "",
                [String(separator)] => separator.as_ref(),
                _ => return None,
            };
            let parts: Option<Vec<&str>> = items.items.iter().map(Value::as_str).collect();
            match parts {
                Some(parts) => Ok(Value::from(parts.join(separator))),
                None => Err("no such overload".to_owned()),
            }
        }
        ("format", [String(text), Value::List(arguments)]) => format::format(text, &arguments.items).map(Value::from),
        ("strings.quote", [String(text)]) => Ok(Value::from(format!("{text:?}"))),
        ("jsonpatch.escapeKey", [String(text)]) => Ok(Value::from(text.replace('~', "~0").replace('/', "~1"))),
        _ => return None,
    })
}

fn substring(text: &str, from: i64, to: i64, length: i64, open: bool) -> Outcome {
    if from < 0 || from > length || to < 0 || to > length {
        let wrong = if from < 0 || from > length { from } else { to };
        return Err(format!("index out of range: {wrong}"));
    }
    if from > to {
        return Err(if open {
            format!("index out of range: {from}")
        } else {
            format!("invalid substring range. start: {from}, end: {to}")
        });
    }
    let (skipped, taken) = (from as usize, to.saturating_sub(from) as usize);
    Ok(Value::from(text.chars().skip(skipped).take(taken).collect::<std::string::String>()))
}

fn position(function: &str, text: &str, part: &str, offset: Option<i64>) -> Outcome {
    let characters: Vec<char> = text.chars().collect();
    let wanted: Vec<char> = part.chars().collect();
    let length = characters.len();
    if let Some(offset) = offset
        && (offset < 0 || offset as usize > length)
    {
        return Err(format!("index out of range: {offset}"));
    }
    let here = |at: &usize| characters.get(*at..).is_some_and(|rest| rest.starts_with(&wanted));
    let found = if function == "indexOf" {
        let from = offset.map_or(0, |offset| offset as usize);
        (from..=length).find(here)
    } else {
        let from = offset.map_or(length, |offset| offset as usize);
        (0..=from).rev().find(here)
    };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn split(text: &str, separator: &str, most: i64) -> Value {
    let parts: Vec<std::string::String> = match most {
        0 => Vec::new(),
        _ if separator.is_empty() => {
            let characters: Vec<char> = text.chars().collect();
            let limit = if most < 0 { characters.len() } else { most as usize };
            let cut = limit.saturating_sub(1).min(characters.len().saturating_sub(1));
            let (heads, tail) = characters.split_at_checked(cut).unwrap_or((&characters, &[]));
            let mut parts: Vec<std::string::String> = heads.iter().map(char::to_string).collect();
            if !tail.is_empty() {
                parts.push(tail.iter().collect());
            }
            parts
        }
        _ if most < 0 => text.split(separator).map(str::to_owned).collect(),
        _ => text.splitn(most as usize, separator).map(str::to_owned).collect(),
    };
    list(parts.into_iter().map(Value::from).collect())
}
