//! Resource amounts: what pods request (as kube-scheduler computes it) and what nodes offer.

// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests (v1.36)
// upstream: pkg/scheduler/framework/types.go NodeInfo.AddPodInfo (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::error::ObjectError;
use super::quantity::Quantity;

type ApiResources = BTreeMap<String, ApiQuantity>;

/// What a container without a cpu request counts as in scores, in millicores.
pub(crate) const DEFAULT_CPU: i64 = 100;
/// What a container without a memory request counts as in scores, in bytes (200 MiB).
pub(crate) const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources in the scheduler's base units: millicores of cpu, bytes or counts of all else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resources {
    /// Millicores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages by name, sorted.
    pub scalars: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// The amount of a resource by its Kubernetes name; 0 if absent.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.scalar(name),
        }
    }

    /// The amount of an extended resource or of huge pages.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.iter().find(|(scalar, _)| scalar.as_ref() == name).map_or(0, |(_, amount)| *amount)
    }

    /// Adds all amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, 1);
    }

    /// Takes all amounts of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, -1);
    }

    fn combine(&mut self, other: &Self, sign: i64) {
        self.cpu += sign * other.cpu;
        self.memory += sign * other.memory;
        self.ephemeral_storage += sign * other.ephemeral_storage;
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(have, _)| have.cmp(name)) {
                Ok(index) => self.scalars[index].1 += sign * amount,
                Err(index) => self.scalars.insert(index, (Arc::clone(name), sign * amount)),
            }
        }
    }

    fn set(&mut self, name: &str, amount: Quantity) {
        let base = amount.base_units(name);
        match name {
            "cpu" => self.cpu = base,
            "memory" => self.memory = base,
            "ephemeral-storage" => self.ephemeral_storage = base,
            _ if is_scalar(name) => {
                let entry = (Arc::from(name), base);
                match self.scalars.binary_search_by(|(have, _)| have.as_ref().cmp(name)) {
                    Ok(index) => self.scalars[index] = entry,
                    Err(index) => self.scalars.insert(index, entry),
                }
            }
            _ => {}
        }
    }

    /// A node's allocatable, with the number of pods it takes.
    pub fn of_node(allocatable: Option<&ApiResources>) -> Result<(Self, i64), ObjectError> {
        let mut resources = Self::default();
        let mut pods = 0;
        for (name, amount) in allocatable.into_iter().flatten() {
            let amount = parse("status.allocatable", name, amount)?;
            if name == "pods" {
                pods = amount.units();
            } else {
                resources.set(name, amount);
            }
        }
        Ok((resources, pods))
    }
}

/// Whether the scheduler tracks a resource besides cpu, memory and ephemeral storage: extended resources (a domain
/// outside `kubernetes.io`), huge pages, attachable volumes.
pub(crate) fn is_scalar(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let extended = !native && !name.starts_with("requests.");
    extended
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

fn parse(field: &str, name: &str, amount: &ApiQuantity) -> Result<Quantity, ObjectError> {
    Quantity::try_from(amount).map_err(|source| ObjectError::Quantity {
        field: format!("{field}[{name}]"),
        value: amount.0.clone(),
        source,
    })
}

/// Amounts by name while they are added up; few entries, so a list is faster than a map.
#[derive(Debug, Clone, Default)]
struct Amounts<'a>(Vec<(&'a str, Quantity)>);

impl<'a> Amounts<'a> {
    fn read(field: &str, map: Option<&'a ApiResources>) -> Result<Self, ObjectError> {
        let amounts = map.into_iter().flatten().map(|(name, amount)| Ok((name.as_str(), parse(field, name, amount)?)));
        amounts.collect::<Result<_, _>>().map(Self)
    }

    fn entry(&mut self, name: &'a str) -> Option<&mut Quantity> {
        self.0.iter_mut().find(|(have, _)| *have == name).map(|(_, amount)| amount)
    }

    fn get(&self, name: &str) -> Option<Quantity> {
        self.0.iter().find(|(have, _)| *have == name).map(|(_, amount)| *amount)
    }

    fn add(&mut self, other: &Self) {
        for &(name, amount) in &other.0 {
            match self.entry(name) {
                Some(have) => *have += amount,
                None => self.0.push((name, amount)),
            }
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for &(name, amount) in &other.0 {
            match self.entry(name) {
                Some(have) if *have < amount => *have = amount,
                Some(_) => {}
                None => self.0.push((name, amount)),
            }
        }
    }

    fn replace(&mut self, name: &'a str, amount: Quantity) {
        match self.entry(name) {
            Some(have) => *have = amount,
            None => self.0.push((name, amount)),
        }
    }

    fn default_to(&mut self, defaults: &Self) {
        for &(name, amount) in &defaults.0 {
            if self.get(name).is_none() {
                self.0.push((name, amount));
            }
        }
    }
}

/// Huge pages of a size.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether pod-level resources may name a resource (KEP-2837): cpu, memory and huge pages.
pub(crate) fn is_pod_level_resource(name: &str) -> bool {
    name == "cpu" || name == "memory" || is_huge_pages(name)
}

/// Whether an init container keeps running next to the containers (a sidecar).
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn requests(resources: Option<&ResourceRequirements>) -> Option<&ApiResources> {
    resources.and_then(|resources| resources.requests.as_ref())
}

fn limits(resources: Option<&ResourceRequirements>) -> Option<&ApiResources> {
    resources.and_then(|resources| resources.limits.as_ref())
}

/// What to take into account when adding up a pod's requests, or its limits.
#[derive(Clone, Copy)]
struct Rules<'a> {
    /// Which amounts of containers are added up.
    list: fn(Option<&ResourceRequirements>) -> Option<&ApiResources>,
    /// Counted for a container that does not request the resource.
    defaults: Option<&'a Amounts<'a>>,
    /// Whether `spec.resources` replaces the containers' sum.
    pod_level: bool,
    /// Whether `spec.overhead` is added.
    overhead: bool,
}

