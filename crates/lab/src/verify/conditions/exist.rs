//! The condition `exist`: this many pods or nodes exist, or the object does.

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::rule::{Rollout, Rule, Subject};
use super::standing::{judge, number};
use crate::code::Code;
use crate::spec::{Count, ObjectRef};
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::View;

pub(super) struct Exist(pub(super) Count);

impl Rule for Exist {
    fn code(&self) -> Code {
        Code::Exist
    }

    fn title(&self) -> String {
        format!("{} exist", self.0)
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        Some(match subject {
            Subject::Pods(group) => pods(group, self.0),
            Subject::Nodes(found) => nodes(found, self.0),
            Subject::Object(reference, found) => object(reference, self.0, *found),
        })
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

fn pods(group: &Group<'_, '_>, count: Count) -> Fact {
    let all = group.counted.len() + group.old.len() + group.terminating.len();
    // While a rollout goes on, pods of the earlier template go one after the other.
    let goes_on =
        group.hindered.is_none() && group.counted.iter().all(|pod| pod.state.is_ready() || pod.state.is_moving());
    let old = if goes_on { group.old.len() } else { 0 };
    let going = group.terminating.len() + group.surplus as usize + old;
    let standing = judge(count, number(all), group.to_come(), number(going), "pods");
    let wish = if standing == Standing::Holds { String::new() } else { format!(", wanted {count}") };
    let going =
        if group.terminating.is_empty() { String::new() } else { format!("; {} terminating", group.terminating.len()) };
    let noun = if all == 1 { "pod" } else { "pods" };
    Fact::new(standing, format!("{all} {noun}{wish}{going}"))
}

fn nodes(nodes: &[(&str, &Node)], count: Count) -> Fact {
    let now = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let noun = if now == 1 { "node" } else { "nodes" };
    if count.contains(now) {
        return Fact::new(Standing::Holds, format!("{now} {noun}"));
    }
    let going = nodes.iter().filter(|(_, node)| node.metadata.deletion_timestamp.is_some()).count();
    let text = format!("{now} {noun}, wanted {count}");
    let standing =
        if now > count.min && going > 0 { Standing::moving("nodes are going") } else { Standing::blocked(&*text) };
    Fact::new(standing, text)
}

fn object(reference: &ObjectRef, count: Count, object: Option<&Value>) -> Fact {
    let number = u32::from(object.is_some());
    let there = if object.is_some() { "exists" } else { "does not exist" };
    let going = object.is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null());
    let now = format!("{reference} {there}");
    if count.contains(number) {
        Fact::new(Standing::Holds, now)
    } else if going {
        Fact::new(Standing::moving(format!("{reference} is being deleted")), format!("{now}, but is being deleted"))
    } else {
        Fact::new(Standing::Blocked(now.clone()), now)
    }
}
