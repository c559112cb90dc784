//! What must be so before anything is spent: tool, login, registration, version, sizes, zones, quota. All at once.

use std::collections::BTreeMap;

use super::answer::{Registration, ToolVersion};
use super::arguments;
use super::az::{Az, OLDEST};
use super::azure_site::AzureSite;
use super::catalogue::Class;
use super::failure::Failure;
use super::region::{Sku, Usage, Versions};
use crate::error::{Code, Error};
use klab_lab::plan::{Action, size_name, wanted_version};
use klab_lab::spec::{AksTier, Lab, Os, Pool, PoolMode};

/// What Azure says about a region and a subscription.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    tool: Result<ToolVersion, Failure>,
    registration: Result<Registration, Failure>,
    /// None where the lab leaves the version to Azure.
    versions: Option<Result<Versions, Failure>>,
    skus: Result<Vec<Sku>, Failure>,
    usage: Result<Vec<Usage>, Failure>,
    /// None where the lab names no registry of its own subscription.
    registries: Option<Result<Vec<String>, Failure>>,
}

impl Offer {
    /// Asks for everything at once that is of interest to a lab; also for az's version, unless it is known to be new enough.
    pub(super) fn ask(az: &Az, lab: &Lab, known: Option<ToolVersion>) -> Option<Self> {
        let known = known.filter(|version| old_tool(version).is_none());
        let location = &lab.aks.location.value;
        let names_a_version =
            wanted_version(lab, None).is_some() || lab.pools.iter().any(|pool| pool.kubernetes.is_some());
        std::thread::scope(|scope| {
            let tool = scope.spawn(|| known.map_or_else(|| az.ask(&arguments::tool_version()), Ok));
            let registration = scope.spawn(|| az.registration());
            let versions = names_a_version.then(|| scope.spawn(|| az.versions(location)));
            let usage = scope.spawn(|| az.usage(location));
            let registries = named_registry(lab).map(|_| scope.spawn(|| az.registries()));
            let skus = az.sizes(location);
            Some(Self {
                tool: tool.join().ok()?,
                registration: registration.join().ok()?,
                versions: match versions {
                    Some(versions) => Some(versions.join().ok()?),
                    None => None,
                },
                skus,
                usage: usage.join().ok()?,
                registries: match registries {
                    Some(registries) => Some(registries.join().ok()?),
                    None => None,
                },
            })
        })
    }

    /// What is missing for the actions of a lab, done for this many seats.
    pub(super) fn problems(&self, lab: &Lab, actions: &[Action], place: &AzureSite, seats: u32) -> Vec<Error> {
        let mut problems = Vec::new();
        let mut said: Vec<&str> = Vec::new();
        for (failure, what) in [
            (self.tool.as_ref().err(), "could not ask az for its version"),
            (self.registration.as_ref().err(), "could not find out whether Microsoft.ContainerService is registered"),
            (
                self.versions.as_ref().and_then(|versions| versions.as_ref().err()),
                "could not list the available Kubernetes versions",
            ),
            (self.skus.as_ref().err(), "could not list the available VM sizes"),
            (self.usage.as_ref().err(), "could not list the vCPU quota"),
        ] {
            // What several questions end with is printed once.
            if let Some(failure) = failure.filter(|failure| !said.contains(&failure.words.as_str())) {
                said.push(&failure.words);
                problems.push(failure.clone().into_error(what, Some(place)));
                // One reason keeps everything from being answered; it is said once.
                if matches!(
                    failure.class,
                    Class::Login
                        | Class::Secret
                        | Class::Subscription
                        | Class::Missing
                        | Class::Network
                        | Class::Broken
                ) {
                    return problems;
                }
            }
        }
        if let Ok(version) = &self.tool {
            problems.extend(old_tool(version));
        }
        if let Ok(registration) = &self.registration {
            problems.extend(unregistered(&registration.registration_state, place));
        }
        if let (Some(registry), Some(Ok(registries))) = (named_registry(lab), &self.registries)
            && !registries.iter().any(|name| name.eq_ignore_ascii_case(registry))
        {
            let message = format!("there is no container registry `{registry}` in subscription {}", place.subscription);
            let mut problem = Error::message(Code::AzureResource, message);
            problem.hints.extend(Class::Registry.hint(Some(place)));
            problems.push(problem);
        }
        if let Some(Ok(versions)) = &self.versions {
            problems.extend(version_problems(lab, actions, versions, place));
        }
        if let Ok(skus) = &self.skus {
            let needs = needs(lab, actions);
            problems.extend(size_problems(&needs, skus, place));
            if let Ok(usage) = &self.usage {
                problems.extend(quota_problems(&needs, skus, usage, place, seats));
            }
        }
        problems
    }
}

