//! `matchConditions`: further conditions under which a webhook or a policy is asked.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go Match (v1.36)

use klab_api_machinery::policy_expression::{Names, Wanted, compile};
use klab_api_machinery::views::{MatchCondition, Views};
use klab_cel::{Program, Value};

use super::scene::Scene;

/// A condition.
#[derive(Debug)]
pub(crate) struct Condition {
    source: String,
    program: Result<Program, String>,
}

/// What conditions come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Fails,
    /// Why it is not known.
    Error(String),
}

impl Condition {
    /// The conditions of a webhook or a policy.
    pub(crate) fn all_of(list: Views<'_, MatchCondition<'_>>, params: bool) -> Vec<Self> {
        let names = Names { params, authorizer: true, ..Names::default() };
        let sources = list.map(|entry| entry.expression().trim());
        sources
            .map(|source| Self { program: compile(source, &names, Wanted::Bool), source: source.to_owned() })
            .collect()
    }
}

/// What all conditions together come to: one that does not hold decides, whatever the others' errors.
pub(crate) fn judge(conditions: &[Condition], scene: &Scene<'_>, ignores_failure: bool) -> Verdict {
    let mut errors = Vec::new();
    for condition in conditions {
        let value = match &condition.program {
            Ok(program) => scene.evaluate(program).map_err(|failure| failed(&condition.source, &failure)),
            Err(because) => Err(because.clone()),
        };
        match value {
            Ok(Value::Bool(false)) => return Verdict::Fails,
            Ok(_) => {}
            Err(because) => errors.push(because),
        }
    }
    match errors.as_slice() {
        [] => Verdict::Holds,
        _ if ignores_failure => Verdict::Fails,
        [one] => Verdict::Error(one.clone()),
        several => Verdict::Error(format!("[{}]", several.join(", "))),
    }
}

/// What is said of an expression without a value.
pub(crate) fn failed(source: &str, failure: &klab_cel::Failure) -> String {
    match failure {
        klab_cel::Failure::OutOfBudget => {
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        }
        klab_cel::Failure::Error(_) => format!("expression '{source}' resulted in error: {failure}"),
    }
}