/// The requests of one container; a running container that is being resized counts with the largest of what is asked
/// for, allocated and in effect (KEP-1287).
fn of_container<'a>(
    pod: &'a Pod,
    container: &'a Container,
    statuses: Option<&'a Vec<ContainerStatus>>,
    rules: Rules<'a>,
) -> Result<Amounts<'a>, ObjectError> {
    let field = "spec.containers[].resources.requests";
    let mut amounts = Amounts::read(field, (rules.list)(container.resources.as_ref()))?;
    let status = statuses.into_iter().flatten().find(|status| status.name == container.name);
    if let Some(status) = status.filter(|status| status.resources.is_some()) {
        let field = "status.containerStatuses[].resources";
        if resize_is_infeasible(pod) {
            amounts = Amounts::default();
        }
        amounts.raise_to(&Amounts::read(field, requests(status.resources.as_ref()))?);
        amounts.raise_to(&Amounts::read(field, status.allocated_resources.as_ref())?);
    }
    if let Some(defaults) = rules.defaults {
        amounts.default_to(defaults);
    }
    Ok(amounts)
}

fn resize_is_infeasible(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible"))
}

/// max(containers + sidecars, each init container + the sidecars before it), replaced by pod-level values, + overhead.
fn effective<'a>(pod: &'a Pod, rules: Rules<'a>) -> Result<Amounts<'a>, ObjectError> {
    let mut total = Amounts::default();
    let Some(spec) = pod.spec.as_ref() else { return Ok(total) };
    let status = pod.status.as_ref();
    for container in &spec.containers {
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        total.add(&of_container(pod, container, statuses, rules)?);
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let statuses = status.and_then(|status| status.init_container_statuses.as_ref());
        let mut amounts = of_container(pod, container, statuses, rules)?;
        if is_sidecar(container) {
            total.add(&amounts);
            sidecars.add(&amounts);
            peak.raise_to(&sidecars);
        } else {
            amounts.add(&sidecars);
            peak.raise_to(&amounts);
        }
    }
    total.raise_to(&peak);
    if rules.pod_level {
        let pod_level = Amounts::read("spec.resources.requests", requests(spec.resources.as_ref()))?;
        for (name, amount) in pod_level.0.into_iter().filter(|(name, _)| is_pod_level_resource(name)) {
            total.replace(name, amount);
        }
    }
    if rules.overhead {
        total.add(&Amounts::read("spec.overhead", spec.overhead.as_ref())?);
    }
    Ok(total)
}

/// A pod's effective requests by resource name, as kube-scheduler and `kubectl describe node` count them.
pub fn pod_requests(pod: &Pod) -> Result<BTreeMap<String, Quantity>, ObjectError> {
    effective(pod, Rules { list: requests, defaults: None, pod_level: true, overhead: true }).map(by_name)
}

/// The containers' effective requests without pod-level values and overhead.
pub fn container_requests(pod: &Pod) -> Result<BTreeMap<String, Quantity>, ObjectError> {
    effective(pod, Rules { list: requests, defaults: None, pod_level: false, overhead: false }).map(by_name)
}

/// The containers' effective limits.
pub fn container_limits(pod: &Pod) -> Result<BTreeMap<String, Quantity>, ObjectError> {
    effective(pod, Rules { list: limits, defaults: None, pod_level: false, overhead: false }).map(by_name)
}

fn by_name(amounts: Amounts<'_>) -> BTreeMap<String, Quantity> {
    amounts.0.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// Cpu and memory with defaults for containers that request none; used by the least-allocated score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NonZero {
    /// Millicores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// All that a pod's requests mean to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodResources {
    /// What the filter asks for and a placed pod holds.
    pub requests: Resources,
    /// What a placed pod adds to its node for the least-allocated score.
    pub placed: NonZero,
    /// What an incoming pod asks for in the least-allocated score: pod-level resources play no part.
    pub incoming: NonZero,
}

impl PodResources {
    /// Computes them for a pod.
    pub fn of(pod: &Pod) -> Result<Self, ObjectError> {
        let real = effective(pod, Rules { list: requests, defaults: None, pod_level: true, overhead: true })?;
        let all = [("cpu", Quantity::from_millis(DEFAULT_CPU)), ("memory", Quantity::from_units(DEFAULT_MEMORY))];
        let both = Amounts(all.to_vec());
        let incoming = non_zero(&effective(
            pod,
            Rules { list: requests, defaults: Some(&both), pod_level: false, overhead: true },
        )?);
        let pod_level = pod.spec.as_ref().and_then(|spec| requests(spec.resources.as_ref()));
        let placed = if pod_level.is_some_and(|pod_level| pod_level.keys().any(|name| is_pod_level_resource(name))) {
            let missing = Amounts(all.into_iter().filter(|(name, _)| real.get(name).is_none()).collect());
            non_zero(&effective(
                pod,
                Rules { list: requests, defaults: Some(&missing), pod_level: true, overhead: true },
            )?)
        } else {
            incoming
        };
        let mut requests = Resources::default();
        for (name, amount) in real.0 {
            requests.set(name, amount);
        }
        Ok(Self { requests, placed, incoming })
    }
}

fn non_zero(amounts: &Amounts<'_>) -> NonZero {
    let get = |name| amounts.get(name).unwrap_or(Quantity::ZERO).base_units(name);
    NonZero { cpu: get("cpu"), memory: get("memory") }
}
