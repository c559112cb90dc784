//! Functions of instants and spans of time.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::outcome::Outcome;
use crate::value::Value;

/// The functions of time; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let overflow = || "timestamp overflow".to_owned();
    let moved = |instant: &Timestamp, nanos: i64| {
        instant.checked_add(SignedDuration::from_nanos(nanos)).map(Value::Timestamp).map_err(|_| overflow())
    };
    Some(match (function, values) {
        ("_+_", [Value::Duration(one), Value::Duration(two)]) => {
            one.checked_add(*two).map(Value::Duration).ok_or_else(|| "integer overflow".to_owned())
        }
        ("_-_", [Value::Duration(one), Value::Duration(two)]) => {
            one.checked_sub(*two).map(Value::Duration).ok_or_else(|| "integer overflow".to_owned())
        }
        (
            "_+_",
            [Value::Timestamp(instant), Value::Duration(nanos)] | [Value::Duration(nanos), Value::Timestamp(instant)],
        ) => moved(instant, *nanos),
        ("_-_", [Value::Timestamp(instant), Value::Duration(nanos)]) => moved(instant, nanos.saturating_neg()),
        ("_-_", [Value::Timestamp(one), Value::Timestamp(two)]) => {
            i64::try_from(one.duration_since(*two).as_nanos()).map(Value::Duration).map_err(|_| overflow())
        }
        ("getHours", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 3_600_000_000_000)),
        ("getMinutes", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 60_000_000_000)),
        ("getSeconds", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 1_000_000_000)),
        ("getMilliseconds", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 1_000_000)),
        (_, [Value::Timestamp(instant)]) => return part(function, *instant, TimeZone::UTC),
        (_, [Value::Timestamp(instant), Value::String(name)]) => match zone(name) {
            Some(zone) => return part(function, *instant, zone),
            None => Err(format!("unknown time zone {name}")),
        },
        _ => return None,
    })
}

/// A zone by its name, or `+01:00`.
fn zone(name: &str) -> Option<TimeZone> {
    let offset = |text: &str| {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)
    };
    let seconds = match name.strip_prefix('-') {
        Some(rest) => offset(rest).map(i32::saturating_neg),
        None => offset(name.strip_prefix('+').unwrap_or(name)),
    };
    match seconds {
        Some(seconds) => jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed),
        None => TimeZone::get(name).ok(),
    }
}

fn part(function: &str, instant: Timestamp, zone: TimeZone) -> Option<Outcome> {
    let local = instant.to_zoned(zone);
    let number = match function {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()).saturating_sub(1),
        "getDayOfYear" => i64::from(local.day_of_year()).saturating_sub(1),
        "getDayOfMonth" => i64::from(local.day()).saturating_sub(1),
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.millisecond()),
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}
