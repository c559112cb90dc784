//! Checks.

use std::collections::BTreeMap;

use super::{Reader, syntax, taints};
use crate::code::Code;
use crate::spec::check::{Check, Condition, Count, NodeSet, Subject};
use crate::spec::diagnostic::Diagnostic;
use crate::spec::raw::{self, At, CONDITIONS, ConditionForm, ConditionKey, SubjectKind};
use crate::spec::source::{Located, Location};
use crate::words::{quoted, quoted_choice};

/// Where a condition stands, and what it comes to unless it has a mistake.
type Stated = (Location, Option<Condition>);

impl Reader<'_> {
    pub(super) fn checks(&mut self, raw: &[At<raw::Check>]) -> Vec<Check> {
        let mut checks = Vec::new();
        for written in raw {
            // What is left out on this provider is read all the same, so that its mistakes are seen everywhere.
            let check = self.check(written);
            if self.skipped(written.skip.as_ref()).is_none() {
                checks.extend(check);
            }
        }
        checks
    }

    fn check(&mut self, raw: &At<raw::Check>) -> Option<Check> {
        let at = self.at(raw.span());
        let (kind, subject) = self.subject(raw, &at)?;
        let before = self.diagnostics.errors();
        let conditions = self.conditions(raw, kind);
        if conditions.is_empty() {
            // Where a condition was written and is wrong, that has been said.
            if self.diagnostics.errors() == before {
                self.report(
                    Diagnostic::error(Code::NoCondition, "this check cannot fail")
                        .at(&subject.at, format!("the check has no condition for {}", what(&subject.value)))
                        .help(format!("add a condition: {}", quoted_choice(&kind.conditions()))),
                );
            }
            return None;
        }
        Some(Check {
            name: super::shown(raw.name.as_ref()),
            subject,
            conditions,
            within: self.optional(raw.within.as_ref(), Code::Duration, syntax::duration).map(|d| d.value),
            hold: self.optional(raw.hold.as_ref(), Code::Duration, syntax::duration).map(|d| d.value),
            hint: super::shown(raw.hint.as_ref()),
            at,
        })
    }

    fn subject(&mut self, raw: &raw::Check, at: &Location) -> Option<(SubjectKind, Located<Subject>)> {
        let given: Vec<_> =
            [("workload", &raw.workload), ("pods", &raw.pods), ("nodes", &raw.nodes), ("object", &raw.object)]
                .into_iter()
                .filter_map(|(name, text)| text.as_ref().map(|text| (name, text)))
                .collect();
        let [(name, text)] = given.as_slice() else {
            let mut diagnostic = match given.as_slice() {
                [] => Diagnostic::error(Code::Subject, "this check has no subject").at(at, "what is it about?"),
                [(first, text), (second, other), ..] => {
                    Diagnostic::error(Code::Subject, format!("this check has two subjects, `{first}` and `{second}`"))
                        .at(&self.at(other.span()), "a check has one subject")
                        .and_at(&self.at(text.span()), "the other one")
                }
                [_] => return None,
            };
            diagnostic = diagnostic.help(
                "write one of `workload = \"web\"`, `pods = \"app=web\"`, `nodes = \"pool:extra\"`, `object = \"deployment/web\"`",
            );
            self.report(diagnostic);
            return None;
        };
        if let Some(namespace) = &raw.namespace
            && matches!(*name, "workload" | "nodes")
        {
            let at = self.at(namespace.span());
            let label = if *name == "nodes" { "nodes have none" } else { "the workload says it already" };
            self.report(
                Diagnostic::error(Code::Condition, format!("`namespace` does not go with `{name}`")).at(&at, label),
            );
        }
        let namespace = self.namespace(raw.namespace.as_ref());
        let (kind, subject) = match *name {
            "workload" => (SubjectKind::Pods, Some(self.located(text, Subject::Workload(text.get().clone())))),
            "pods" => {
                let selector = self.text(text, Code::Selector, syntax::selector);
                (
                    SubjectKind::Pods,
                    selector.map(|selector| selector.map(|selector| Subject::Pods { selector, namespace })),
                )
            }
            "nodes" => {
                let nodes = self.text(text, Code::Selector, syntax::node_set);
                (SubjectKind::Nodes, nodes.map(|nodes| nodes.map(Subject::Nodes)))
            }
            _ => {
                let object = self.text(text, Code::Object, |text| syntax::object_or_version(text, &namespace));
                (SubjectKind::Object, object.map(|object| object.map(Subject::Object)))
            }
        };
        Some((kind, subject?))
    }

    fn conditions(&mut self, raw: &raw::Check, kind: SubjectKind) -> Vec<Located<Condition>> {
        let mut found: Vec<(&ConditionKey, Location, Option<Condition>)> = Vec::new();
        for key in CONDITIONS {
            found.extend(self.condition(raw, key).map(|(at, condition)| (key, at, condition)));
        }
        found.sort_by_key(|(_, at, _)| at.span().start);
        let mut conditions = Vec::new();
        for (key, at, condition) in found {
            if !key.subjects.contains(&kind) {
                let message = format!("`{}` says nothing about {}", key.name, kind.name());
                self.report(
                    Diagnostic::error(Code::Condition, message)
                        .at(&at, "does not go with the subject of this check")
                        .help(format!("conditions for {} are {}", kind.name(), quoted(&kind.conditions()))),
                );
            } else if let Some(condition) = condition {
                conditions.push(Located::new(condition, at));
            }
        }
        conditions
    }

    /// Where a key stands and what it comes to, if it is there; mistakes are reported.
    fn condition(&mut self, raw: &raw::Check, key: &ConditionKey) -> Option<Stated> {
        Some(match (&key.form, key.name) {
            (ConditionForm::Nodes(text, condition), _) => {
                let text = text(raw)?;
                (self.at(text.span()), self.node_set(text).map(condition))
            }
            (ConditionForm::Selector(text, condition), _) => {
                let text = text(raw)?;
                let selector = self.text(text, Code::Selector, syntax::selector);
                (self.at(text.span()), selector.map(|selector| condition(selector.value)))
            }
            (ConditionForm::Count(count, condition), _) => {
                let count = count(raw)?;
                (self.at(count.span()), self.count(count).map(condition))
            }
            (ConditionForm::Flag(flag, condition), _) => {
                let flag = flag(raw)?;
                (self.at(flag.span()), Some(condition(*flag.get())))
            }
            (ConditionForm::Own, "node") => {
                let text = raw.node.as_ref()?;
                let name = self.text(text, Code::Name, syntax::dns_subdomain);
                (self.at(text.span()), name.map(|name| Condition::On(NodeSet::Node(name.value))))
            }
            (ConditionForm::Own, "placement") => {
                let table = raw.placement.as_ref()?;
                (self.at(table.span()), self.placement(table))
            }
            (ConditionForm::Own, "pending") => self.pending(raw)?,
            (ConditionForm::Own, "event") => self.event(raw)?,
            (ConditionForm::Own, "spread") => {
                let spread = raw.spread.as_ref()?;
                let over = match &spread.over {
                    Some(text) => self.text(text, Code::Label, syntax::label_key).map(|key| key.value),
                    None => Some("kubernetes.io/hostname".to_owned()),
                };
                let max_skew = spread.max_skew.as_ref().map_or(1, |skew| *skew.get());
                (self.at(spread.span()), over.map(|over| Condition::Spread { over, max_skew }))
            }
            (ConditionForm::Own, "tainted") => {
                let text = raw.tainted.as_ref()?;
                let taint = self.text(text, Code::Taint, taints::taint);
                (self.at(text.span()), taint.map(|taint| Condition::Tainted(taint.value)))
            }
            (ConditionForm::Own, "version") => {
                let text = raw.version.as_ref()?;
                let version = self.text(text, Code::Version, syntax::version);
                (self.at(text.span()), version.map(|version| Condition::Version(version.value)))
            }
            (ConditionForm::Own, _) => {
                let text = raw.cel.as_ref()?;
                let expression = self.text(text, Code::CelSyntax, syntax::expression);
                (self.at(text.span()), expression.map(|it| Condition::Cel(it.value)))
            }
        })
    }

    fn pending(&mut self, raw: &raw::Check) -> Option<Stated> {
        let Some(count) = &raw.pending else {
            if let Some(reason) = &raw.reason {
                let at = self.at(reason.span());
                self.report(
                    Diagnostic::error(Code::Condition, "a `reason` without `pending`")
                        .at(&at, "`reason` needs `pending`")
                        .help("add `pending = 1`: how many pods stay Pending for this reason"),
                );
            }
            return None;
        };
        let reason = self.optional(raw.reason.as_ref(), Code::Condition, syntax::not_empty);
        let reason = reason.map(|reason| reason.value);
        Some((self.at(count.span()), self.count(count).map(|count| Condition::Pending { count, reason })))
    }

    fn event(&mut self, raw: &raw::Check) -> Option<Stated> {
        let Some(event) = &raw.event else {
            let by = raw.by.as_ref().map(|by| ("by", by.span()));
            for (key, span) in by.into_iter().chain(raw.times.as_ref().map(|times| ("times", times.span()))) {
                let at = self.at(span);
                self.report(
                    Diagnostic::error(Code::Condition, format!("a `{key}` without `event`"))
                        .at(&at, format!("`{key}` needs `event`"))
                        .help("add `event = \"Preempted\"`: the reason of the events"),
                );
            }
            return None;
        };
        let at = self.at(event.span());
        if let Some(pods) = &raw.pods {
            let pods = self.at(pods.span());
            self.report(
                Diagnostic::error(Code::Condition, "`event` needs pods by their workload")
                    .at(&pods, "an event outlives its pod, and says nothing of its labels")
                    .help("write `workload = \"…\"` for a workload of this lab, or `object = \"pod/…\"` for one pod"),
            );
        }
        let reason = self.text(event, Code::Condition, syntax::not_empty)?.value;
        let times = raw.times.as_ref().map_or(Some(Count::some()), |times| self.count(times));
        let by = raw.by.as_ref().map(|by| self.located(by, by.get().clone()));
        Some((at, times.map(|times| Condition::Event { reason, by, times })))
    }

    pub(super) fn node_set(&mut self, text: &At<String>) -> Option<NodeSet> {
        self.text(text, Code::Selector, syntax::node_set).map(|nodes| nodes.value)
    }

    fn count(&mut self, raw: &At<raw::CountText>) -> Option<Count> {
        match syntax::count(raw.get()) {
            Ok(count) => Some(count),
            Err(mistake) => {
                self.mistake(Code::Count, raw.span(), mistake);
                None
            }
        }
    }

    fn placement(&mut self, table: &At<raw::Table<At<raw::CountText>>>) -> Option<Condition> {
        let mut placement = BTreeMap::new();
        let mut complete = true;
        for (pool, count) in table.iter() {
            match self.count(count) {
                Some(count) => {
                    placement.insert(pool.get().clone(), count);
                }
                None => complete = false,
            }
        }
        complete.then_some(Condition::Placement(placement))
    }
}

/// Every condition's key with the subjects that it goes with, for the test that each is judged on them.
#[cfg(test)]
pub(crate) fn condition_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let subject = |kind: SubjectKind| match kind {
        SubjectKind::Pods => "workload",
        SubjectKind::Nodes => "nodes",
        SubjectKind::Object => "object",
    };
    CONDITIONS.iter().flat_map(move |key| key.subjects.iter().map(move |kind| (key.name, subject(*kind))))
}

/// A subject in words.
fn what(subject: &Subject) -> String {
    match subject {
        Subject::Workload(name) => format!("the pods of workload `{name}`"),
        Subject::Pods { selector, .. } => format!("the pods `{selector}`"),
        Subject::Nodes(nodes) => format!("the nodes `{nodes}`"),
        Subject::Object(object) => format!("the object `{object}`"),
    }
}
