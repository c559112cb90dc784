//! Checks.

use std::collections::BTreeMap;

use super::{Reader, syntax};
use crate::spec::check::{Check, Condition, Count, NodeSet, Subject};
use crate::spec::diagnostic::Diagnostic;
use crate::spec::raw::{self, At};
use crate::spec::source::{Located, Location};
use crate::words::quoted;

/// What a check is about, for the question which conditions go with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pods,
    Nodes,
    Object,
}

impl Kind {
    fn conditions(self) -> &'static [&'static str] {
        match self {
            Self::Pods => &[
                "on",
                "not_on",
                "node",
                "placement",
                "running",
                "pending",
                "succeeded",
                "spread",
                "one_per_node",
                "with",
                "apart_from",
                "exist",
            ],
            Self::Nodes => &["exist", "ready", "schedulable", "tainted"],
            Self::Object => &["exist", "cel"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Object => "an object",
        }
    }
}

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
                    Diagnostic::error("no-condition", "this check cannot fail")
                        .at(&subject.at, format!("nothing is said about {}", what(&subject.value)))
                        .help(format!("add a condition: {}", quoted(kind.conditions()))),
                );
            }
            return None;
        }
        Some(Check {
            name: super::shown(raw.name.as_ref()),
            subject,
            conditions,
            within: raw.within.as_ref().and_then(|text| self.text(text, "duration", syntax::duration)).map(|d| d.value),
            hold: raw.hold.as_ref().and_then(|text| self.text(text, "duration", syntax::duration)).map(|d| d.value),
            hint: super::shown(raw.hint.as_ref()),
            at,
        })
    }

    fn subject(&mut self, raw: &raw::Check, at: &Location) -> Option<(Kind, Located<Subject>)> {
        let given: Vec<_> =
            [("workload", &raw.workload), ("pods", &raw.pods), ("nodes", &raw.nodes), ("object", &raw.object)]
                .into_iter()
                .filter_map(|(name, text)| text.as_ref().map(|text| (name, text)))
                .collect();
        let [(name, text)] = given.as_slice() else {
            let mut diagnostic = match given.as_slice() {
                [] => Diagnostic::error("subject", "this check has no subject").at(at, "what is it about?"),
                [(first, text), (second, other), ..] => {
                    Diagnostic::error("subject", format!("this check has two subjects, `{first}` and `{second}`"))
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
                Diagnostic::error("condition", format!("`namespace` does not go with `{name}`")).at(&at, label),
            );
        }
        let namespace = self.namespace(raw.namespace.as_ref());
        let (kind, subject) = match *name {
            "workload" => (Kind::Pods, Some(self.located(text, Subject::Workload(text.get().clone())))),
            "pods" => {
                let selector = self.text(text, "selector", syntax::selector);
                (Kind::Pods, selector.map(|selector| selector.map(|selector| Subject::Pods { selector, namespace })))
            }
            "nodes" => {
                let nodes = self.text(text, "selector", syntax::node_set);
                (Kind::Nodes, nodes.map(|nodes| nodes.map(Subject::Nodes)))
            }
            _ => {
                let object = self.text(text, "object", |text| syntax::object(text, &namespace));
                (Kind::Object, object.map(|object| object.map(Subject::Object)))
            }
        };
        Some((kind, subject?))
    }

    fn conditions(&mut self, raw: &raw::Check, kind: Kind) -> Vec<Located<Condition>> {
        let mut found: Vec<(&'static str, Location, Option<Condition>)> = Vec::new();
        let mut add = |name, at, condition| found.push((name, at, condition));
        if let Some(text) = &raw.on {
            add("on", self.at(text.span()), self.node_set(text).map(Condition::On));
        }
        if let Some(text) = &raw.not_on {
            add("not_on", self.at(text.span()), self.node_set(text).map(Condition::NotOn));
        }
        if let Some(text) = &raw.node {
            let name = self.text(text, "name", syntax::dns_subdomain);
            add("node", self.at(text.span()), name.map(|name| Condition::On(NodeSet::Node(name.value))));
        }
        if let Some(table) = &raw.placement {
            add("placement", self.at(table.span()), self.placement(table));
        }
        if let Some(count) = &raw.running {
            add("running", self.at(count.span()), self.count(count).map(Condition::Running));
        }
        if let Some(count) = &raw.pending {
            let reason = raw.reason.as_ref().and_then(|text| self.text(text, "condition", syntax::not_empty));
            let reason = reason.map(|reason| reason.value);
            add("pending", self.at(count.span()), self.count(count).map(|count| Condition::Pending { count, reason }));
        } else if let Some(reason) = &raw.reason {
            let at = self.at(reason.span());
            self.report(
                Diagnostic::error("condition", "`reason` goes with `pending`")
                    .at(&at, "the reason of what?")
                    .help("add `pending = 1`: how many pods stay Pending for this reason"),
            );
            add("reason", at, None);
        }
        if let Some(count) = &raw.succeeded {
            add("succeeded", self.at(count.span()), self.count(count).map(Condition::Succeeded));
        }
        if let Some(spread) = &raw.spread {
            let over = match &spread.over {
                Some(text) => self.text(text, "label", syntax::label_key).map(|key| key.value),
                None => Some("kubernetes.io/hostname".to_owned()),
            };
            let max_skew = spread.max_skew.as_ref().map_or(1, |skew| *skew.get());
            add("spread", self.at(spread.span()), over.map(|over| Condition::Spread { over, max_skew }));
        }
        if let Some(text) = &raw.one_per_node {
            add("one_per_node", self.at(text.span()), self.node_set(text).map(Condition::OnePerNode));
        }
        if let Some(text) = &raw.with_pods {
            let selector = self.text(text, "selector", syntax::selector);
            add("with", self.at(text.span()), selector.map(|selector| Condition::With(selector.value)));
        }
        if let Some(text) = &raw.apart_from {
            let selector = self.text(text, "selector", syntax::selector);
            add("apart_from", self.at(text.span()), selector.map(|selector| Condition::ApartFrom(selector.value)));
        }
        if let Some(count) = &raw.exist {
            add("exist", self.at(count.span()), self.count(count).map(Condition::Exist));
        }
        if let Some(flag) = &raw.ready {
            add("ready", self.at(flag.span()), Some(Condition::Ready(*flag.get())));
        }
        if let Some(flag) = &raw.schedulable {
            add("schedulable", self.at(flag.span()), Some(Condition::Schedulable(*flag.get())));
        }
        if let Some(text) = &raw.tainted {
            let taint = self.text(text, "taint", syntax::taint);
            add("tainted", self.at(text.span()), taint.map(|taint| Condition::Tainted(taint.value)));
        }
        if let Some(text) = &raw.cel {
            let expression = self.text(text, "cel", syntax::expression);
            add("cel", self.at(text.span()), expression.map(|it| Condition::Cel(it.value)));
        }
        found.sort_by_key(|(_, at, _)| at.span().start);
        let mut conditions = Vec::new();
        for (name, at, condition) in found {
            if !kind.conditions().contains(&name) && name != "reason" {
                self.report(
                    Diagnostic::error("condition", format!("`{name}` says nothing about {}", kind.name()))
                        .at(&at, "does not go with the subject of this check")
                        .help(format!("conditions for {} are {}", kind.name(), quoted(kind.conditions()))),
                );
            } else if let Some(condition) = condition {
                conditions.push(Located::new(condition, at));
            }
        }
        conditions
    }

    pub(super) fn node_set(&mut self, text: &At<String>) -> Option<NodeSet> {
        self.text(text, "selector", syntax::node_set).map(|nodes| nodes.value)
    }

    fn count(&mut self, raw: &At<raw::CountText>) -> Option<Count> {
        match syntax::count(raw.get()) {
            Ok(count) => Some(count),
            Err(mistake) => {
                self.mistake("count", raw.span(), mistake);
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

/// A subject in words.
fn what(subject: &Subject) -> String {
    match subject {
        Subject::Workload(name) => format!("the pods of workload `{name}`"),
        Subject::Pods { selector, .. } => format!("the pods `{selector}`"),
        Subject::Nodes(nodes) => format!("the nodes `{nodes}`"),
        Subject::Object(object) => format!("the object `{object}`"),
    }
}
