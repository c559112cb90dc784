//! Kubernetes' protobuf encoding: request bodies, as kubectl 1.32 and later send them, and answers for those who ask.
//!
//! The fields' numbers are in the same table as their JSON names, so a body becomes the JSON it stands for.

mod encode;
mod wire;

pub use encode::{encode, encode_event, encode_list, encode_partial, encode_partial_list, is_known};

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::schema::{Field, Scalar, Shape, TypeId, schema};
use wire::{Reader, Token};
pub use wire::{bytes, double, varint};

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may nest; Kubernetes' own types stay far below.
const MAX_DEPTH: usize = 60;

/// Reads a body. The kind is the one it names; kinds without a type in the table are refused.
///
/// # Errors
/// A sentence that says what is wrong with the body.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let Some(message) = body.strip_prefix(MAGIC) else {
        return Err(format!("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}"));
    };
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        match (number, token) {
            (1, Token::Bytes(meta)) => {
                let mut meta = Reader::new(meta);
                while let Some((number, token)) = meta.next()? {
                    match number {
                        1 => api_version = text(&token)?,
                        2 => kind = text(&token)?,
                        _ => {}
                    }
                }
            }
            (2, Token::Bytes(bytes)) => raw = bytes,
            (3, Token::Bytes(encoding)) if !encoding.is_empty() => {
                return Err("content encodings are not supported in protobuf bodies".to_owned());
            }
            _ => {}
        }
    }
    // Delete options are sent under the version of the resource they delete.
    let version = if kind == "DeleteOptions" { "v1" } else { &api_version };
    let Some(id) = schema().kind(version, &kind) else {
        return Err(format!("no kind \"{kind}\" is registered for version \"{api_version}\""));
    };
    let mut value = Value::Object(struct_of(raw, id, &[], 0)?);
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    Ok(value)
}

/// Reads a message of that type; of a message embedded in it (`outer`) only the fields that live there.
fn struct_of(message: &[u8], id: TypeId, outer: &[u32], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > MAX_DEPTH {
        return Err("messages nest too deeply".to_owned());
    }
    let fields = &schema().get(id).fields;
    let mut map = Map::new();
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        let embeds = |field: &Field| {
            field.outer.strip_prefix(outer).and_then(<[u32]>::first).is_some_and(|next| *next == number)
        };
        if fields.iter().any(embeds)
            && let Token::Bytes(inner) = token
        {
            map.extend(struct_of(inner, id, &[outer, &[number]].concat(), depth + 1)?);
            continue;
        }
        let field = fields.iter().find(|field| field.number == number && field.outer == outer && number != 0);
        if let Some(field) = field {
            read_field(&mut map, field, &token, depth)?;
        }
    }
    Ok(map)
}

fn read_field(map: &mut Map<String, Value>, field: &Field, token: &Token<'_>, depth: usize) -> Result<(), String> {
    match &field.shape {
        Shape::List(inner) => {
            let slot = map.entry(field.name).or_insert_with(|| json!([]));
            let Some(list) = slot.as_array_mut() else { return Ok(()) };
            match (inner.as_ref(), token) {
                // Numbers may come packed.
                (Shape::Scalar(scalar), Token::Bytes(packed)) if is_number(*scalar) => {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        list.push(scalar_of(*scalar, &Token::Number(reader.varint()?))?);
                    }
                }
                (inner, token) => list.push(value_of(inner, token, depth)?),
            }
        }
        Shape::Map(inner) => {
            let Token::Bytes(entry) = token else { return Err(misplaced(field.name)) };
            let (mut key, mut value) = (String::new(), None);
            let mut reader = Reader::new(entry);
            while let Some((number, token)) = reader.next()? {
                match number {
                    1 => key = text(&token)?,
                    2 => value = Some(map_value(inner, &token, depth)?),
                    _ => {}
                }
            }
            let value = value.unwrap_or_else(|| empty(inner));
            let slot = map.entry(field.name).or_insert_with(|| json!({}));
            if let Some(map) = slot.as_object_mut() {
                map.insert(key, value);
            }
        }
        shape => {
            map.insert(field.name.to_owned(), value_of(shape, token, depth)?);
        }
    }
    Ok(())
}

