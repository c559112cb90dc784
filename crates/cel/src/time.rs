//! Instants and spans of time as Go reads and writes them.

use jiff::Timestamp;

const UNITS: &[(&str, i64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// An instant in RFC 3339, or a date.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    if text.len() == 10 {
        return format!("{text}T00:00:00Z").parse().ok();
    }
    text.contains('T').then(|| text.parse().ok()).flatten()
}

/// An instant as text.
pub(crate) fn timestamp_text(instant: Timestamp) -> String {
    instant.to_string()
}

/// A span such as `1h30m`, `1.5s`, `-2ms`, in nanoseconds.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_f64;
    let mut whole = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, tail) = rest.split_at_checked(end)?;
        let unit_end =
            tail.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(tail.len());
        let (unit, after) = tail.split_at_checked(unit_end)?;
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        match number.parse::<i64>() {
            Ok(number) => whole = whole.checked_add(number.checked_mul(*nanos)?)?,
            Err(_) => total += number.parse::<f64>().ok()? * *nanos as f64,
        }
        rest = after;
    }
    let nanos = whole.checked_add(total.round() as i64)?;
    Some(if negative { nanos.checked_neg()? } else { nanos })
}

/// A span as text: `1h30m0s` is written in seconds, `5400s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let (whole, fraction) = (nanos / 1_000_000_000, (nanos % 1_000_000_000).abs());
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    if fraction == 0 {
        return format!("{whole}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}
