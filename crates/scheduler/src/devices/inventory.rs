//! All that is known of devices: classes, slices, claims, and which devices claims hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use k8s_openapi::api::resource::v1::{
    DeviceClass, DeviceClassConfiguration, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice,
};

use super::claim::{Claim, ClaimSpec};
use super::language::{DeviceSelector, NoLanguage, SelectorLanguage};
use super::resource_name::{implicit_class, may_be_devices, resource_of_class};
use super::slice::{Counters, PoolId, Slice, amount};

/// Compiled expressions kept at most.
const COMPILED_LIMIT: usize = 4096;

/// A compiled expression, or what is wrong with it.
pub(crate) type Compiled = Result<Arc<dyn DeviceSelector>, String>;

/// A device class.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    /// Expressions; `None` for a selector of another kind.
    pub(crate) selectors: Vec<Option<Arc<str>>>,
    pub(crate) config: Vec<DeviceClassConfiguration>,
    /// The extended resource that is its devices.
    pub(crate) resource: Option<String>,
    /// When it was made; of several classes for a resource the newest counts.
    pub(crate) created: Option<i64>,
}

/// What claims hold of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taken {
    /// Devices that one claim has for itself.
    pub(crate) alone: HashMap<Arc<str>, u32>,
    /// Devices that several may share: how many do, and what they consume.
    pub(crate) shared: HashMap<Arc<str>, (u32, Counters)>,
}

impl Taken {
    /// Whether anybody has the device, alone or with others.
    pub(crate) fn has(&self, device: &str) -> bool {
        self.alone.contains_key(device) || self.shared.contains_key(device)
    }
}

/// Classes, slices and claims.
#[derive(Debug, Clone)]
pub(crate) struct Devices {
    language: Arc<dyn SelectorLanguage>,
    classes: BTreeMap<String, Arc<Class>>,
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    /// Slices of one node only, by node.
    local: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Slice>>>,
    /// All others.
    wide: BTreeMap<Arc<str>, Arc<Slice>>,
    /// The slices of each pool.
    pools: HashMap<PoolId, BTreeMap<Arc<str>, Arc<Slice>>>,
    claims: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Claim>>>,
    specs: HashMap<String, Weak<ClaimSpec>>,
    specs_made: u64,
    taken: HashMap<PoolId, Taken>,
    compiled: HashMap<Arc<str>, Compiled>,
    /// Whether extended resources may be devices.
    pub(crate) has_extended: bool,
    /// Changes when verdicts on all nodes may be out of date.
    pub(crate) epoch: u64,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            language: Arc::new(NoLanguage),
            classes: BTreeMap::new(),
            slices: BTreeMap::new(),
            local: HashMap::default(),
            wide: BTreeMap::new(),
            pools: HashMap::default(),
            claims: HashMap::default(),
            specs: HashMap::default(),
            specs_made: 0,
            taken: HashMap::default(),
            compiled: HashMap::default(),
            has_extended: true,
            epoch: 0,
        }
    }
}

/// On which nodes a change of devices is felt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Felt {
    Nowhere,
    /// On these.
    On(Vec<Arc<str>>),
    Everywhere,
}

/// What became of a class.
#[derive(Debug)]
pub(crate) struct ClassChange {
    /// Whether resources may be devices of another class now.
    pub(crate) is_felt: bool,
    /// The resources that are its devices from now on, and were not.
    pub(crate) resources: Vec<String>,
}

/// What became of a claim.
#[derive(Debug)]
pub(crate) struct ClaimChange {
    pub(crate) added: bool,
    pub(crate) deallocated: bool,
    /// Whether its allocation or reservations changed.
    pub(crate) status: bool,
    pub(crate) felt: Felt,
}

impl Devices {
    /// Takes over a language; expressions are compiled again.
    pub(crate) fn set_language(&mut self, language: Arc<dyn SelectorLanguage>) {
        self.language = language;
        self.compiled.clear();
        self.epoch += 1;
    }

    /// An expression, compiled.
    pub(crate) fn compile(&self, expression: &Arc<str>) -> Compiled {
        match self.compiled.get(expression) {
            Some(compiled) => compiled.clone(),
            None => self.language.compile(expression),
        }
    }

    fn keep_compiled(&mut self, expressions: impl Iterator<Item = Arc<str>>) {
        for expression in expressions {
            if self.compiled.len() >= COMPILED_LIMIT {
                self.compiled.clear();
            }
            if !self.compiled.contains_key(&expression) {
                let compiled = self.language.compile(&expression);
                self.compiled.insert(expression, compiled);
            }
        }
    }