/// The registry of a lab that is named and not given by its id.
fn named_registry(lab: &Lab) -> Option<&str> {
    lab.aks.registry.as_deref().filter(|registry| !registry.contains('/'))
}

/// What AKS cannot do at all, from the lab file alone.
pub(super) fn limits(lab: &Lab) -> Vec<Error> {
    let mut problems = Vec::new();
    let mut refuse =
        |code: Code, message: String, hint: String| problems.push(Error::message(code, message).hint(hint));
    let pools: Vec<&Pool> = lab.pools.iter().filter(|pool| !pool.deferred).collect();
    for pool in &pools {
        let name = &pool.name.value;
        for taint in pool.taints.iter().map(|taint| &taint.value) {
            if taint.value.as_deref().unwrap_or_default().is_empty() {
                let (key, effect) = (&taint.key, &taint.effect);
                refuse(
                    Code::EmptyTaintValue,
                    format!("taint `{key}:{effect}` of pool `{name}` has no value; AKS takes no such taints"),
                    format!("write \"{key}=true:{effect}\""),
                );
            }
        }
        if pool.size.is_none() {
            refuse(
                Code::Machine,
                format!("pool `{name}` has no VM size; AKS makes no machines to measure"),
                "add `size = \"Standard_B2ms\"` or another size".to_owned(),
            );
        }
        if pool.mode == PoolMode::System && (pool.spot.is_some() || pool.os == Os::Windows) {
            refuse(
                Code::SystemPool,
                format!("system pool `{name}` is spot or Windows; AKS has no such system pools"),
                "add `mode = \"user\"`, and keep a regular Linux pool as the system's".to_owned(),
            );
        }
    }
    match first_pool(lab) {
        None => refuse(
            Code::NoSystemPool,
            "the lab has no system pool; every cluster on AKS has one".to_owned(),
            "add `mode = \"system\"` to a pool".to_owned(),
        ),
        Some(first) if !first.extra_args.is_empty() => refuse(
            Code::NotOnProvider,
            format!("pool `{}` is made by `az aks create`, which takes no `extra_args` of a pool", first.name.value),
            "move them to `[aks] extra_args`".to_owned(),
        ),
        Some(_) => {}
    }
    problems
}

/// vCPUs that AKS asks of the machines of a system pool.
const SYSTEM_CPUS: u64 = 4;

/// System pools that are smaller than AKS asks for, in words: it has long taken them, and may refuse them.
pub(super) fn small_system_pools(lab: &Lab) -> Vec<String> {
    let pools = lab.pools.iter().filter(|pool| pool.mode == PoolMode::System && !pool.deferred).flat_map(Pool::parts);
    let small = pools.filter(|pool| pool.machine.cpu_millis < SYSTEM_CPUS * 1000);
    small
        .map(|pool| {
            let (name, size, cpus) = (&pool.name.value, size_name(&pool), pool.machine.cpu_millis.div_ceil(1000));
            format!(
                "system pool `{name}` has machines of {cpus} vCPUs ({size}); AKS asks for {SYSTEM_CPUS} there, such as \
                 `size = \"Standard_D4s_v5\"`, and may refuse fewer"
            )
        })
        .collect()
}

/// The pool that is made with the cluster.
pub(super) fn first_pool(lab: &Lab) -> Option<&Pool> {
    lab.pools.iter().find(|pool| pool.mode == PoolMode::System && !pool.deferred)
}

fn old_tool(version: &ToolVersion) -> Option<Error> {
    let mut numbers = version.cli.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let have = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (have < OLDEST).then(|| {
        Error::message(Code::ToolTooOld, format!("az {} is older than {}.{}", version.cli, OLDEST.0, OLDEST.1))
            .hint("az upgrade")
    })
}

