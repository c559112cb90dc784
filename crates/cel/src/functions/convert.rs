//! One kind of value to another.

use jiff::Timestamp;

use super::outcome::Outcome;
use crate::time;
use crate::value::Value;

/// The conversions; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let [value] = values else { return None };
    Some(match function {
        "int" => int(value)?,
        "uint" => uint(value)?,
        "double" => double(value)?,
        "string" => string(value)?,
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => return None,
        },
        "bool" => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) => match text.as_ref() {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
                _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
            },
            _ => return None,
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => {
                Timestamp::from_second(*seconds).map(Value::Timestamp).map_err(|_| "timestamp overflow".to_owned())
            }
            Value::String(text) => time::timestamp(text)
                .map(Value::Timestamp)
                .ok_or_else(|| format!("type conversion error from 'string' to 'google.protobuf.Timestamp': {text}")),
            _ => return None,
        },
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Int(nanos) => Ok(Value::Duration(*nanos)),
            Value::String(text) => time::duration(text)
                .map(Value::Duration)
                .ok_or_else(|| "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned()),
            _ => return None,
        },
        _ => return None,
    })
}

fn int(value: &Value) -> Option<Outcome> {
    let overflow = || "integer overflow".to_owned();
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) if number.abs() < 9.223_372_036_854_775e18 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(instant) => Ok(Value::Int(instant.as_second())),
        Value::String(text) => {
            text.parse().map(Value::Int).map_err(|_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        }
        _ => return None,
    })
}

fn uint(value: &Value) -> Option<Outcome> {
    let overflow = || "unsigned integer overflow".to_owned();
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < 1.844_674_407_370_955e19 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => {
            text.parse().map(Value::Uint).map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
        }
        _ => return None,
    })
}

fn double(value: &Value) -> Option<Outcome> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => {
            text.parse().map(Value::Double).map_err(|_| format!("strconv.ParseFloat: parsing {text:?}: invalid syntax"))
        }
        _ => return None,
    })
}

fn string(value: &Value) -> Option<Outcome> {
    Some(Ok(Value::from(match value {
        Value::String(_) => return Some(Ok(value.clone())),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Timestamp(instant) => time::timestamp_text(*instant),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::Opaque(opaque) => opaque.text(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Some(Err("invalid UTF-8 in bytes, cannot convert to string".to_owned())),
        },
        _ => return None,
    })))
}
