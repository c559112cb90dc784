//! Rules about pools of single virtual machines: what AKS refuses, and what it does not say.

use super::context::Context;
use crate::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::lab::Lab;
use crate::spec::pool::{Os, Pool, ScaleProfile};
use crate::spec::source::Location;
use crate::spec::step::{Action, UpgradeTarget};

/// Most scale profiles of a pool.
const MAX_PROFILES: usize = 5;

/// What is wrong, where, and what helps.
type Fault = (Location, String, &'static str);

pub(super) fn virtual_machines(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    for pool in lab.pools.iter().filter(|pool| pool.is_virtual_machines()) {
        for (at, label, help) in faults(lab, pool).into_iter().chain(faults_of_steps(lab, pool)) {
            let message = format!("pool `{}` cannot have single virtual machines like this", pool.name);
            found.push(Diagnostic::error(Code::VirtualMachines, message).at(&at, label).help(help));
        }
    }
}

// See https://learn.microsoft.com/azure/aks/virtual-machines-node-pools (limitations)
// See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade (limitations)
fn faults(lab: &Lab, pool: &Pool) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    let name = &pool.name.at;
    let mut fault = |at: &Location, label: &str, help| faults.push((at.clone(), label.to_owned(), help));
    let scale_set = "leave out `type`: a scale set knows this";
    if !lab.is_like_aks() {
        let label = format!("workers of {} are alike in a pool", lab.provider.profile().title);
        fault(name, &label, "make a pool for each size, or use `--provider sim` or `--provider aks`");
        return faults;
    }
    if !pool.zones.is_empty() {
        fault(name, "AKS has no availability zones for it", "leave out `zones`, or `type`");
    }
    if pool.os == Os::Windows {
        fault(name, "AKS has no Windows nodes in it", scale_set);
    }
    if pool.spot.is_some() {
        fault(name, "AKS documents no spot nodes in it", scale_set);
    }
    if let Some(bounds) = &pool.autoscale {
        fault(&bounds.at, "its autoscaler is a preview of AKS, which klab does not model", scale_set);
    }
    if pool.upgrade.is_blue_green() {
        fault(name, "AKS has no blue-green upgrades of it", "leave out `strategy`, or `type`");
    }
    if let Some(sixth) = pool.scale.get(MAX_PROFILES) {
        fault(&sixth.size.at, "a pool has five sizes at most", "make another pool for it");
    }
    for profile in &pool.scale {
        if profile.nodes == 0 {
            fault(&profile.size.at, "AKS documents no size without nodes", "leave the size out, or write 1 or more");
        }
    }
    let (first, rest) = pool.scale.split_first().unzip();
    for other in rest.into_iter().flatten() {
        if let Some(why) = first.and_then(|first| difference(first, other)) {
            fault(&other.size.at, &why, "make another pool for it");
        }
    }
    faults
}

/// Why two sizes cannot be in one pool.
fn difference(first: &ScaleProfile, other: &ScaleProfile) -> Option<String> {
    let (one, two) = (first.machine.size?, other.machine.size?);
    let series = |name: &str| name.trim_start_matches("Standard_").chars().next().unwrap_or_default();
    let pair = |what: &str, of: [String; 2]| {
        (of[0] != of[1]).then(|| format!("{} has {what} {}, {} has {}", one.name, of[0], two.name, of[1]))
    };
    let gpus = |count: u32| if count > 0 { "yes" } else { "no" }.to_owned();
    pair("the CPU architecture", [one.arch.to_owned(), two.arch.to_owned()])
        .or_else(|| pair("GPUs:", [gpus(one.gpus), gpus(two.gpus)]))
        .or_else(|| pair("the family", [series(&one.name), series(&two.name)].map(|letter| letter.to_string())))
}

/// What steps do with the pool that it does not take.
fn faults_of_steps(lab: &Lab, pool: &Pool) -> Vec<Fault> {
    let actions = lab.steps.iter().flat_map(|step| &step.actions);
    let fault = |action: &Action| match action {
        Action::ScalePool { pool: name, autoscale: Some(_), .. } if *name == pool.name.value => {
            Some(("its autoscaler is a preview of AKS, which klab does not model", "give a number of nodes"))
        }
        Action::ScalePool { pool: name, .. } if *name == pool.name.value && pool.scale.len() > 1 => Some((
            "AKS does not scale a pool of several sizes as a whole",
            "`az aks nodepool manual-scale update` changes the number of one size",
        )),
        Action::UpgradePool { pool: name, to, settings, .. } if *name == pool.name.value => {
            let after = Pool { upgrade: settings.or(pool.upgrade), ..pool.clone() };
            let is_embedded = lab.provider.profile().is_embedded && !matches!(to, UpgradeTarget::Size(_));
            if after.upgrade.is_blue_green() {
                Some(("AKS has no blue-green upgrades of it", "leave out `strategy`"))
            } else {
                let why = after.surge_refusal().filter(|_| is_embedded)?;
                Some((why, "give the pool `upgrade = { max_surge = 0, max_unavailable = 1 }`, which is for user pools"))
            }
        }
        _ => None,
    };
    actions
        .filter_map(|action| {
            let (label, help) = fault(action.value.tried())?;
            Some((action.at.clone(), label.to_owned(), help))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::spec::{LoadOptions, parse};

    #[test]
    fn workers_of_kind_and_of_labs_like_kind_are_alike() {
        for (head, title) in [("provider = 'kind'", "kind"), ("[sim]\nlike = 'kind'", "the embedded cluster")] {
            let text =
                format!("lab = 'x'\n{head}\n[pool.a]\ntype = 'VirtualMachines'\nsizes = {{ Standard_D4s_v5 = 2 }}\n");
            let problems = parse("x.toml", &text, &LoadOptions::default()).unwrap_err();
            let said: Vec<String> =
                problems.iter().map(|problem| problem.primary.as_ref().unwrap().text.clone()).collect();
            assert_eq!(said, [format!("workers of {title} are alike in a pool")]);
        }
    }
}