fn unregistered(state: &str, place: &AzureSite) -> Option<Error> {
    (state != "Registered").then(|| {
        let message = format!("subscription {} is not registered for AKS: {state}", place.subscription);
        let command =
            format!("az provider register -n Microsoft.ContainerService --subscription {} --wait", place.subscription);
        Error::message(Code::AzureRegistration, message).hint(command)
    })
}

fn version_problems(lab: &Lab, actions: &[Action], versions: &Versions, place: &AzureSite) -> Vec<Error> {
    let changes_cluster =
        actions.iter().any(|action| matches!(action, Action::CreateCluster | Action::UpgradeCluster { .. }));
    let cluster = wanted_version(lab, None).filter(|_| changes_cluster);
    let pools = lab
        .pools
        .iter()
        .filter(|pool| is_made(pool, actions))
        .filter_map(|pool| Some(pool.kubernetes.as_ref()?.value.to_string()));
    let mut wanted: Vec<String> = cluster.into_iter().chain(pools).collect();
    wanted.dedup();
    let offered = || versions.values.iter().map(|version| version.minor.as_str()).collect::<Vec<_>>().join(", ");
    let mut problems = Vec::new();
    for wanted in wanted {
        let minor: String = wanted.split('.').take(2).collect::<Vec<_>>().join(".");
        let found = versions.values.iter().find(|version| version.minor == minor);
        let problem = match found {
            None => Some(format!("Kubernetes {wanted} is not offered in {}; there are {}", place.location, offered())),
            Some(version) if minor != wanted && !version.patches.contains_key(&wanted) => {
                let patches: Vec<&str> = version.patches.keys().map(String::as_str).collect();
                Some(format!(
                    "Kubernetes {wanted} is not offered in {}; of {minor} there are {}",
                    place.location,
                    patches.join(", ")
                ))
            }
            Some(version) if version.needs_long_term_support() && lab.aks.tier != AksTier::Premium => Some(format!(
                "Kubernetes {wanted} is offered in {} with long-term support only, which needs the premium tier",
                place.location
            )),
            Some(_) => None,
        };
        if let Some(message) = problem {
            let newest = versions
                .values
                .iter()
                .filter(|version| !version.needs_long_term_support())
                .map(|version| &version.minor)
                .max_by_key(|version| minor_of(version));
            let mut error = Error::message(Code::AzureSize, message);
            if let Some(newest) = newest {
                error = error.hint(format!(
                    "`[aks] kubernetes = \"{newest}\"` in the lab file chooses another version for AKS alone"
                ));
            }
            problems.push(error);
        }
    }
    problems
}

fn minor_of(version: &str) -> u32 {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

fn is_made(pool: &Pool, actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::AddPool { pool: name, .. } | Action::ReplacePool { pool: name, .. } => *name == pool.name.value,
        _ => false,
    })
}

/// Machines that actions add.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Need {
    pool: String,
    size: String,
    machines: u32,
    zones: Vec<u8>,
    spot: bool,
    cpus: u32,
}

fn needs(lab: &Lab, actions: &[Action]) -> Vec<Need> {
    let mut needs = Vec::new();
    for action in actions {
        let (name, machines) = match action {
            // The new pool is up before the old one goes.
            Action::AddPool { pool, nodes, .. } | Action::ReplacePool { pool, nodes, .. } => (pool, *nodes),
            Action::ScalePool { pool, from, to, .. } => (pool, to.saturating_sub(*from)),
            _ => continue,
        };
        let Some(pool) = lab.pool(name) else { continue };
        let had = |size: &str| match action {
            Action::ScalePool { sizes, .. } => sizes.get(size).map_or(u32::MAX, |(from, _)| *from),
            _ => 0,
        };
        needs.extend(pool.parts().iter().map(|part| Need {
            pool: name.clone(),
            size: part.size.as_ref().map_or_else(|| size_name(part), |size| size.value.clone()),
            machines: match part.scale.as_slice() {
                [] => machines,
                [profile, ..] => profile.nodes.saturating_sub(had(&profile.size)),
            },
            // AKS takes those that there are.
            zones: if pool.zones_auto { Vec::new() } else { pool.zones.clone() },
            spot: pool.spot.is_some(),
            cpus: u32::try_from(part.machine.cpu_millis.div_ceil(1000)).unwrap_or(u32::MAX),
        }));
    }
    needs
}

