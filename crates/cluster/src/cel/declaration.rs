//! What variables are declared to be: a type, and how large values of it can get, of which costs are estimated.
//!
//! // upstream: apiserver pkg/cel/types.go DeclType

use std::sync::Arc;

use super::types::{Declaration, Field, ListKind, ObjectType, Shape, Type};

/// Largest request, which bounds what has no bound of its own.
pub const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

impl Declaration {
    /// A type about whose values nothing more is known.
    pub fn simple(shape: Type) -> Self {
        Self { shape: Shape::Simple(shape), max_elements: None, min_size: 1 }
    }

    /// A text of at most so many characters.
    pub fn string(max: u64) -> Self {
        Self { shape: Shape::Simple(Type::String), max_elements: Some(max), min_size: 2 }
    }

    /// A list of at most so many elements.
    pub fn list(element: Self, max: u64) -> Self {
        Self { shape: Shape::List(Arc::new(element), ListKind::Atomic), max_elements: Some(max), min_size: 2 }
    }

    /// A map with string keys and a limit of entries. Estimates ignore the size of the keys.
    pub fn map(value: Self, max: u64) -> Self {
        Self { shape: Shape::Map(Arc::new(value), 0), max_elements: Some(max), min_size: 2 }
    }

    /// An object of that name with fields, whose names are also their keys.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let fields = fields
            .into_iter()
            .map(|(key, declaration)| (key.to_owned(), Field { key: key.to_owned(), declaration }))
            .collect();
        Self {
            shape: Shape::Object(Arc::new(ObjectType { name: name.to_owned(), fields })),
            max_elements: None,
            min_size: 2,
        }
    }

    /// The type alone.
    pub fn to_type(&self) -> Type {
        match &self.shape {
            Shape::Simple(simple) => simple.clone(),
            Shape::List(element, _) => Type::list(element.to_type()),
            Shape::Map(value, _) => Type::map(Type::String, value.to_type()),
            Shape::Object(object) => Type::Object(Arc::clone(object)),
        }
    }

    /// The declaration of a part: a field, or `@items`, `@values` and `@keys` of collections. `named` entries of a map are
    /// known where the map holds values of any type.
    pub(super) fn part(&self, name: &str, named: bool) -> Option<Self> {
        match (&self.shape, name) {
            (Shape::List(element, _), "@items") => Some(element.as_ref().clone()),
            (Shape::Map(value, _), "@values") => Some(value.as_ref().clone()),
            (Shape::Map(_, key), "@keys") => Some(Self::string(*key)),
            (Shape::Map(value, _), _) => {
                let is_any = matches!(value.shape, Shape::Simple(Type::Dyn));
                (named && is_any).then(|| value.as_ref().clone())
            }
            (Shape::Object(object), _) => object.fields.get(name).map(|field| field.declaration.clone()),
            _ => None,
        }
    }
}
