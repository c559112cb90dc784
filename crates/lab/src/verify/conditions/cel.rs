//! The condition `cel`: a CEL expression on the object is true.

use serde_json::Value;

use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::expression;
use crate::verify::observation::Fact;
use crate::verify::verdict::Standing;
use crate::verify::view::View;

pub(super) struct Cel<'c>(pub(super) &'c str);

impl Rule for Cel<'_> {
    fn code(&self) -> Code {
        Code::Cel
    }

    fn title(&self) -> String {
        one_line(self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        match subject {
            Subject::Object(_, Some(object)) => Some(settled(decided(self.0, object, view), object)),
            Subject::Object(reference, None) => {
                let namespace = &reference.namespace;
                let place = if namespace == "default" { String::new() } else { format!(" in namespace {namespace}") };
                let text = format!("there is no {reference}{place}");
                Some(Fact::new(Standing::Blocked(text.clone()), text).coded(Code::NoObject))
            }
            Subject::Pods(_) | Subject::Nodes(_) => None,
        }
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

fn decided(expression: &str, object: &Value, view: &View<'_>) -> Fact {
    let seen = expression::evaluate(expression, object, &mut view.expressions.borrow_mut());
    let now = one_line(&seen.now);
    Fact::new(if seen.holds { Standing::Holds } else { Standing::Blocked(now.clone()) }, now)
}

/// As a report shows it; authors write long expressions in several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A condition on an object whose controller is still at work is not decided: its status is about to change.
fn settled(mut fact: Fact, object: &Value) -> Fact {
    let generation = object["metadata"]["generation"].as_i64();
    let observed = object["status"]["observedGeneration"].as_i64();
    let behind = generation.zip(observed).is_some_and(|(generation, observed)| observed < generation);
    let short = ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"].iter().any(|field| {
        let wanted = object["spec"]["replicas"].as_i64();
        wanted.is_some_and(|wanted| object["status"][field].as_i64().unwrap_or(0) != wanted)
    });
    if behind {
        fact.standing = Standing::moving("the latest change has not been seen by its controller");
    } else if short && fact.standing != Standing::Holds {
        fact.standing = Standing::moving("its controller is still at work");
    }
    fact
}
