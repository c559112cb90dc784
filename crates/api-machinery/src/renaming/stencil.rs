//! Where names stand in the text of an object: found once, so that each copy's object is written and never read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Renaming;
use crate::object::Object;

/// The names that become others, whatever they become.
pub type Names = (Vec<String>, Vec<String>);

/// Where names stand in an object, so that it can be written under others without being read.
#[derive(Debug)]
pub enum Stencil {
    /// Nowhere.
    Nowhere,
    /// At these places of its text; which of the names, by its number.
    At(Vec<(Range<usize>, usize)>),
    /// Where its text does not tell: in a key, after an escaped letter.
    InTree,
}

impl Renaming {
    /// The names that become others.
    pub fn names(&self) -> Names {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(from, _)| from.clone()).collect();
        (names(&self.words), names(&self.beginnings))
    }

    /// Where the names stand in an object. It is good for every renaming of the same names.
    pub fn stencil(&self, object: &Arc<Object>) -> Stencil {
        if self.touches(&object.managed_fields()) {
            return Stencil::InTree;
        }
        let text = String::from_utf8_lossy(&object.json);
        if !self.concerns(&text) {
            return Stencil::Nowhere;
        }
        let value = object.to_value();
        if !self.touches(&value) {
            return Stencil::Nowhere;
        }
        if self.touches_key(&value) {
            return Stencil::InTree;
        }
        // The text is read as if nothing in it were escaped: where that is wrong, it shows.
        let stencil = Stencil::At(self.places(&text));
        let (renamed, wanted) = (self.object_by(object, &stencil), self.object(object));
        let is_same = renamed.json == wanted.json && renamed.name == wanted.name && renamed.labels == wanted.labels;
        if is_same && renamed.owners == wanted.owners { stencil } else { Stencil::InTree }
    }

    /// [`Renaming::object`], by where the names stand in it.
    pub fn object_by(&self, object: &Arc<Object>, stencil: &Stencil) -> Arc<Object> {
        let (places, text) = match stencil {
            Stencil::Nowhere => return Arc::clone(object),
            Stencil::At(places) if self.is_plain() => (places, std::str::from_utf8(&object.json)),
            _ => return self.object(object),
        };
        let Ok(text) = text else { return self.object(object) };
        Arc::new(object.with_text(Bytes::from(self.put(text, places)), |text| self.text(text)))
    }

    /// Whether what names become stands in JSON as it is.
    fn is_plain(&self) -> bool {
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        self.words.iter().chain(&self.beginnings).all(|(_, to)| plain(to))
    }

    fn touches_key(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.touches_key(item)),
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| self.text(key).is_some() || self.touches_key(value))
            }
            _ => false,
        }
    }
}
