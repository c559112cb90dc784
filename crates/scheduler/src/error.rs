//! What can be wrong with an object that is handed to the scheduler.

use super::quantity::QuantityError;
use super::selector::SelectorError;

/// An object the scheduler cannot read; the API server would have refused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// A resource amount is no quantity.
    #[error("{field}: {value:?} is not a quantity: {source}")]
    Quantity {
        /// Path of the field.
        field: String,
        /// What it holds.
        value: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// A selector is not valid.
    #[error("{field}: {source}")]
    Selector {
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        source: SelectorError,
    },
    /// A field that must be there is missing.
    #[error("{field}: required value")]
    Missing {
        /// Path of the field.
        field: &'static str,
    },
}

impl ObjectError {
    pub(super) fn selector(field: impl Into<String>) -> impl FnOnce(SelectorError) -> Self {
        let field = field.into();
        move |source| Self::Selector { field, source }
    }
}
