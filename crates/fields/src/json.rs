//! JSON patches: lists of operations, as Kubernetes carries them out.

// upstream: gopkg.in/evanphx/json-patch.v4 patch.go; apiserver pkg/endpoints/handlers/patch.go applyJSPatch (v1.36)

use json_patch::{AddOperation, PatchOperation};
use klab_api_machinery::go_text::json_kind;
use klab_api_machinery::status::Status;
use klab_api_machinery::work;
use serde_json::{Value, json};

use super::operations::{Operations, Unfit, put};

/// Most operations of a JSON patch, as upstream.
const MAX_OPERATIONS: usize = 10_000;
/// The fields of an operation that are texts.
const TEXTS: [&str; 3] = ["op", "path", "from"];

/// Carries out a patch. When it does not fit, `value` is left somewhere on the way; undoing what was done would
/// be for callers that go on with it.
///
/// # Errors
/// 400 for what is no list of operations, 413 for one that is too long, 422 for one that does not fit.
pub(crate) fn carry_out(value: &mut Value, operations: &Value) -> Result<(), Status> {
    let nothing = Vec::new();
    let operations = match operations {
        Value::Null => &nothing,
        Value::Array(list) => list,
        other => return Err(undecodable(other, "value of type []handlers.jsonPatchOp")),
    };
    operations.iter().try_for_each(check)?;
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let most = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(Status::new(413, "RequestEntityTooLarge", most));
    }
    let mut bounded = Operations::default();
    for operation in operations {
        let operation = counted(value, operation).ok_or_else(unfitting)?;
        let (operation, moved) = match operation {
            Counted::As(operation) => (read(operation).ok_or_else(unfitting)?, None),
            Counted::Moved(path, moved) => (add(&path).ok_or_else(unfitting)?, Some((path, moved))),
        };
        if finds_nothing(value, &operation) {
            continue;
        }
        let operation = sets_what_is_not_there(value, &operation).unwrap_or(operation);
        bounded.carry_out(value, operation).map_err(|unfit| match unfit {
            Unfit::Stopped => work::stopped(),
            Unfit::Deep => Status { message: format!(" \"\" is invalid: patch: {unfit}"), ..unfitting() },
            Unfit::Object(_) | Unfit::Copies(_) => unfitting(),
        })?;
        if moved.is_some_and(|(path, moved)| !put(value, &path, moved)) {
            return Err(unfitting());
        }
    }
    Ok(())
}

/// An operation that adds nothing yet.
fn add(path: &str) -> Option<PatchOperation> {
    read(json!({ "op": "add", "path": path }))
}

/// The fields of operations that JSON patches do not have, in the words for clients.
pub(crate) fn unknown(operations: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (at, operation) in operations.as_array().into_iter().flatten().enumerate() {
        let fields = operation.as_object().into_iter().flatten().map(|(field, _)| field);
        let others = fields.filter(|field| *field != "value" && !TEXTS.contains(&field.as_str()));
        found.extend(others.map(|field| format!("json patch unknown field \"[{at}].{field}\"")));
    }
    found
}

/// Whether each field of an operation has its type.
fn check(operation: &Value) -> Result<(), Status> {
    if !matches!(operation, Value::Object(_) | Value::Null) {
        return Err(undecodable(operation, "value of type handlers.jsonPatchOp"));
    }
    let wrong = TEXTS.iter().find(|field| !matches!(operation[**field], Value::String(_) | Value::Null));
    wrong.map_or(Ok(()), |field| {
        Err(undecodable(&operation[*field], &format!("struct field jsonPatchOp.{field} of type string")))
    })
}

/// 400, in the words of Go's JSON reader.
fn undecodable(value: &Value, what: &str) -> Status {
    let kind = json_kind(value);
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {kind} into Go {what}"))
}

