//! Rules about steps: what they do must be possible at that point, and something must be checked afterwards.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use crate::code::Code;
use crate::spec::check::Condition;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::pool::{Eviction, Pool, PoolMode};
use crate::spec::profile::NodeForm;
use crate::spec::provider::Provider;
use crate::spec::step::Action;
use crate::spec::workload::WorkloadKind;

pub(super) fn duplicate(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut seen = BTreeMap::new();
    for step in &context.lab.steps {
        if let Some(first) = seen.insert(step.name.as_str(), &step.name.at) {
            found.push(
                Diagnostic::error(Code::DuplicateStep, format!("two steps are named `{}`", step.name))
                    .at(&step.name.at, "the second one")
                    .and_at(first, "the first one"),
            );
        }
    }
}

pub(super) fn without_check(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for step in &context.lab.steps {
        if step.checks.is_empty() && !step.actions.is_empty() {
            found.push(
                Diagnostic::warning(Code::StepWithoutCheck, format!("nothing is checked after step `{}`", step.name))
                    .at(&step.name.at, "whether it was done cannot be seen")
                    .help("add a `[[step.check]]` below it"),
            );
        }
    }
}

pub(super) fn held_at_once(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for step in context.lab.steps.iter().filter(|step| !step.actions.is_empty()) {
        let mut conditions = step.checks.iter().flat_map(|check| &check.conditions).peekable();
        if conditions.peek().is_some()
            && conditions.all(|it| matches!(it.value, Condition::SamePods { wanted: true, .. }))
        {
            found.push(
                Diagnostic::warning(Code::HeldAtOnce, format!("step `{}` holds before anything is done", step.name))
                    .at(&step.name.at, "all that is checked is that pods stay as they are")
                    .help("check what the step does, too: `schedulable`, `tainted`, `exist` or `ready` of nodes, …"),
            );
        }
    }
}

pub(super) fn without_hint(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for step in &context.lab.steps {
        let is_explained = step.text.is_some() && !step.checks.is_empty();
        let helped = step.hint.is_some() || step.checks.iter().any(|check| check.hint.is_some());
        if is_explained && !helped {
            found.push(
                Diagnostic::warning(
                    Code::StepWithoutHint,
                    format!("step `{}` has no hint for a learner who is stuck", step.name),
                )
                .at(&step.name.at, "what is to help when its checks do not hold?")
                .help("add `hint = \"…\"` with the command that shows the mistake"),
            );
        }
    }
}

pub(super) fn pools(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let mut there: BTreeSet<&str> =
        lab.pools.iter().filter(|pool| !pool.deferred).map(|pool| pool.name.as_str()).collect();
    for action in lab.steps.iter().flat_map(|step| &step.actions) {
        let (pool, wanted) = match &action.value {
            Action::AddPool { pool } => (pool, false),
            Action::RemovePool { pool }
            | Action::ScalePool { pool, .. }
            | Action::UpgradePool { pool, .. }
            | Action::ReclaimPool { pool, .. } => (pool, true),
            _ => continue,
        };
        let Some(known) = lab.pool(pool) else { continue };
        let message = format!("this cannot be done to pool `{pool}`");
        if there.contains(pool.as_str()) != wanted {
            let label = if wanted { "the pool is not there at this point" } else { "the pool is there already" };
            let help = if wanted {
                "add it first: `{ add_pool = … }`"
            } else {
                "write `deferred = true` in its table, so that `up` leaves it to this step"
            };
            found.push(
                Diagnostic::error(Code::StepPool, message)
                    .at(&action.at, label)
                    .and_at(&known.name.at, "this pool")
                    .help(help),
            );
            continue;
        }
        match &action.value {
            Action::AddPool { .. } => {
                there.insert(pool);
            }
            Action::RemovePool { .. } => {
                there.remove(pool.as_str());
                let systems =
                    there.iter().filter_map(|name| lab.pool(name)).filter(|pool| pool.mode == PoolMode::System);
                if systems.count() == 0 {
                    found.push(
                        Diagnostic::error(Code::StepPool, message)
                            .at(&action.at, "it is the last system pool")
                            .help("there has to be at least one system pool at all times: add another one first"),
                    );
                }
            }
            Action::ScalePool { nodes: Some(0), .. } if known.mode == PoolMode::System => {
                found.push(
                    Diagnostic::error(Code::StepPool, message).at(&action.at, "a system pool has at least one node"),
                );
            }
            Action::ReclaimPool { .. } => found.extend(not_reclaimed(known, lab.provider).map(|(label, help)| {
                Diagnostic::error(Code::StepPool, message)
                    .at(&action.at, label)
                    .and_at(&known.name.at, "this pool")
                    .help(help)
            })),
            _ => {}
        }
    }
}

/// Why Azure, or what stands for it, cannot take nodes of a pool back, and what helps.
fn not_reclaimed(pool: &Pool, provider: Provider) -> Option<(&'static str, String)> {
    let profile = provider.profile();
    match &pool.spot {
        None => Some(("only spot nodes are taken back", "write `spot = true` in the table of the pool".to_owned())),
        Some(spot) if spot.eviction == Eviction::Deallocate => Some((
            "its nodes are deallocated, and klab knows only how nodes are deleted",
            "leave `eviction` out: its default is \"delete\"".to_owned(),
        )),
        Some(_) if profile.nodes == NodeForm::Container => Some((
            "nodes of this provider are no machines of a cloud",
            format!("leave the step out there: `skip = {{ {provider} = \"{} has no spot machines\" }}`", profile.title),
        )),
        Some(_) => None,
    }
}