fn size_problems(needs: &[Need], skus: &[Sku], place: &AzureSite) -> Vec<Error> {
    let mut problems: Vec<Error> = Vec::new();
    let location = &place.location;
    for need in needs {
        let Need { pool, size, .. } = need;
        let Some(sku) = find(skus, size) else {
            let hint = format!("`az vm list-skus -l {location} -r virtualMachines -o table` shows the available sizes");
            let message = format!("size `{size}` of pool `{pool}` is not offered in {location}");
            problems.push(Error::message(Code::AzureSize, message).hint(hint));
            continue;
        };
        if let Some(reason) = sku.refused() {
            let hint = format!(
                "another size or location; `az vm list-skus -l {location} -r virtualMachines -o table` shows what is available"
            );
            let message = format!(
                "size `{size}` of pool `{pool}` is not available in {location} with this subscription ({reason})"
            );
            problems.push(Error::message(Code::AzureSize, message).hint(hint));
            continue;
        }
        let offered = sku.zones();
        let missing: Vec<String> =
            need.zones.iter().filter(|zone| !offered.contains(zone)).map(u8::to_string).collect();
        if !missing.is_empty() {
            let message =
                format!("size `{size}` of pool `{pool}` is not available in zone {} of {location}", missing.join(", "));
            let hint = match offered.as_slice() {
                [] => format!("it has no zones there: leave out `zones` of pool `{pool}`"),
                offered => format!(
                    "`zones = [{}]` for pool `{pool}`",
                    offered.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
                ),
            };
            problems.push(Error::message(Code::AzureSize, message).hint(hint));
        }
        if need.spot && !sku.offers_spot() {
            let message = format!("size `{size}` of pool `{pool}` is not available as spot capacity");
            problems.push(Error::message(Code::AzureSize, message).hint("leave out `spot`, or choose another size"));
        }
    }
    problems
}

fn find<'a>(skus: &'a [Sku], size: &str) -> Option<&'a Sku> {
    skus.iter().find(|sku| sku.name.eq_ignore_ascii_case(size))
}

/// The quota of the whole lab, or of all seats of a class: all regular vCPUs, all spot vCPUs, and those of each family.
fn quota_problems(needs: &[Need], skus: &[Sku], usage: &[Usage], place: &AzureSite, seats: u32) -> Vec<Error> {
    let who = if seats == 1 { "the lab needs".to_owned() } else { format!("{seats} seats of the lab need") };
    let mut wanted: BTreeMap<String, (u32, Vec<String>)> = BTreeMap::new();
    for need in needs.iter().filter(|need| need.machines > 0) {
        let sku = find(skus, &need.size);
        let machines = need.machines.saturating_mul(seats);
        let cpus = sku.and_then(Sku::cpus).unwrap_or(need.cpus).saturating_mul(machines);
        let mut add = |counter: &str| {
            let (sum, pools) = wanted.entry(counter.to_owned()).or_default();
            *sum = sum.saturating_add(cpus);
            pools.push(format!("{} {machines} × {}", need.pool, need.size));
        };
        if need.spot {
            add("lowPriorityCores");
        } else {
            add("cores");
            if let Some(sku) = sku.filter(|sku| !sku.family.is_empty()) {
                add(&sku.family);
            }
        }
    }
    let mut problems = Vec::new();
    for (counter, (sum, pools)) in wanted {
        let Some(row) = usage.iter().find(|row| row.name.value.eq_ignore_ascii_case(&counter)) else { continue };
        let left = row.limit.saturating_sub(row.current_value).max(0);
        if i64::from(sum) <= left {
            continue;
        }
        let name = if row.name.localized_value.is_empty() { &row.name.value } else { &row.name.localized_value };
        let message = format!(
            "{who} {sum} vCPUs ({}), and {left} of {} are left for `{name}` in {}",
            pools.join(", "),
            row.limit,
            place.location
        );
        let target = row.current_value.saturating_add(i64::from(sum));
        problems.push(
            Error::message(Code::AzureQuota, message)
                .hint("fewer or smaller nodes, another size or location; or more quota:")
                .hint(format!(
                    "az quota update --resource-name {} --scope /subscriptions/{}/providers/Microsoft.Compute/locations/{} --limit-object value={target} --resource-type dedicated",
                    row.name.value, place.subscription, place.location
                )),
        );
    }
    problems
}