/// An operation whose places in lists are counted from their beginning; none where one is not there. Kubernetes counts from
/// the end, too: `-1` is the last entry, of an operation that adds one the place behind it.
fn counted(value: &mut Value, operation: &Value) -> Option<Counted> {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let (op, path, from) = (text("op"), text("path"), text("from"));
    let mut counted = operation.clone();
    if !path.contains("/-") && !from.contains("/-") {
        return Some(Counted::As(counted));
    }
    let mut taken_from = String::new();
    if matches!(op, "move" | "copy") && !from.is_empty() {
        taken_from = from_beginning(value, from, false)?;
        counted["from"] = Value::String(taken_from.clone());
    }
    if op != "move" {
        let adds = matches!(op, "add" | "copy");
        counted["path"] = Value::String(from_beginning(value, path, adds)?);
        return Some(Counted::As(counted));
    }
    // What is moved is gone from where it was when its new place is counted.
    let moved = value.pointer_mut(&taken_from)?.take();
    let removal = read(json!({ "op": "remove", "path": taken_from }))?;
    Operations::default().carry_out(value, removal).ok()?;
    Some(Counted::Moved(from_beginning(value, path, true)?, moved))
}

/// An operation without places that are counted from the end.
enum Counted {
    As(Value),
    /// What it has taken out already, to be put in at a path.
    Moved(String, Value),
}

/// A path with the places of lists counted from their beginning; `adds` whether its last one may be behind the last entry.
// upstream: gopkg.in/evanphx/json-patch.v4 patch.go partialArray (SupportNegativeIndices)
fn from_beginning(value: &Value, path: &str, adds: bool) -> Option<String> {
    let mut counted = String::new();
    let mut at = Some(value);
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        counted.push('/');
        let Some(Value::Array(list)) = at else {
            let name = part.replace("~1", "/").replace("~0", "~");
            at = at.and_then(|value| value.get(name));
            counted.push_str(part);
            continue;
        };
        let is_new = adds && parts.peek().is_none();
        let end = i64::try_from(list.len()).ok().filter(|_| is_new && part == "-");
        let Some(index) = end.or_else(|| part.parse::<i64>().ok()) else {
            counted.push_str(part);
            at = None;
            continue;
        };
        let length = list.len() + usize::from(is_new);
        let index = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
        let index = usize::try_from(index).ok()?;
        counted.push_str(&index.to_string());
        at = list.get(index);
    }
    Some(counted)
}

/// An operation, where it is one. A value that is left out is null.
fn read(operation: Value) -> Option<PatchOperation> {
    let Value::Object(mut whole) = operation else { return None };
    whole.entry("value").or_insert(Value::Null);
    let operation: PatchOperation = serde_json::from_value(Value::Object(whole)).ok()?;
    let is_for_all = matches!(operation, PatchOperation::Replace(_) | PatchOperation::Test(_));
    (is_for_all || !operation.path().is_root()).then_some(operation)
}

/// Whether an operation tests a field for null that its object does not have. For Kubernetes that is the same, and
/// kube-rs has its first finalizer depend on it.
fn finds_nothing(value: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    test.value.is_null() && is_missing(value, &test.path)
}

/// What is copied from a field that an object does not have is null, and a field that is not there is replaced by adding
/// it.
fn sets_what_is_not_there(value: &Value, operation: &PatchOperation) -> Option<PatchOperation> {
    let (path, new) = match operation {
        PatchOperation::Copy(copy) if is_missing(value, &copy.from) => (copy.path.clone(), Value::Null),
        PatchOperation::Replace(replace) if is_missing(value, &replace.path) => {
            (replace.path.clone(), replace.value.clone())
        }
        _ => return None,
    };
    Some(PatchOperation::Add(AddOperation { path, value: new }))
}

/// Whether an object is there, but not that field of it.
fn is_missing(value: &Value, path: &json_patch::jsonptr::Pointer) -> bool {
    let Some((object, field)) = path.split_back() else { return false };
    let object = value.pointer(object.as_str()).and_then(Value::as_object);
    object.is_some_and(|object| !object.contains_key(field.decoded().as_ref()))
}