    /// Adds or replaces a class.
    pub(crate) fn set_class(&mut self, class: &DeviceClass) -> ClassChange {
        let name = class.metadata.name.clone().unwrap_or_default();
        let selectors: Vec<Option<Arc<str>>> = class
            .spec
            .selectors
            .iter()
            .flatten()
            .map(|selector| selector.cel.as_ref().map(|cel| Arc::from(cel.expression.as_str())))
            .collect();
        self.keep_compiled(selectors.iter().flatten().cloned());
        let config = class.spec.config.clone().unwrap_or_default();
        let resource = class.spec.extended_resource_name.clone().filter(|resource| !resource.is_empty());
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        let new = Arc::new(Class { name: name.clone(), selectors, config, resource, created });
        let implicit = resource_of_class(&name);
        let old = self.classes.insert(name, Arc::clone(&new));
        self.epoch += 1;
        let renamed = old.as_ref().is_none_or(|old| old.resource != new.resource);
        let resources = new.resource.clone().filter(|_| renamed).into_iter();
        ClassChange {
            is_felt: renamed || old.as_ref().is_some_and(|old| old.created != new.created),
            resources: resources.chain(Some(implicit).filter(|_| old.is_none())).collect(),
        }
    }

    /// Removes a class. Whether resources may be devices of another class now.
    pub(crate) fn remove_class(&mut self, name: &str) -> bool {
        let removed = self.classes.remove(name).is_some();
        self.epoch += u64::from(removed);
        removed
    }

    /// Whether there are classes at all.
    pub(crate) fn has_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Whether a resource is the devices of a class.
    pub(crate) fn are_resource(&self, resource: &str) -> bool {
        self.has_classes() && may_be_devices(resource) && self.class_of_resource(resource).is_some()
    }

