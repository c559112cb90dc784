//! A cluster that changed while it was read: its pods as they were in the end, without those whose owners went meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use klab_lab::words::plural;

use crate::capture::{Capture, Gap};
use crate::captured::Captured;
use crate::kinds::{KINDS, Kind};

/// The node of each pod, by uid.
pub type Places = BTreeMap<Box<str>, Option<Box<str>>>;

/// Leaves out of a capture, whose pods were read last, what belongs to owners that are gone: garbage collection deletes it. What moved
/// since a first look at the pods becomes a gap. Owners of kinds that could not be read count as there.
pub fn settle(capture: &mut Capture, before: &Places) {
    let after = places(capture);
    let went = before.keys().filter(|uid| !after.contains_key(*uid)).count();
    let came = after.keys().filter(|uid| !before.contains_key(*uid)).count();
    let bound = after.iter().filter(|(uid, node)| before.get(*uid).is_some_and(|before| before != *node)).count();
    let read = capture.objects.len();
    // Pods belong to ReplicaSets, which belong to Deployments.
    while leave_out_orphans(capture) {}
    let orphans = read - capture.objects.len();
    let are = if orphans == 1 { "is" } else { "are" };
    let moved: Vec<String> = [
        (went, format!("{} went", plural(went, "pod"))),
        (came, format!("{} came", plural(came, "pod"))),
        (bound, format!("{} got a node", plural(bound, "pod"))),
        (orphans, format!("{} whose owner klab did not find {are} left out", plural(orphans, "object"))),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(_, words)| words)
    .collect();
    if !moved.is_empty() {
        capture.gaps.push(Gap { kind: "pods".to_owned(), namespace: None, moved: Some(moved.join(", ")) });
    }
}

/// Where the pods of a capture are.
pub fn places(capture: &Capture) -> Places {
    capture.of("Pod").filter_map(|pod| Some((pod.uid.clone()?, pod.node.clone()))).collect()
}

/// The kinds of owners that are not in a capture although their kinds are.
pub fn kinds_of_lost_owners(capture: &Capture) -> Vec<&'static Kind> {
    let there = uids(capture);
    let owners: Vec<&Kind> =
        capture.objects.iter().filter_map(|object| lost_owner(&capture.gaps, &there, object)).collect();
    KINDS.iter().filter(|kind| owners.contains(kind)).collect()
}

fn uids(capture: &Capture) -> BTreeSet<Box<str>> {
    capture.objects.iter().filter_map(|object| object.uid.clone()).collect()
}

/// The kind of an object's owner that would be there if it were: the kubelet's own pods belong to nodes, and go with them.
fn lost_owner(gaps: &[Gap], there: &BTreeSet<Box<str>>, object: &Captured) -> Option<&'static Kind> {
    let (kind, uid) = object.owner.as_ref()?;
    let is_read = kind.kind != "Node" && gaps.iter().all(|gap| gap.kind != kind.plural);
    (is_read && !there.contains(uid)).then_some(*kind)
}

/// Leaves out objects whose owner is not there; says whether there were any.
fn leave_out_orphans(capture: &mut Capture) -> bool {
    let (before, there) = (capture.objects.len(), uids(capture));
    let Capture { objects, gaps, .. } = capture;
    objects.retain(|object| lost_owner(gaps, &there, object).is_none());
    objects.len() < before
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn capture(objects: &[(&str, Value)]) -> Capture {
        let mut capture = Capture::default();
        for (plural, object) in objects {
            capture.add(KINDS.iter().find(|kind| kind.plural == *plural).unwrap(), [object]);
        }
        capture
    }

    fn object(name: &str, owner: Option<(&str, &str)>, node: Option<&str>) -> Value {
        let owners = owner.map(|(kind, uid)| {
            json!([{ "apiVersion": "apps/v1", "kind": kind, "name": uid, "uid": uid, "controller": true }])
        });
        json!({
            "metadata": { "name": name, "namespace": "team", "uid": name, "ownerReferences": owners },
            "spec": { "nodeName": node },
        })
    }

    #[test]
    fn pods_are_those_of_the_end_and_what_lost_its_owner_is_left_out() {
        let set = |name: &str, of: &str| ("replicasets", object(name, Some(("Deployment", of)), None));
        let pod = |name: &str, of: &str, node| ("pods", object(name, Some(("ReplicaSet", of)), node));
        let first = capture(&[pod("a", "set", None), pod("b", "set", Some("n")), pod("d", "late", Some("n"))]);
        let mut last = capture(&[
            ("deployments", object("web", None, None)),
            set("set", "web"),
            set("late", "gone"),
            pod("a", "set", Some("n")),
            pod("c", "unread", Some("n")),
            pod("d", "late", Some("n")),
        ]);
        let mut partly = last.clone();
        settle(&mut last, &places(&first));
        let names = |capture: &Capture| -> Vec<String> {
            capture.objects.iter().map(|object| object.name.to_string()).collect()
        };
        assert_eq!(names(&last), ["web", "set", "a"]);
        assert_eq!(
            last.gap_words(),
            [
                "the cluster changed while klab read it: 1 pod went, 1 pod came, 1 pod got a node, 3 objects whose owner klab did not find are left out"
            ]
        );
        partly.gaps =
            ["deployments", "replicasets"].map(|kind| Gap { kind: kind.to_owned(), ..Gap::default() }).to_vec();
        settle(&mut partly, &places(&first));
        assert_eq!(names(&partly), ["web", "set", "late", "a", "c", "d"], "owners that klab may not read are there");
        let mut still =
            capture(&[pod("a", "set", None), set("set", "web"), ("deployments", object("web", None, None))]);
        settle(&mut still, &places(&capture(&[pod("a", "set", None)])));
        assert_eq!(still.gaps, []);
    }
}