pub(super) fn foreign_nodes(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let profile = context.lab.provider.profile();
    if profile.makes_nodes {
        return;
    }
    for step in &context.lab.steps {
        let impossible = step.actions.iter().find(|action| {
            action.value.pool().is_some()
                || matches!(action.value, Action::FailNode { .. } | Action::RestoreNode { .. } | Action::FailApi { .. })
        });
        if let Some(action) = impossible {
            let message = format!("step `{}` cannot be done on {}", step.name, profile.title);
            found.push(
                Diagnostic::error(Code::ForeignNodes, message)
                    .at(&action.at, "nodes are made, removed and stopped by those whose cluster it is")
                    .help("leave the step out there: `skip = { existing = \"its pools are not made by klab\" }`"),
            );
        }
    }
}

pub(super) fn control_plane(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let profile = lab.provider.profile();
    let mut now = lab.kubernetes.as_ref().map(|version| version.value);
    for action in lab.steps.iter().flat_map(|step| &step.actions) {
        let Action::UpgradeControlPlane { kubernetes } = &action.value else { continue };
        let mut wrong = |message: String, label: String, help: String| {
            found.push(Diagnostic::error(Code::ControlPlane, message).at(&action.at, label).help(help));
        };
        let title = profile.title;
        let Some(before) = now.replace(*kubernetes) else {
            let label = "the lab file does not say what it is before".to_owned();
            let help =
                "write the version that the cluster begins with above `[pool]`: `kubernetes = \"1.35\"`".to_owned();
            wrong(format!("the control plane cannot be brought to Kubernetes {kubernetes}"), label, help);
            continue;
        };
        if !profile.upgrades_control_plane {
            let label = "the version of its control plane is that of the whole cluster".to_owned();
            let help = format!("leave the step out there: `skip = {{ {} = \"…\" }}`", lab.provider);
            wrong(format!("the control plane cannot be upgraded on {title}"), label, help);
        } else if kubernetes.minor < before.minor || kubernetes.minor > before.minor + 1 {
            let label = format!("it is {before} at this point");
            let help = "a control plane goes from one minor version to the next, and not back".to_owned();
            wrong(format!("the control plane cannot be brought to Kubernetes {kubernetes}"), label, help);
        }
    }
}

pub(super) fn workloads(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let mut there: BTreeSet<&str> =
        lab.workloads.iter().filter(|workload| !workload.deferred).map(|workload| workload.name.as_str()).collect();
    for action in lab.steps.iter().flat_map(|step| &step.actions) {
        if let Action::Delete { object } = &action.value
            && let Some(workload) = lab.workload_of(object)
        {
            there.remove(workload.name.as_str());
        }
        let (Action::Deploy { workload: name }
        | Action::Scale { workload: name, .. }
        | Action::Set { workload: name, .. }) = &action.value
        else {
            continue;
        };
        let Some(workload) = lab.workload(name) else { continue };
        let deploys = matches!(action.value, Action::Deploy { .. });
        let label = match (deploys, there.contains(name.as_str())) {
            (true, true) => "the workload is there already; write `deferred = true` in its table, or delete it first",
            (false, false) => "the workload is not there at this point; `{ deploy = … }` it first",
            _ if matches!(action.value, Action::Scale { .. })
                && !matches!(workload.kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet) =>
            {
                "only deployments and statefulsets are scaled"
            }
            _ if matches!(action.value, Action::Set { .. })
                && matches!(workload.kind, WorkloadKind::Job | WorkloadKind::Pod) =>
            {
                "the pods of a job or a bare pod cannot be changed"
            }
            _ => {
                there.insert(name);
                continue;
            }
        };
        found.push(
            Diagnostic::error(Code::StepWorkload, format!("this cannot be done to workload `{name}`"))
                .at(&action.at, label)
                .and_at(&workload.name.at, "this workload"),
        );
    }
}

pub(super) fn never_deployed(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    // What only another provider's steps make is meant to be missing here.
    let elsewhere =
        context.lab.skipped_steps.iter().flat_map(|skipped| &skipped.step.actions).map(|action| &action.value);
    let actions: Vec<&Action> = context.actions().chain(elsewhere).collect();
    let made = |name: &str, of_pool: bool| {
        actions.iter().any(|action| match action {
            Action::AddPool { pool } => of_pool && pool == name,
            Action::Deploy { workload } => !of_pool && workload == name,
            _ => false,
        })
    };
    let pools = context.lab.pools.iter().filter(|pool| pool.deferred).map(|pool| (&pool.name, true));
    let workloads =
        context.lab.workloads.iter().filter(|workload| workload.deferred).map(|workload| (&workload.name, false));
    for (name, of_pool) in pools.chain(workloads) {
        if !made(name, of_pool) {
            let (what, verb) = if of_pool { ("pool", "add_pool") } else { ("workload", "deploy") };
            found.push(
                Diagnostic::warning(Code::NeverDeployed, format!("no step makes the {what} `{name}`"))
                    .at(&name.at, "it is deferred, so it will never be there")
                    .help(format!("add `{{ {verb} = \"{name}\" }}` to a step, or leave out `deferred`")),
            );
        }
    }
}