    /// The class whose devices a resource is: by its own name, else the newest that says so, the first by name of equals.
    pub(crate) fn class_of_resource(&self, resource: &str) -> Option<&str> {
        if !self.has_extended {
            return None;
        }
        if let Some(class) = implicit_class(resource) {
            return self.classes.get(class).map(|class| class.name.as_str());
        }
        let classes = self.classes.values().filter(|class| class.resource.as_deref() == Some(resource));
        let newest = classes.reduce(|best, next| if next.created > best.created { next } else { best })?;
        Some(&newest.name)
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Arc<Class>> {
        self.classes.get(name)
    }

    /// Adds or replaces a slice.
    pub(crate) fn set_slice(&mut self, slice: &ResourceSlice) -> Felt {
        let slice = Arc::new(Slice::of(slice));
        let before = self.remove_slice(&slice.name);
        let after = slice.local_to().cloned();
        match &after {
            Some(node) => {
                self.local.entry(Arc::clone(node)).or_default().insert(Arc::clone(&slice.name), Arc::clone(&slice));
            }
            None => drop(self.wide.insert(Arc::clone(&slice.name), Arc::clone(&slice))),
        }
        self.pools.entry(slice.pool.clone()).or_default().insert(Arc::clone(&slice.name), Arc::clone(&slice));
        let felt = self.felt_in(&slice.pool);
        self.slices.insert(Arc::clone(&slice.name), slice);
        self.feel(before, felt)
    }

    /// Removes a slice.
    pub(crate) fn remove_slice(&mut self, name: &str) -> Felt {
        let Some(slice) = self.slices.remove(name) else { return Felt::Nowhere };
        let felt = self.felt_in(&slice.pool);
        if let Some(node) = slice.local_to()
            && let Some(of_node) = self.local.get_mut(node)
        {
            of_node.remove(name);
            if of_node.is_empty() {
                self.local.remove(node);
            }
        }
        self.wide.remove(name);
        if let Some(pool) = self.pools.get_mut(&slice.pool) {
            pool.remove(name);
            if pool.is_empty() {
                self.pools.remove(&slice.pool);
            }
        }
        self.feel(felt, Felt::Nowhere)
    }

    /// Where a change of a pool's devices is felt.
    fn felt_in(&self, pool: &PoolId) -> Felt {
        let Some(slices) = self.pools.get(pool) else { return Felt::Nowhere };
        let nodes: Option<Vec<_>> = slices.values().map(|slice| slice.local_to().cloned()).collect();
        nodes.map_or(Felt::Everywhere, |mut nodes| {
            nodes.dedup();
            Felt::On(nodes)
        })
    }

    /// Two changes as one.
    fn feel(&mut self, one: Felt, other: Felt) -> Felt {
        match (one, other) {
            (Felt::Everywhere, _) | (_, Felt::Everywhere) => {
                self.epoch += 1;
                Felt::Everywhere
            }
            (Felt::Nowhere, felt) | (felt, Felt::Nowhere) => felt,
            (Felt::On(mut nodes), Felt::On(more)) => {
                nodes.extend(more);
                nodes.sort_unstable();
                nodes.dedup();
                Felt::On(nodes)
            }
        }
    }

    /// The slices whose devices may be used on a node: its own, and those that are not of one node.
    pub(crate) fn slices_for(&self, node: &str) -> impl Iterator<Item = &Arc<Slice>> {
        self.local.get(node).into_iter().flat_map(BTreeMap::values).chain(self.wide.values())
    }

    /// All slices of a pool.
    pub(crate) fn slices_of(&self, pool: &PoolId) -> impl Iterator<Item = &Arc<Slice>> {
        self.pools.get(pool).into_iter().flat_map(BTreeMap::values)
    }

    /// What is taken of a pool.
    pub(crate) fn taken(&self, pool: &PoolId) -> Option<&Taken> {
        self.taken.get(pool)
    }

    /// All claims.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.values().flat_map(HashMap::values)
    }

    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(namespace)?.get(name)
    }

    fn spec(&mut self, claim: &ResourceClaim) -> Arc<ClaimSpec> {
        let key = serde_json::to_string(&claim.spec).unwrap_or_default();
        if let Some(spec) = self.specs.get(&key).and_then(Weak::upgrade) {
            return spec;
        }
        // Those that no claim has any more are forgotten now and then.
        if self.specs.len().is_power_of_two() {
            self.specs.retain(|_, spec| spec.strong_count() > 0);
        }
        self.specs_made += 1;
        let spec = Arc::new(ClaimSpec::of(&claim.spec, self.specs_made));
        let choices = spec.requests.iter().flat_map(|request| &request.choices);
        let expressions: Vec<_> = choices.flat_map(|choice| choice.selectors.iter().flatten().cloned()).collect();
        self.keep_compiled(expressions.into_iter());
        self.specs.insert(key, Arc::downgrade(&spec));
        spec
    }

    /// Adds or replaces a claim.
    pub(crate) fn set_claim(&mut self, claim: &ResourceClaim) -> ClaimChange {
        let spec = self.spec(claim);
        let mut claim = Claim::of(claim, spec);
        let of_namespace = self.claims.entry(Arc::clone(&claim.namespace)).or_default();
        let old = of_namespace.get(&claim.name).cloned();
        let result = |claim: &Claim| claim.allocation.as_ref().map(|allocation| allocation.result.clone());
        let before = old.as_ref().and_then(|old| result(old));
        let after = result(&claim);
        claim.given_up = before == after && old.as_ref().is_some_and(|old| old.given_up);
        let claim = Arc::new(claim);
        of_namespace.insert(Arc::clone(&claim.name), Arc::clone(&claim));
        let mut felt = Felt::Nowhere;
        if before != after {
            let gone = old.as_ref().map_or(Felt::Nowhere, |old| self.count(old, false));
            let come = self.count(&claim, true);
            felt = self.feel(gone, come);
        }
        ClaimChange {
            added: old.is_none(),
            deallocated: before.is_some() && after.is_none(),
            status: before != after || old.is_some_and(|old| old.reserved_for != claim.reserved_for),
            felt,
        }
    }

    /// Notes that no pod waits any more for the devices of a claim, until it gets others.
    pub(crate) fn give_up_claim(&mut self, namespace: &str, name: &str) {
        if let Some(claim) = self.claims.get_mut(namespace).and_then(|claims| claims.get_mut(name)) {
            let mut given_up = (**claim).clone();
            given_up.given_up = given_up.allocation.is_some();
            *claim = Arc::new(given_up);
        }
    }

    /// Removes a claim; what it holds is free then.
    pub(crate) fn remove_claim(&mut self, namespace: &str, name: &str) -> Option<ClaimChange> {
        let claim = self.claims.get_mut(namespace)?.remove(name)?;
        let felt = self.count(&claim, false);
        let deallocated = claim.allocation.is_some();
        Some(ClaimChange { added: false, deallocated, status: deallocated, felt })
    }

    /// Counts what a claim holds, or no longer holds.
    fn count(&mut self, claim: &Claim, holds: bool) -> Felt {
        let mut all = Felt::Nowhere;
        let Some(allocation) = &claim.allocation else { return all };
        // A claim with admin access blocks no other claim.
        for result in held(&allocation.result).iter().filter(|result| !is_admin(result)) {
            let pool = PoolId { driver: Arc::from(result.driver.as_str()), pool: Arc::from(result.pool.as_str()) };
            let taken = self.taken.entry(pool.clone()).or_default();
            if result.share_id.is_some() {
                share(taken, result, holds);
            } else {
                let users = taken.alone.entry(Arc::from(result.device.as_str())).or_default();
                *users = if holds { users.saturating_add(1) } else { users.saturating_sub(1) };
                if *users == 0 {
                    taken.alone.remove(result.device.as_str());
                }
            }
            if taken.alone.is_empty() && taken.shared.is_empty() {
                self.taken.remove(&pool);
            }
            let felt = self.felt_in(&pool);
            all = self.feel(all, felt);
        }
        all
    }
}

/// The devices that an allocation is about.
pub(crate) fn held(result: &k8s_openapi::api::resource::v1::AllocationResult) -> &[DeviceRequestAllocationResult] {
    result.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default()
}

/// Whether somebody only looks after a device.
pub(crate) fn is_admin(result: &DeviceRequestAllocationResult) -> bool {
    result.admin_access == Some(true)
}

fn share(taken: &mut Taken, result: &DeviceRequestAllocationResult, holds: bool) {
    let (users, consumed) = taken.shared.entry(Arc::from(result.device.as_str())).or_default();
    *users = if holds { users.saturating_add(1) } else { users.saturating_sub(1) };
    for (name, quantity) in result.consumed_capacity.iter().flatten() {
        let sum = consumed.entry(name.clone()).or_default();
        if holds {
            *sum += amount(quantity);
        } else {
            *sum -= amount(quantity);
        }
    }
    if *users == 0 {
        taken.shared.remove(result.device.as_str());
    }
}
