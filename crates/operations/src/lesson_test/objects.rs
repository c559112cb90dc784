//! The objects of a lab's set-up on a cluster of this process without nodes: what its API server refuses, and classes that they name
//! and nothing makes.

use std::collections::BTreeSet;

use klab_api_machinery::resource::STORAGE_CLASSES;
use serde_json::Value;

use crate::apply::{Applier, ObjectKey};
use crate::error::Result;
use crate::event::Events;
use crate::provider::sim::in_process::InProcess;
use crate::provider::{Options, Provider, Work};
use crate::render::Manifest;
use crate::state::Journal;
use klab_lab::code::Code;
use klab_lab::plan;
use klab_lab::spec::{Action, Diagnostic, Diagnostics, Lab, Location, VolumeSource, did_you_mean};

/// Warnings of what `klab up` would meet only with a cluster at hand.
///
/// # Errors
/// When no cluster can be made in this process.
pub fn problems(lab: &Lab, manifests: &[Manifest]) -> Result<Diagnostics> {
    let mut found = unmade_priority_classes(lab, manifests);
    // Priority classes that nothing makes are reported already, at the workload that asks for one.
    let reported = |words: &str| words.contains("no PriorityClass with name");
    let provider = InProcess::new(0)?;
    let empty = Lab { pools: Vec::new(), ..lab.clone().embedded() };
    let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
    let mut work = Work { journal: &mut journal, events: &events };
    provider.perform_all(&empty, &[plan::Action::CreateCluster], &Options::default(), &mut work)?;
    let mut applier = Applier::new(provider.client()?, &lab.name.value);
    for (manifest, words) in provider.block_on(applier.refused(manifests))? {
        // Other clusters may serve kinds that the embedded one does not.
        let is_foreign = words.contains("serves no kind") && !lab.provider.profile().is_embedded;
        if !is_foreign && !reported(&words) {
            let message = format!("the API server refuses {}", ObjectKey::of(&manifest.object));
            found.push(Diagnostic::warning(Code::RefusedObject, message).at(&manifest.origin.lab, words));
        }
    }
    if lab.provider.profile().makes_nodes {
        found.extend(unmade_claims(lab, manifests));
        let classes = provider.cluster()?.inner().list(STORAGE_CLASSES, None).0;
        let classes =
            classes.iter().map(|class| class.to_value()["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        found.extend(unmade_storage_classes(lab, manifests, &classes.collect()));
    }
    Ok(found)
}

/// Whether steps apply manifests, which may make what the set-up lacks.
fn steps_apply(lab: &Lab) -> bool {
    let mut actions = lab.steps.iter().flat_map(|step| &step.actions);
    actions.any(|action| matches!(action.value.tried(), Action::Apply { .. }))
}

/// The storage classes that an object's claims name: its own, or those of its template.
fn storage_classes(object: &Value) -> Vec<&str> {
    let claims = match object["kind"].as_str() {
        Some("PersistentVolumeClaim") => std::slice::from_ref(object),
        Some("StatefulSet") => object["spec"]["volumeClaimTemplates"].as_array().map_or(&[][..], Vec::as_slice),
        _ => &[],
    };
    let named = claims.iter().filter_map(|claim| claim["spec"]["storageClassName"].as_str());
    named.filter(|class| !class.is_empty()).collect()
}

/// Storage classes that claims name and neither the lab nor its cluster has: the claims stay Pending. A volume of the lab may
/// have the name of a class that is not there.
fn unmade_storage_classes(lab: &Lab, manifests: &[Manifest], classes: &BTreeSet<String>) -> Diagnostics {
    let mut found = Diagnostics::default();
    if steps_apply(lab) {
        return found;
    }
    let volumes = manifests.iter().filter(|manifest| manifest.object["kind"] == "PersistentVolume");
    let of_volumes: BTreeSet<&str> =
        volumes.filter_map(|volume| volume.object["spec"]["storageClassName"].as_str()).collect();
    for manifest in manifests {
        for class in storage_classes(&manifest.object) {
            if classes.contains(class) || of_volumes.contains(class) {
                continue;
            }
            let key = ObjectKey::of(&manifest.object);
            let message = format!("{key} asks for the StorageClass `{class}`, which nothing makes");
            let warning = Diagnostic::warning(Code::StorageClass, message)
                .at(&manifest.origin.lab, "its volume will never be provisioned");
            let known = classes.iter().map(String::as_str);
            found.push(match did_you_mean(class, known.clone()) {
                Some(near) => warning.help(format!("did you mean `{near}`?")),
                None => warning.help(format!("the cluster has {}", known.collect::<Vec<_>>().join(", "))),
            });
        }
    }
    found
}

/// Volume claims that workloads mount and nothing of the lab makes: their pods stay Pending.
fn unmade_claims(lab: &Lab, manifests: &[Manifest]) -> Diagnostics {
    let mut found = Diagnostics::default();
    if steps_apply(lab) {
        return found;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_lab =
        manifests.iter().map(|manifest| &manifest.object).filter(|object| object["kind"] == "PersistentVolumeClaim");
    let made: Vec<(String, String)> =
        of_lab.map(|claim| (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]))).collect();
    for workload in &lab.workloads {
        let here = || made.iter().filter(|(place, _)| place.is_empty() || *place == workload.namespace);
        for (_, source) in &workload.mounts {
            let VolumeSource::Claim(claim) = &source.value else { continue };
            if here().any(|(_, name)| name == claim) {
                continue;
            }
            let message =
                format!("workload `{}` mounts the claim `{claim}`, which nothing in the lab makes", workload.name);
            let warning = Diagnostic::warning(Code::UnknownClaim, message).at(&source.at, "its pods will stay Pending");
            found.push(match did_you_mean(claim, here().map(|(_, name)| name.as_str())) {
                Some(near) => suggested(warning, lab, &source.at, &format!("claim/{claim}"), &format!("claim/{near}")),
                None => warning.help("make it with a manifest of kind PersistentVolumeClaim"),
            });
        }
    }
    found
}

/// Priority classes that workloads ask for, in the set-up or in a step, and nothing of the lab makes: a cluster refuses their pods. Of
/// a lab whose steps apply manifests nothing is said, as those may make them.
fn unmade_priority_classes(lab: &Lab, manifests: &[Manifest]) -> Diagnostics {
    if steps_apply(lab) {
        return Diagnostics::default();
    }
    let of_lab = manifests.iter().filter(|manifest| manifest.object["kind"] == "PriorityClass");
    let of_lab = of_lab.filter_map(|manifest| manifest.object["metadata"]["name"].as_str());
    let made: Vec<&str> = of_lab.chain(["system-cluster-critical", "system-node-critical"]).collect();
    let actions = lab.steps.iter().flat_map(|step| &step.actions);
    let written = lab.workloads.iter().filter_map(|workload| {
        let class = workload.priority_class.as_ref()?;
        Some((workload.name.as_str(), class.value.as_str(), &class.at))
    });
    let set = actions.filter_map(|action| match &action.value {
        Action::Set { workload, fields } => Some((workload.as_str(), fields.priority_class.as_deref()?, &action.at)),
        _ => None,
    });
    let mut reported = BTreeSet::new();
    let mut found = Diagnostics::default();
    for (workload, class, at) in written.chain(set) {
        if !class.is_empty() && !made.contains(&class) && reported.insert((workload, class)) {
            let message =
                format!("workload `{workload}` asks for the priority class `{class}`, which nothing in the lab makes");
            let help = "make it with a manifest of kind PriorityClass, or leave `priority_class` out";
            let warning = Diagnostic::warning(Code::PriorityClass, message);
            let warning = warning.at(at, "the cluster will refuse its pods");
            found.push(match did_you_mean(class, made.iter().copied()) {
                Some(near) => suggested(warning, lab, at, class, near),
                None => warning.help(help),
            });
        }
    }
    found
}

/// Adds the name that is meant: as an edit where the word that is wrong stands alone in quotes.
fn suggested(warning: Diagnostic, lab: &Lab, at: &Location, word: &str, near: &str) -> Diagnostic {
    let written = lab.source.text().get(at.span()).unwrap_or_default();
    if written.trim_matches(['"', '\'']) == word {
        return warning.patch("did you mean", at, format!("\"{near}\""));
    }
    warning.help(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use klab_lab::spec::{LoadOptions, parse};
    use serde_json::json;

    /// What is said of a lab with this beside its one pool.
    fn told(rest: &str) -> String {
        let text = format!("lab = \"a\"\n[pool.main]\nmode = \"system\"\nnodes = 1\nsize = \"Standard_B2ms\"\n{rest}");
        let lab = parse("lab.toml", &text, &LoadOptions::default());
        let lab = lab.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let manifests = render::render(&lab).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        problems(&lab, &manifests).unwrap().render(false)
    }

    fn manifest(yaml: &str) -> String {
        format!("[[manifest]]\nyaml = \"\"\"\n{yaml}\"\"\"\n")
    }

    #[test]
    fn what_only_an_api_server_knows_is_warned_of() {
        let budget = |field: &str| {
            manifest(&format!(
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{ name: b }}\nspec: {{ {field}: 1 }}\n"
            ))
        };
        let gpus = |amount: &str| {
            format!(
                "[workload.web]\nrequests = {{ \"nvidia.com/gpu\" = {amount} }}\nlimits = {{ \"nvidia.com/gpu\" = {amount} }}\n\
                 [pool.gpu]\nresources = {{ \"nvidia.com/gpu\" = 2 }}\n"
            )
        };
        let claim = |class: &str| {
            manifest(&format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: c }}\nspec: {{ storageClassName: {class}, \
                 accessModes: [ReadWriteOnce], resources: {{ requests: {{ storage: 1Gi }} }} }}\n"
            ))
        };
        let mounts = |claim: &str| format!("[workload.web]\nmounts = {{ \"/data\" = \"claim/{claim}\" }}\n");
        let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: { name: s }\nspec:\n  selector: { matchLabels: { a: b } }\n  \
                   template: { metadata: { labels: { a: b } }, spec: { containers: [{ name: c, image: c }] } }\n  volumeClaimTemplates: \
                   [{ metadata: { name: d }, spec: { storageClassName: fast, accessModes: [ReadWriteOnce], \
                   resources: { requests: { storage: 1Gi } } } }]\n";
        let class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: fast }\nprovisioner: p\n";
        for (rest, words) in [
            (budget("minAvailable"), ""),
            (budget("minAvailible"), "minAvailible"),
            (gpus("2"), ""),
            (gpus("\"0.5\""), "must be an integer"),
            (claim("managed-csi"), ""),
            (claim("managed-cis"), "did you mean `managed-csi`?"),
            (claim("fast"), "asks for the StorageClass `fast`, which nothing makes"),
            (manifest(set), "asks for the StorageClass `fast`"),
            (manifest(class) + &claim("fast") + &manifest(set), ""),
            (format!("{}{}", claim("managed-csi"), mounts("c")), ""),
            (format!("{}{}", claim("managed-csi"), mounts("cc")), "did you mean"),
            (mounts("c"), "mounts the claim `c`, which nothing in the lab makes"),
        ] {
            let told = told(&rest);
            assert!(if words.is_empty() { told.is_empty() } else { told.contains(words) }, "{rest}\n{told}");
        }
    }

    #[test]
    fn a_priority_class_that_nothing_makes_is_warned_of() {
        let told = |class: &str, made: &str, step: &str| {
            let text = format!(
                "lab = \"a\"\n[pool.main]\nmode = \"system\"\nnodes = 1\nsize = \"Standard_B2ms\"\n\
                 [workload.web]\nimage = \"nginx\"\npriority_class = \"{class}\"\n{step}"
            );
            let lab = parse("lab.toml", &text, &LoadOptions::default());
            let lab = lab.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            let mut manifests = render::render(&lab).unwrap();
            manifests[0].object = json!({ "kind": "PriorityClass", "metadata": { "name": made } });
            unmade_priority_classes(&lab, &manifests).iter().count()
        };
        let sets = "[[step]]\nname = \"s\"\ndo = [{ set = \"web\", priority_class = \"low\" }]\n";
        assert_eq!(told("high", "high", ""), 0);
        assert_eq!(told("high", "other", ""), 1);
        assert_eq!(told("system-node-critical", "other", ""), 0);
        assert_eq!(told("high", "high", sets), 1, "the one that a step asks for");
        assert_eq!(told("high", "other", sets), 2);
    }
}