fn value_of(shape: &Shape, token: &Token<'_>, depth: usize) -> Result<Value, String> {
    match (shape, token) {
        (Shape::Struct(id), Token::Bytes(message)) => Ok(Value::Object(struct_of(message, *id, &[], depth + 1)?)),
        (Shape::Schema(id), Token::Bytes(message)) => schema_of(message, *id, depth + 1),
        (Shape::Scalar(scalar), token) => scalar_of(*scalar, token),
        _ => Err(misplaced("a nested value")),
    }
}

/// A schema or what may stand in its place: a boolean first where that is the other choice, else a list after it.
// upstream: apiextensions-apiserver pkg/apis/apiextensions/v1 JSONSchemaPropsOrBool, …OrArray, …OrStringArray
fn schema_of(message: &[u8], id: TypeId, depth: usize) -> Result<Value, String> {
    let (mut allowed, mut one, mut list) = (None, None, Vec::new());
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        match (number, token) {
            (1, Token::Number(number)) => allowed = Some(number != 0),
            (1, Token::Bytes(inner)) => one = Some(Value::Object(struct_of(inner, id, &[], depth)?)),
            (2, Token::Bytes(inner)) if allowed.is_some() => {
                one = Some(Value::Object(struct_of(inner, id, &[], depth)?));
            }
            (2, Token::Bytes(inner)) => list.push(match struct_of(inner, id, &[], depth) {
                Ok(map) => Value::Object(map),
                Err(_) => json!(String::from_utf8_lossy(inner)),
            }),
            _ => {}
        }
    }
    Ok(match (one, allowed) {
        (Some(one), _) => one,
        (None, Some(allowed)) => json!(allowed),
        (None, None) => Value::Array(list),
    })
}

/// The value of a map entry: a list there is a message with the entries as its first field.
fn map_value(shape: &Shape, token: &Token<'_>, depth: usize) -> Result<Value, String> {
    let Shape::List(inner) = shape else { return value_of(shape, token, depth) };
    let Token::Bytes(message) = token else { return Err(misplaced("a list")) };
    let mut list = Vec::new();
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        if number == 1 {
            list.push(value_of(inner, &token, depth)?);
        }
    }
    Ok(Value::Array(list))
}

fn empty(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => json!(""),
        Shape::Scalar(Scalar::Quantity) => json!("0"),
        Shape::Scalar(Scalar::Bool) => json!(false),
        Shape::Scalar(scalar) if is_number(*scalar) => json!(0),
        Shape::List(_) => json!([]),
        Shape::Scalar(_) | Shape::Schema(_) => Value::Null,
        Shape::Struct(_) | Shape::Map(_) => json!({}),
    }
}

fn is_number(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Bool)
}

fn scalar_of(scalar: Scalar, token: &Token<'_>) -> Result<Value, String> {
    Ok(match (scalar, token) {
        (Scalar::String, token) => json!(text(token)?),
        (Scalar::Bool, Token::Number(number)) => json!(*number != 0),
        (Scalar::Int32, Token::Number(number)) => json!(*number as i32),
        (Scalar::Int64, Token::Number(number)) => json!(*number as i64),
        (Scalar::Uint32, Token::Number(number)) => json!(*number as u32),
        (Scalar::Float64, Token::Fixed64(bits)) => json!(f64::from_bits(*bits)),
        (Scalar::Bytes, Token::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        (Scalar::Quantity, Token::Bytes(message)) => {
            let shown = first_text(message)?;
            json!(if shown.is_empty() { "0".to_owned() } else { shown })
        }
        (Scalar::Any, Token::Bytes(message)) => {
            let mut reader = Reader::new(message);
            let mut value = Value::Null;
            while let Some((number, token)) = reader.next()? {
                if let (1, Token::Bytes(raw)) = (number, token) {
                    value = serde_json::from_slice(raw).map_err(|error| format!("embedded object: {error}"))?;
                }
            }
            value
        }
        (Scalar::IntOrString, Token::Bytes(message)) => int_or_string(message)?,
        (Scalar::Time | Scalar::MicroTime, Token::Bytes(message)) => instant(message, scalar == Scalar::MicroTime)?,
        (Scalar::Duration, Token::Bytes(message)) => {
            let mut nanos = 0_i64;
            let mut reader = Reader::new(message);
            while let Some((number, token)) = reader.next()? {
                if let (1, Token::Number(number)) = (number, token) {
                    nanos = number as i64;
                }
            }
            json!(go_duration(nanos))
        }
        _ => return Err(misplaced("a value")),
    })
}

fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number_value, mut string_value) = (false, 0_i32, String::new());
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        match (number, &token) {
            (1, Token::Number(kind)) => is_text = *kind == 1,
            (2, Token::Number(number)) => number_value = *number as i32,
            (3, token) => string_value = text(token)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(string_value) } else { json!(number_value) })
}

