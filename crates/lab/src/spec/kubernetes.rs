//! Kubernetes structures written as TOML, read strictly: what the API server would drop in silence is reported.

use std::cell::RefCell;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::raw::KubernetesType;
use super::source::Source;
use super::tree::{Tree, UnknownField};
use crate::code::Code;
use crate::words::quoted;

/// Everything that keeps a value from being the named Kubernetes structure.
pub(super) fn problems(value: &Spanned<DeValue<'_>>, name: &str, source: &Arc<Source>) -> Vec<Diagnostic> {
    if name == Affinity::NAME {
        read::<Affinity>(value, source)
    } else if name == TopologySpreadConstraint::NAME {
        read::<TopologySpreadConstraint>(value, source)
    } else {
        read::<Toleration>(value, source)
    }
}

fn read<T: for<'de> Deserialize<'de> + KubernetesType>(
    value: &Spanned<DeValue<'_>>,
    source: &Arc<Source>,
) -> Vec<Diagnostic> {
    let unknown = RefCell::new(Vec::new());
    let result = T::deserialize(Tree::new(value).noting(&unknown));
    let mut problems: Vec<_> = unknown
        .into_inner()
        .into_iter()
        .map(|UnknownField { span, name, structure, fields }| {
            let at = source.at(span);
            let message = format!("the Kubernetes structure `{structure}` has no field `{name}`");
            let diagnostic =
                Diagnostic::error(Code::KubernetesField, message).at(&at, "Kubernetes does not know this field");
            match did_you_mean(&name, fields.iter().copied()) {
                Some(similar) => diagnostic.patch("did you mean", &at, similar),
                None => diagnostic.help(format!("its fields are {}", quoted(fields))),
            }
        })
        .collect();
    if let Err(error) = result {
        let span = error.span.unwrap_or_else(|| value.span());
        problems.push(
            Diagnostic::error(Code::KubernetesType, format!("this is not a Kubernetes `{}`", T::NAME))
                .at(&source.at(span), error.message),
        );
    }
    problems
}