/// 422: a JSON patch whose test fails or whose path does not exist.
fn unfitting() -> Status {
    let mut status = Status::new(422, "Invalid", "the server rejected our request due to an error in our request");
    status.details = json!({});
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(operations: &Value) -> Result<Value, (u16, String)> {
        let mut value = json!({ "a": { "b": 1 }, "list": [1, 2] });
        carry_out(&mut value, operations).map_err(|status| (status.code, status.message))?;
        Ok(value)
    }

    #[test]
    fn operations_do_what_kubernetes_does() {
        let value = |a: Value, list: Value| Ok(json!({ "a": a, "list": list }));
        let unfitting = || Err((422, "the server rejected our request due to an error in our request".to_owned()));
        let bad = |words: &str| Err((400, format!("error decoding patch: json: cannot unmarshal {words}")));
        let op = |op: &str, path: &str| json!([{ "op": op, "path": path, "value": 3 }]);
        for (operations, wanted) in [
            (op("add", "/a/c"), value(json!({ "b": 1, "c": 3 }), json!([1, 2]))),
            (op("replace", "/a/c"), value(json!({ "b": 1, "c": 3 }), json!([1, 2]))),
            (op("replace", "/list/5"), unfitting()),
            (op("add", "/list/-"), value(json!({ "b": 1 }), json!([1, 2, 3]))),
            (op("add", "/list/-1"), value(json!({ "b": 1 }), json!([1, 2, 3]))),
            (op("add", "/list/-3"), value(json!({ "b": 1 }), json!([3, 1, 2]))),
            (op("add", "/list/-4"), unfitting()),
            (op("replace", "/list/-1"), value(json!({ "b": 1 }), json!([1, 3]))),
            (op("replace", "/list/-3"), unfitting()),
            (op("remove", "/list/-2"), value(json!({ "b": 1 }), json!([2]))),
            (op("add", "/a/-1"), value(json!({ "b": 1, "-1": 3 }), json!([1, 2]))),
            (json!([{ "op": "test", "path": "/list/-1", "value": 2 }]), value(json!({ "b": 1 }), json!([1, 2]))),
            (
                json!([{ "op": "move", "from": "/list/-1", "path": "/list/-2" }]),
                value(json!({ "b": 1 }), json!([2, 1])),
            ),
            (
                json!([{ "op": "copy", "from": "/list/-2", "path": "/list/-1" }]),
                value(json!({ "b": 1 }), json!([1, 2, 1])),
            ),
            (json!([{ "op": "move", "from": "/list/-9", "path": "/list/0" }]), unfitting()),
            (json!([{ "op": "add", "path": "/a" }]), value(Value::Null, json!([1, 2]))),
            (json!([{ "op": "test", "path": "/a/x", "value": null }]), value(json!({ "b": 1 }), json!([1, 2]))),
            (op("remove", "/a/x"), unfitting()),
            (op("merge", "/a"), unfitting()),
            (op("", "/a"), unfitting()),
            (op("add", "a"), unfitting()),
            (op("add", ""), unfitting()),
            (json!([{ "op": "add" }]), unfitting()),
            (json!([null]), unfitting()),
            (json!([{ "op": 1 }]), bad("number into Go struct field jsonPatchOp.op of type string")),
            (json!([{ "op": "add", "path": [] }]), bad("array into Go struct field jsonPatchOp.path of type string")),
            (json!(["add"]), bad("string into Go value of type handlers.jsonPatchOp")),
            (json!({ "op": "add" }), bad("object into Go value of type []handlers.jsonPatchOp")),
        ] {
            assert_eq!(patched(&operations), wanted, "{operations}");
        }
        let many = Value::Array(vec![json!({ "op": "test", "path": "/a/b", "value": 1 }); 10_001]);
        assert_eq!(patched(&many).map_err(|(code, _)| code), Err(413));
    }

    #[test]
    fn unknown_fields_of_operations_are_named() {
        let operations = json!([{ "op": "add" }, { "op": "add", "foo": 1 }]);
        assert_eq!(unknown(&operations), ["json patch unknown field \"[1].foo\""]);
    }
}
