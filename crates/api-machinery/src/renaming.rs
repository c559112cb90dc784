//! Other names for what the objects of a cluster are called after: a copy under another name is a cluster of its own.

mod stencil;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::object::Object;
pub use stencil::{Names, Stencil};

/// Which texts become which others, wherever they stand in objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renaming {
    /// Whole words: no letter and no digit stands before or behind them.
    pub words: Vec<(String, String)>,
    /// What words begin with: no letter and no digit stands before them.
    pub beginnings: Vec<(String, String)>,
}

impl Renaming {
    /// Of these whole words, and of these beginnings of words.
    pub fn new(words: Vec<(String, String)>, beginnings: Vec<(String, String)>) -> Self {
        let useful = |mut pairs: Vec<(String, String)>| {
            pairs.retain(|(from, to)| from != to && !from.is_empty());
            // The longest first, where one is a part of another.
            pairs.sort_by(|one, other| other.0.len().cmp(&one.0.len()).then_with(|| one.cmp(other)));
            pairs.dedup();
            pairs
        };
        Self { words: useful(words), beginnings: useful(beginnings) }
    }

    /// Whether any of the texts is in this one, as a word or not.
    pub fn concerns(&self, text: &str) -> bool {
        self.words.iter().chain(&self.beginnings).any(|(from, _)| text.contains(from.as_str()))
    }

    /// Whether the same names become others, whatever they become.
    pub fn is_of_the_same_names(&self, other: &Self) -> bool {
        let same = |one: &[(String, String)], other: &[(String, String)]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.0 == other.0)
        };
        same(&self.words, &other.words) && same(&self.beginnings, &other.beginnings)
    }

    /// Whether everything keeps its name.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.beginnings.is_empty()
    }

    /// The text with other names; `None` where it has none of these.
    pub fn text(&self, text: &str) -> Option<String> {
        if !self.concerns(text) {
            return None;
        }
        let places = self.places(text);
        (!places.is_empty()).then(|| self.put(text, &places))
    }

    /// Where names stand in a text, and which.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let (mut places, mut at, mut before) = (Vec::new(), 0, None);
        while let Some(next) = text[at..].chars().next() {
            let found = if is_of_word(before) { None } else { self.at_beginning(&text[at..]) };
            let end = at + found.map_or(next.len_utf8(), |number| self.pair(number).0.len());
            places.extend(found.map(|number| (at..end, number)));
            before = text[at..end].chars().next_back();
            at = end;
        }
        places
    }

    /// The text with other names at these places.
    pub fn put(&self, text: &str, places: &[(Range<usize>, usize)]) -> String {
        let (mut renamed, mut done) = (String::with_capacity(text.len() + 8 * places.len()), 0);
        for (place, number) in places {
            renamed.push_str(&text[done..place.start]);
            renamed.push_str(self.pair(*number).1);
            done = place.end;
        }
        renamed.push_str(&text[done..]);
        renamed
    }

    /// A name and what it becomes, by its number: words first.
    pub fn pair(&self, number: usize) -> (&str, &str) {
        let pair = self.words.get(number).or_else(|| self.beginnings.get(number - self.words.len()));
        pair.map_or(("", ""), |(from, to)| (from, to))
    }

    /// The number of the name that a text begins with.
    fn at_beginning(&self, text: &str) -> Option<usize> {
        let is_whole = |from: &str| !is_of_word(text[from.len()..].chars().next());
        let word = self.words.iter().position(|(from, _)| text.starts_with(from.as_str()) && is_whole(from));
        word.or_else(|| {
            let found = self.beginnings.iter().position(|(from, _)| text.starts_with(from.as_str()))?;
            Some(self.words.len() + found)
        })
    }

    /// Whether a tree has any of the names, keys included.
    pub fn touches(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.text(text).is_some(),
            Value::Array(items) => items.iter().any(|item| self.touches(item)),
            Value::Object(fields) => fields.iter().any(|(key, value)| self.text(key).is_some() || self.touches(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Gives every text of a tree its other names, keys included.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(renamed) = self.text(text) {
                    *text = renamed;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.value(value));
                if fields.keys().any(|key| self.text(key).is_some()) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields =
                        renamed.map(|(key, value)| (self.text(&key).unwrap_or(key), value)).collect::<Map<_, _>>();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The object under its other names; the same one where it has none of these.
    pub fn object(&self, object: &Arc<Object>) -> Arc<Object> {
        let text = object.served();
        if !self.concerns(&String::from_utf8_lossy(&text)) {
            return Arc::clone(object);
        }
        let mut value = object.whole();
        if !self.touches(&value) {
            return Arc::clone(object);
        }
        self.value(&mut value);
        Arc::new(Object::new(object.resource, object.resource_version, &value))
    }
}

/// Whether a character is a part of the word beside it.
fn is_of_word(character: Option<char>) -> bool {
    character.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{CONFIG_MAPS, NODES};

    fn renaming() -> Renaming {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect::<Vec<_>>()
        };
        Renaming::new(
            pairs(&[("a-01", "a-02"), ("same", "same")]),
            pairs(&[("aks-main-1-vmss", "aks-main-2-vmss"), ("aks-main-1-vm", "wrong")]),
        )
    }

    #[test]
    fn names_are_words_and_beginnings_of_words() {
        for (text, wanted) in [
            ("a-01", Some("a-02")),
            ("mc_a-01_a-01_x", Some("mc_a-02_a-02_x")),
            ("a-01-worker2 on a-01", Some("a-02-worker2 on a-02")),
            ("line\na-01", Some("line\na-02")),
            ("{\"node\":\"aks-main-1-vmss00000a\"}", Some("{\"node\":\"aks-main-2-vmss00000a\"}")),
            ("a-010, ba-01, éa-01, a-01é", None),
            ("laks-main-1-vmss000000", None),
            ("", None),
        ] {
            assert_eq!(renaming().text(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn an_object_without_the_names_is_the_same_object() {
        let map = json!({ "metadata": { "name": "ba-01", "uid": "u", "resourceVersion": "3" } });
        let map = Arc::new(Object::new(CONFIG_MAPS, 3, &map));
        assert!(Arc::ptr_eq(&renaming().object(&map), &map));
        let node = json!({ "metadata": { "name": "a-01-worker", "labels": { "x": "a-01", "a-01": "y" } } });
        let renamed = renaming().object(&Arc::new(Object::new(NODES, 7, &node)));
        assert_eq!(
            (renamed.name.as_ref(), renamed.label("x"), renamed.resource_version),
            ("a-02-worker", Some("a-02"), 7)
        );
        assert_eq!(renamed.label("a-02"), Some("y"));
    }
}
