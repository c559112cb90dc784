//! `metadata.managedFields` as objects keep it: as text, of which objects that are alike share all but the times and
//! addresses in it. With the text of each it would take as much memory as all else there is to say of a pod.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Where a value stands in a shape; JSON has no such character.
const PLACE: char = '\u{1}';
/// What is between values; JSON text without blanks has no such character, either.
const BETWEEN: char = '\n';
/// What differs in objects that are alike: what stands before it, and what behind.
const VALUES: [(&str, &str); 3] = [("\"time\":\"", "\""), ("{\\\"ip\\\":\\\"", "\\\""), ("{\\\"uid\\\":\\\"", "\\\"")];
/// Longer shapes belong to one object each: they are what somebody made up.
const MAX_SHARED_LENGTH: usize = 8 << 10;

/// The shapes that objects have.
static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Shapes {
    known: HashSet<Arc<str>>,
    /// How many there may be before those that no object has any more are given up.
    most: usize,
}

/// The list of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedFields {
    shape: Arc<str>,
    /// What stands at its places.
    values: Box<str>,
    /// Bytes of the whole text.
    length: usize,
}

impl ManagedFields {
    /// Keeps a list, given as JSON text without blanks.
    pub fn of(text: &str) -> Self {
        let length = text.len();
        if text.contains([PLACE, BETWEEN]) {
            // Not written by this program: it stays as it is, for want of places.
            let text = text.replace(PLACE, " ");
            return Self { shape: text.into(), values: Box::default(), length };
        }
        let mut found: Vec<(usize, usize)> = VALUES
            .iter()
            .flat_map(|(before, behind)| {
                text.match_indices(before).filter_map(move |(at, before)| {
                    let from = at + before.len();
                    Some((from, from + text[from..].find(behind)?))
                })
            })
            .collect();
        found.sort_unstable();
        let (mut shape, mut values, mut done) = (String::with_capacity(length), String::new(), 0);
        for (from, to) in found {
            if from < done {
                continue;
            }
            if done > 0 {
                values.push(BETWEEN);
            }
            shape.push_str(&text[done..from]);
            shape.push(PLACE);
            values.push_str(&text[from..to]);
            done = to;
        }
        shape.push_str(&text[done..]);
        Self { shape: shared(&shape), values: values.into(), length }
    }

    /// Bytes of the text.
    pub fn size(&self) -> usize {
        self.length
    }

    /// Gives the text, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        let mut values = self.values.split(BETWEEN);
        self.shape
            .split(PLACE)
            .enumerate()
            .flat_map(move |(at, piece)| [if at == 0 { "" } else { values.next().unwrap_or_default() }, piece])
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.length);
        self.pieces().for_each(|piece| text.push_str(piece));
        text
    }
}

/// The one of all shapes alike.
fn shared(shape: &str) -> Arc<str> {
    if shape.len() > MAX_SHARED_LENGTH {
        return shape.into();
    }
    let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = shapes.known.get(shape) {
        return Arc::clone(known);
    }
    if shapes.known.len() >= shapes.most {
        shapes.known.retain(|shape| Arc::strong_count(shape) > 1);
        shapes.most = shapes.known.len() * 2 + 256;
    }
    let new: Arc<str> = shape.into();
    shapes.known.insert(Arc::clone(&new));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(time: &str, address: &str) -> String {
        format!(
            concat!(
                r#"[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{}","fieldsType":"FieldsV1","#,
                r#""fieldsV1":{{"f:status":{{"f:podIPs":{{"k:{{\"ip\":\"{}\"}}":{{".":{{}},"f:ip":{{}}}}}}}}}},"subresource":"status"}}]"#
            ),
            time, address
        )
    }

    #[test]
    fn lists_that_differ_in_times_and_addresses_are_kept_once() {
        let texts = [list("2026-01-01T00:00:00Z", "10.1.2.3"), list("2026-01-01T00:00:09Z", "fd00::1")];
        let kept: Vec<ManagedFields> = texts.iter().map(|text| ManagedFields::of(text)).collect();
        assert!(Arc::ptr_eq(&kept[0].shape, &kept[1].shape), "{kept:?}");
        for (kept, text) in kept.iter().zip(&texts) {
            assert_eq!((&kept.text(), kept.size()), (text, text.len()));
        }
        assert_ne!(kept[0], kept[1]);
    }

    #[test]
    fn every_text_comes_back() {
        let odd = [
            "[]",
            "",
            r#"[{"time":"x"#,
            r#"[{"time":"","time":"a"}]"#,
            r#"{"f:a":{"k:{\"uid\":\"{\\\"ip\\\":\\\"\"}":{}}}"#,
            "[\n]",
        ];
        for text in odd {
            assert_eq!(ManagedFields::of(text).text(), text);
        }
        let long = format!("[{}]", "1,".repeat(MAX_SHARED_LENGTH));
        assert_eq!(ManagedFields::of(&long).text(), long);
    }

    #[test]
    fn shapes_that_nobody_has_are_given_up() {
        for at in 0..2_000 {
            drop(ManagedFields::of(&format!("[\"shape {at}\"]")));
        }
        let shapes = SHAPES.lock().unwrap();
        let left = (0..2_000).filter(|at| shapes.known.contains(format!("[\"shape {at}\"]").as_str())).count();
        assert!(left < 2_000, "{left}");
    }
}
