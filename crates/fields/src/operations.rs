//! Operations of JSON patches, within bounds on what they copy, how deep they nest, and how long they take.

use json_patch::{PatchError, PatchOperation};
use klab_api_machinery::work;
use serde_json::Value;

/// Most bytes that the copies of a JSON patch may add: each can double the object.
// upstream: apiserver pkg/server/config.go, jsonpatch.AccumulatedCopySizeLimit (v1.36)
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Levels that an object may have between two operations. A body has half of them, and what is stored has fewer.
const LEVELS: usize = 256;
/// Entries of a list that move in the time of a step, and values that are looked at.
const ENTRIES: usize = 256;

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It does not fit the object.
    #[error("{0}")]
    Object(PatchError),
    /// It copies too much.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {MAX_COPIED}"
    )]
    Copies(usize),
    /// What comes of it has too many levels.
    #[error("json: exceeded max depth")]
    Deep,
    /// The work has to stop.
    #[error("the request took too long")]
    Stopped,
}

/// Carries out operations of one patch.
#[derive(Debug, Default)]
pub struct Operations {
    done: usize,
    copied: usize,
}

impl Operations {
    /// Carries out a whole patch; one that does not fit leaves the value somewhere on the way.
    ///
    /// # Errors
    /// The first operation that was not carried out.
    pub fn all(value: &mut Value, patch: json_patch::Patch) -> Result<(), Unfit> {
        let mut operations = Self::default();
        patch.0.into_iter().try_for_each(|operation| operations.carry_out(value, operation))
    }

    /// Carries out one.
    ///
    /// # Errors
    /// When it does not fit, or leaves its bounds.
    pub fn carry_out(&mut self, value: &mut Value, operation: PatchOperation) -> Result<(), Unfit> {
        let (path, from) = (operation.path().as_str(), from(&operation));
        let moved = from.map_or(0, |from| behind(value, from)).saturating_add(behind(value, path));
        if !work::steps(1 + (moved / ENTRIES) as u64) {
            return Err(Unfit::Stopped);
        }
        let put = match &operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            PatchOperation::Copy(copy) => value.pointer(copy.from.as_str()),
            // What does not move down makes nothing deeper.
            PatchOperation::Move(one) if levels(one.path.as_str()) > levels(one.from.as_str()) => {
                value.pointer(one.from.as_str())
            }
            _ => None,
        };
        if let Some(put) = put {
            let left = LEVELS.checked_sub(levels(path)).ok_or(Unfit::Deep)?;
            if is_deeper(put, left) {
                return Err(Unfit::Deep);
            }
            if matches!(operation, PatchOperation::Copy(_)) {
                self.copied += put.to_string().len();
                if self.copied > MAX_COPIED {
                    return Err(Unfit::Copies(self.copied));
                }
            }
        }
        let done = json_patch::patch_unsafe(value, &[operation]);
        self.done += 1;
        done.map_err(|mut error| {
            error.operation = self.done - 1;
            Unfit::Object(error)
        })
    }
}

/// Puts something in the place of what is at a path, without a copy of it. Says whether it may be there.
pub(crate) fn put(value: &mut Value, path: &str, what: Value) -> bool {
    let has_room = LEVELS.checked_sub(levels(path)).is_some_and(|left| !is_deeper(&what, left));
    let Some(place) = value.pointer_mut(path).filter(|_| has_room) else { return false };
    *place = what;
    true
}

/// Where an operation takes from what it puts elsewhere.
fn from(operation: &PatchOperation) -> Option<&str> {
    match operation {
        PatchOperation::Move(one) => Some(one.from.as_str()),
        PatchOperation::Copy(one) => Some(one.from.as_str()),
        _ => None,
    }
}

fn levels(path: &str) -> usize {
    path.matches('/').count()
}

/// How many entries of a list stand behind a place in it.
fn behind(value: &Value, path: &str) -> usize {
    let behind = path.rsplit_once('/').and_then(|(list, at)| {
        let length = value.pointer(list)?.as_array()?.len();
        Some(length.saturating_sub(at.parse().unwrap_or(length)))
    });
    behind.unwrap_or(0)
}

/// Whether a value has more levels than that.
pub fn is_deeper(value: &Value, levels: usize) -> bool {
    let inner = |length: usize| {
        work::steps((length / ENTRIES) as u64);
        levels.checked_sub(1)
    };
    match value {
        Value::Array(list) => match inner(list.len()) {
            Some(levels) => list.iter().any(|value| is_deeper(value, levels)),
            None => true,
        },
        Value::Object(object) => match inner(object.len()) {
            Some(levels) => object.values().any(|value| is_deeper(value, levels)),
            None => true,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The outcome of an operation, again and again.
    fn again(times: usize, operations: &Value) -> Result<(), Unfit> {
        let mut value = json!({ "a": ["xxxxxxxx"], "b": {} });
        let one: json_patch::Patch = serde_json::from_value(operations.clone()).unwrap();
        let all = (0..times).flat_map(|_| one.0.clone()).collect();
        Operations::all(&mut value, json_patch::Patch(all))
    }

    #[test]
    fn copies_are_bounded_together() {
        let doubles = json!([{ "op": "copy", "from": "/a", "path": "/a/-" }]);
        assert!(again(10, &doubles).is_ok());
        assert!(matches!(again(60, &doubles), Err(Unfit::Copies(_))));
    }

    #[test]
    fn nothing_is_nested_without_end() {
        let moves = json!([
            { "op": "add", "path": "/c", "value": {} },
            { "op": "move", "from": "/b", "path": "/c/b" },
            { "op": "move", "from": "/c", "path": "/b" },
        ]);
        let copies = json!([{ "op": "copy", "from": "/b", "path": "/b/b" }]);
        let adds = json!([{ "op": "replace", "path": "/b", "value": { "b": {} } }, { "op": "move", "from": "/b", "path": "/a/0" }]);
        for deeper in [moves, copies] {
            assert!(again(50, &deeper).is_ok());
            assert!(matches!(again(3_300, &deeper), Err(Unfit::Deep)));
        }
        assert!(again(1, &adds).is_ok());
    }
}
