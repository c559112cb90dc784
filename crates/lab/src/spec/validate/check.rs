//! Checks.

use std::collections::BTreeMap;

use super::{Reader, syntax};
use crate::spec::check::{Check, Condition, Count, NodeSet, Subject};
use crate::spec::diagnostic::Diagnostic;
use crate::spec::raw::{self, At};
use crate::spec::source::{Located, Location};
use crate::words::{quoted, quoted_choice};
use klab_scheduler::selector::Selector;

/// What a check is about, for the question which conditions go with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pods,
    Nodes,
    Object,
}

impl Kind {
    fn conditions(self) -> Vec<&'static str> {
        KEYS.iter().filter(|key| key.subjects.contains(&self)).map(|key| key.name).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Object => "an object",
        }
    }
}

/// Where a condition stands, and what it comes to unless it has a mistake.
type Stated = (Location, Option<Condition>);

/// A key of a check that states a condition.
struct Key {
    /// As it is written.
    name: &'static str,
    /// What it says something about.
    subjects: &'static [Kind],
    /// Where it stands and what it comes to, if it is there; mistakes are reported.
    read: fn(&mut Reader<'_>, &raw::Check) -> Option<Stated>,
}

const PODS: &[Kind] = &[Kind::Pods];
const NODES: &[Kind] = &[Kind::Nodes];

/// Every condition, in the order in which messages list them.
const KEYS: &[Key] = &[
    Key { name: "on", subjects: PODS, read: |reader, raw| reader.nodes_of(raw.on.as_ref(), Condition::On) },
    Key { name: "not_on", subjects: PODS, read: |reader, raw| reader.nodes_of(raw.not_on.as_ref(), Condition::NotOn) },
    Key {
        name: "node",
        subjects: PODS,
        read: |reader, raw| {
            let text = raw.node.as_ref()?;
            let name = reader.text(text, "name", syntax::dns_subdomain);
            Some((reader.at(text.span()), name.map(|name| Condition::On(NodeSet::Node(name.value)))))
        },
    },
    Key {
        name: "placement",
        subjects: PODS,
        read: |reader, raw| {
            let table = raw.placement.as_ref()?;
            Some((reader.at(table.span()), reader.placement(table)))
        },
    },
    Key {
        name: "running",
        subjects: PODS,
        read: |reader, raw| reader.count_of(raw.running.as_ref(), Condition::Running),
    },
    Key { name: "pending", subjects: PODS, read: |reader, raw| reader.pending(raw) },
    Key {
        name: "succeeded",
        subjects: PODS,
        read: |reader, raw| reader.count_of(raw.succeeded.as_ref(), Condition::Succeeded),
    },
    Key {
        name: "spread",
        subjects: PODS,
        read: |reader, raw| {
            let spread = raw.spread.as_ref()?;
            let over = match &spread.over {
                Some(text) => reader.text(text, "label", syntax::label_key).map(|key| key.value),
                None => Some("kubernetes.io/hostname".to_owned()),
            };
            let max_skew = spread.max_skew.as_ref().map_or(1, |skew| *skew.get());
            Some((reader.at(spread.span()), over.map(|over| Condition::Spread { over, max_skew })))
        },
    },
    Key {
        name: "one_per_node",
        subjects: PODS,
        read: |reader, raw| reader.nodes_of(raw.one_per_node.as_ref(), Condition::OnePerNode),
    },
    Key {
        name: "with",
        subjects: PODS,
        read: |reader, raw| reader.selector_of(raw.with_pods.as_ref(), Condition::With),
    },
    Key {
        name: "apart_from",
        subjects: PODS,
        read: |reader, raw| reader.selector_of(raw.apart_from.as_ref(), Condition::ApartFrom),
    },
    Key {
        name: "same_pods",
        subjects: PODS,
        read: |reader, raw| {
            reader.flag_of(raw.same_pods.as_ref(), |wanted| Condition::SamePods { wanted, before: None })
        },
    },
    Key {
        name: "exist",
        subjects: &[Kind::Pods, Kind::Nodes, Kind::Object],
        read: |reader, raw| reader.count_of(raw.exist.as_ref(), Condition::Exist),
    },
    Key { name: "ready", subjects: NODES, read: |reader, raw| reader.flag_of(raw.ready.as_ref(), Condition::Ready) },
    Key {
        name: "schedulable",
        subjects: NODES,
        read: |reader, raw| reader.flag_of(raw.schedulable.as_ref(), Condition::Schedulable),
    },
    Key {
        name: "tainted",
        subjects: NODES,
        read: |reader, raw| {
            let text = raw.tainted.as_ref()?;
            let taint = reader.text(text, "taint", syntax::taint);
            Some((reader.at(text.span()), taint.map(|taint| Condition::Tainted(taint.value))))
        },
    },
    Key {
        name: "cel",
        subjects: &[Kind::Object],
        read: |reader, raw| {
            let text = raw.cel.as_ref()?;
            let expression = reader.text(text, "cel", syntax::expression);
            Some((reader.at(text.span()), expression.map(|it| Condition::Cel(it.value))))
        },
    },
];

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
                        .help(format!("add a condition: {}", quoted_choice(&kind.conditions()))),
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
                let object = self.text(text, "object", |text| syntax::object_or_version(text, &namespace));
                (Kind::Object, object.map(|object| object.map(Subject::Object)))
            }
        };
        Some((kind, subject?))
    }

    fn conditions(&mut self, raw: &raw::Check, kind: Kind) -> Vec<Located<Condition>> {
        let mut found: Vec<(&Key, Location, Option<Condition>)> = Vec::new();
        for key in KEYS {
            found.extend((key.read)(self, raw).map(|(at, condition)| (key, at, condition)));
        }
        found.sort_by_key(|(_, at, _)| at.span().start);
        let mut conditions = Vec::new();
        for (key, at, condition) in found {
            if !key.subjects.contains(&kind) {
                let message = format!("`{}` says nothing about {}", key.name, kind.name());
                self.report(
                    Diagnostic::error("condition", message)
                        .at(&at, "does not go with the subject of this check")
                        .help(format!("conditions for {} are {}", kind.name(), quoted(&kind.conditions()))),
                );
            } else if let Some(condition) = condition {
                conditions.push(Located::new(condition, at));
            }
        }
        conditions
    }

    fn nodes_of(&mut self, text: Option<&At<String>>, condition: fn(NodeSet) -> Condition) -> Option<Stated> {
        text.map(|text| (self.at(text.span()), self.node_set(text).map(condition)))
    }

    fn selector_of(&mut self, text: Option<&At<String>>, condition: fn(Selector) -> Condition) -> Option<Stated> {
        let selector = |reader: &mut Self, text| reader.text(text, "selector", syntax::selector);
        text.map(|text| (self.at(text.span()), selector(self, text).map(|selector| condition(selector.value))))
    }

    fn count_of(&mut self, count: Option<&At<raw::CountText>>, condition: fn(Count) -> Condition) -> Option<Stated> {
        count.map(|count| (self.at(count.span()), self.count(count).map(condition)))
    }

    fn flag_of(&mut self, flag: Option<&At<bool>>, condition: fn(bool) -> Condition) -> Option<Stated> {
        flag.map(|flag| (self.at(flag.span()), Some(condition(*flag.get()))))
    }

    fn pending(&mut self, raw: &raw::Check) -> Option<Stated> {
        let Some(count) = &raw.pending else {
            if let Some(reason) = &raw.reason {
                let at = self.at(reason.span());
                self.report(
                    Diagnostic::error("condition", "a `reason` without `pending`")
                        .at(&at, "`reason` needs `pending`")
                        .help("add `pending = 1`: how many pods stay Pending for this reason"),
                );
            }
            return None;
        };
        let reason = raw.reason.as_ref().and_then(|text| self.text(text, "condition", syntax::not_empty));
        let reason = reason.map(|reason| reason.value);
        Some((self.at(count.span()), self.count(count).map(|count| Condition::Pending { count, reason })))
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

/// Every condition's key with the subjects that it goes with, for the test that each is judged on them.
#[cfg(test)]
pub(crate) fn condition_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let subject = |kind: Kind| match kind {
        Kind::Pods => "workload",
        Kind::Nodes => "nodes",
        Kind::Object => "object",
    };
    KEYS.iter().flat_map(move |key| key.subjects.iter().map(move |kind| (key.name, subject(*kind))))
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
