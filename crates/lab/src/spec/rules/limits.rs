//! How large a lab may be: what a lesson needs is far below, and what is far above would take hours to judge or make.

use super::super::diagnostic::Diagnostic;
use super::super::lab::Lab;
use super::super::source::Location;
use super::super::step::Action;
use crate::code::Code;

/// Most of each; AKS takes 100 pools.
const POOLS: usize = 100;
const NODES: u64 = 10_000;
const WORKLOADS: usize = 1_000;
const PODS: u64 = 30_000;
const CHECKS: usize = 1_000;
const STEPS: usize = 200;
const ACTIONS: usize = 1_000;
const OBJECTS: usize = 1_000;

/// Everything of which there is too much, each at the place where it becomes too much.
pub(super) fn exceeded(lab: &Lab) -> Vec<Diagnostic> {
    let actions = || lab.steps.iter().flat_map(|step| &step.actions);
    let of_steps = lab.steps.iter().flat_map(|step| step.before.iter().chain(&step.checks));
    let mut found = vec![
        listed("pools", lab.pools.iter().map(|pool| &pool.name.at), POOLS),
        listed("workloads", lab.workloads.iter().map(|workload| &workload.name.at), WORKLOADS),
        listed("checks", lab.checks.iter().chain(of_steps).map(|check| &check.at), CHECKS),
        listed("steps", lab.steps.iter().map(|step| &step.at), STEPS),
        listed("actions of steps", actions().map(|action| &action.at), ACTIONS),
        listed("ConfigMaps and Secrets", lab.bundles.iter().map(|bundle| &bundle.at), OBJECTS),
        listed("manifests", lab.manifests.iter().map(|manifest| &manifest.at), OBJECTS),
        listed("namespaces", lab.namespaces.iter().map(|namespace| &namespace.at), OBJECTS),
    ];
    let nodes = lab.pools.iter().map(|pool| {
        let most = pool.autoscale.as_ref().map_or(0, |bounds| bounds.max).max(*pool.nodes);
        (&pool.nodes.at, u64::from(most))
    });
    found.push(summed("nodes", nodes, NODES));
    let replicas = lab.workloads.iter().filter_map(|workload| workload.replicas.as_ref());
    found.push(summed("pods", replicas.map(|replicas| (&replicas.at, u64::from(replicas.value))), PODS));
    found.extend(actions().map(|action| match &action.value {
        Action::Scale { replicas, .. } => summed("pods", [(&action.at, u64::from(*replicas))].into_iter(), PODS),
        Action::ScalePool { nodes, autoscale, .. } => {
            let most = autoscale.as_ref().map_or(0, |bounds| bounds.max).max(nodes.unwrap_or_default());
            summed("nodes", [(&action.at, u64::from(most))].into_iter(), NODES)
        }
        _ => None,
    }));
    found.into_iter().flatten().collect()
}

fn listed<'a>(what: &str, places: impl Iterator<Item = &'a Location>, most: usize) -> Option<Diagnostic> {
    let places: Vec<_> = places.collect();
    let first = *places.get(most)?;
    Some(too_many(what, places.len() as u64, most as u64, first))
}

fn summed<'a>(what: &str, parts: impl Iterator<Item = (&'a Location, u64)>, most: u64) -> Option<Diagnostic> {
    let mut sum = 0;
    let mut over = None;
    for (at, count) in parts {
        sum += count;
        if sum > most {
            over.get_or_insert(at);
        }
    }
    over.map(|at| too_many(what, sum, most, at))
}

fn too_many(what: &str, count: u64, most: u64, at: &Location) -> Diagnostic {
    Diagnostic::error(Code::TooMany, format!("the lab has {count} {what}"))
        .at(at, format!("a lab may have {most}; here it has more"))
}

#[cfg(test)]
mod tests {
    use crate::spec::{LoadOptions, parse};

    #[test]
    fn labs_that_are_too_large_are_refused_with_the_limit() {
        let many =
            |count: usize, line: &str| -> String { (0..count).map(|n| line.replace("{n}", &n.to_string())).collect() };
        for (text, says) in [
            (many(100, "[pool.p{n}]\nnodes = 0\n"), "101 pools: a lab may have 100"),
            (many(10, "[pool.p{n}]\nnodes = 1000\n"), "10001 nodes: a lab may have 10000"),
            (many(1001, "[workload.w{n}]\n"), "1001 workloads: a lab may have 1000"),
            (many(4, "[workload.w{n}]\nreplicas = 10000\n"), "40000 pods: a lab may have 30000"),
            (many(1001, "[[check]]\nnodes = \"pool:system\"\nexist = 1\n"), "1001 checks: a lab may have 1000"),
            (many(201, "[[step]]\nname = \"s{n}\"\n"), "201 steps: a lab may have 200"),
            (
                "[workload.w]\n[[step]]\nname = \"s\"\ndo = [{ scale = \"w\", replicas = 4000000000 }]\n".to_owned(),
                "4000000000 pods: a lab may have 30000",
            ),
        ] {
            let text = format!("lab = \"a\"\n[pool.system]\n{text}");
            let problems = parse("a.toml", &text, &LoadOptions::default()).unwrap_err();
            let said: Vec<String> =
                problems.iter().map(|one| format!("{}: {}", one.message, one.primary.as_ref().unwrap().text)).collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(says), "{said:?}");
        }
    }
}
