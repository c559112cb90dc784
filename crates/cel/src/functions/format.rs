//! `'%s has %d'.format([...])`
//!
//! // upstream: cel-go ext/formatting.go

use crate::time;
use crate::value::Value;
use crate::value::key_text;

/// The text with its clauses replaced.
pub(super) fn format(text: &str, arguments: &[Value]) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut next = 0_usize;
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        if characters.peek() == Some(&'%') {
            characters.next();
            out.push('%');
            continue;
        }
        let mut precision = None;
        if characters.peek() == Some(&'.') {
            characters.next();
            let mut digits = String::new();
            while let Some(digit) = characters.peek().copied().filter(char::is_ascii_digit) {
                characters.next();
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok().map(|digits| digits.min(64));
        }
        let Some(verb) = characters.next() else { return Err("unexpected end of format string".to_owned()) };
        let Some(value) = arguments.get(next) else { return Err(format!("index {next} out of range")) };
        next = next.saturating_add(1);
        let shown = clause(verb, precision, value).ok_or_else(|| match verb {
            's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' => {
                format!("error during formatting: {verb} clause cannot be used with {}", value.type_name())
            }
            _ => format!("unrecognized formatting clause \"{verb}\""),
        })?;
        out.push_str(&shown);
    }
    Ok(out)
}

fn clause(verb: char, precision: Option<usize>, value: &Value) -> Option<String> {
    Some(match (verb, value) {
        ('s', _) => shown(value),
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('f', Value::Double(number)) => format!("{number:.*}", precision.unwrap_or(6)),
        ('f', Value::Int(number)) => format!("{:.*}", precision.unwrap_or(6), *number as f64),
        ('e', Value::Double(number)) => exponent(*number, precision.unwrap_or(6)),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', Value::Int(number)) if *number < 0 => format!("-{:b}", number.unsigned_abs()),
        ('b', Value::Int(number)) => format!("{number:b}"),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('o', Value::Int(number)) => format!("{number:o}"),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x', Value::Int(number)) => format!("{number:x}"),
        ('X', Value::Int(number)) => format!("{number:X}"),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('x', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        _ => return None,
    })
}

fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, power)) => {
            let power: i32 = power.parse().unwrap_or_default();
            format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
        }
        None => text,
    }
}

/// A value as `%s` shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Optional(None) => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(instant) => time::timestamp_text(*instant),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::List(list) => format!("[{}]", list.items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", key_text(key), shown(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(Some(inner)) => shown(inner),
        Value::Type(name) => name.to_string(),
        Value::Opaque(opaque) => opaque.text(),
    }
}