/// A Time: an empty message is no time at all.
fn instant(message: &[u8], micros: bool) -> Result<Value, String> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader::new(message);
    while let Some((number, token)) = reader.next()? {
        match (number, token) {
            (1, Token::Number(value)) => seconds = value as i64,
            (2, Token::Number(value)) => nanos = value as i32,
            _ => {}
        }
    }
    let instant = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    let format = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(instant.strftime(format).to_string()))
}

/// A duration as Go prints it: `10m0s`, `1h30m0s`, `250ms`.
pub fn go_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64, name: &str| {
        let (whole, rest) = (value / unit, value % unit);
        let digits = format!("{rest:0width$}", width = unit.ilog10() as usize);
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() { format!("{sign}{whole}{name}") } else { format!("{sign}{whole}.{digits}{name}") }
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => fraction(nanos, 1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(nanos, 1_000_000, "ms"),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = fraction(nanos % 60_000_000_000, 1_000_000_000, "s");
            let seconds = seconds.trim_start_matches('-');
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

fn first_text(message: &[u8]) -> Result<String, String> {
    let mut reader = Reader::new(message);
    let mut found = String::new();
    while let Some((number, token)) = reader.next()? {
        if number == 1 {
            found = text(&token)?;
        }
    }
    Ok(found)
}

fn text(token: &Token<'_>) -> Result<String, String> {
    let Token::Bytes(bytes) = token else { return Err(misplaced("a string")) };
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".to_owned())
}

fn misplaced(what: &str) -> String {
    format!("proto: wrong wireType for {what}")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bodies_of_kubectl_become_the_json_it_used_to_send() {
        let packed = include_bytes!("../../tests/golden/protobuf-requests.jsonl.gz");
        let mut lines = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut lines).expect("a gzip file");
        let mut compared = 0;
        for line in lines.lines() {
            let vector: Value = serde_json::from_str(line).expect("JSON");
            let body = vector["body_base64"].as_str().expect("a body");
            let body = base64::engine::general_purpose::STANDARD.decode(body).expect("base64");
            let mut decoded = decode(&body).unwrap_or_else(|error| panic!("{}: {error}", vector["argv"]));
            let mut expected = vector["same_object_as_json"].clone();
            if expected["apiVersion"] != decoded["apiVersion"] {
                continue;
            }
            let kind = |value: &Value| {
                schema()
                    .kind(value["apiVersion"].as_str().expect("text"), value["kind"].as_str().expect("text"))
                    .expect("known")
            };
            let id = kind(&expected);
            assert_eq!(schema().tidy(id, &mut decoded).expect("well typed").unknown, Vec::<String>::new());
            schema().tidy(id, &mut expected).expect("well typed");
            assert_eq!(decoded, expected, "{}", vector["argv"]);
            compared += 1;
        }
        assert!(compared >= 70, "{compared} vectors");
    }

    #[test]
    fn durations_print_as_in_go() {
        for (nanos, text) in [
            (600_000_000_000, "10m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (1_500_000_000, "1.5s"),
            (250_000_000, "250ms"),
            (0, "0s"),
            (-1_000_000_000, "-1s"),
        ] {
            assert_eq!(go_duration(nanos), text);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            bytes.splice(..0, *b"k8s\0\n\x09\n\x02v1\x12\x03Pod\x12\x7f");
            let _ = decode(&bytes);
        }
    }
}
