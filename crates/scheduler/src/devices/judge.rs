//! Why claims cannot be allocated on a node: every request against every device, without searching for a combination.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use k8s_openapi::api::resource::v1::DeviceTaint;

use super::allocator::in_use;
use super::capacity::{self, Lack};
use super::claim::{Choice, Claim, Mode};
use super::constraint::{named, value_of};
use super::counters::Left;
use super::inventory::{Class, Devices, held, is_admin};
use super::language::DeviceFacts;
use super::pools::{Pool, gather};
use super::shortage::{
    DeviceHolder, DeviceObstacle, DeviceShortage, JudgedDevice, RequestShortage, SelectorOwner, Together, UnusablePool,
};
use super::slice::{Device, PoolId, Slice};
use super::taints::untolerated;
use crate::node_info::NodeSpec;

/// Who has which device.
#[derive(Debug, Default)]
pub(crate) struct Holders(HashMap<PoolId, HashMap<String, Vec<Arc<Claim>>>>);

impl Holders {
    pub(crate) fn of(devices: &Devices) -> Self {
        let mut holders = Self::default();
        for claim in devices.claims() {
            let Some(allocation) = &claim.allocation else { continue };
            for result in held(&allocation.result).iter().filter(|result| !is_admin(result)) {
                let pool = PoolId { driver: Arc::from(result.driver.as_str()), pool: Arc::from(result.pool.as_str()) };
                holders.0.entry(pool).or_default().entry(result.device.clone()).or_default().push(Arc::clone(claim));
            }
        }
        holders
    }

    fn of_device(&self, pool: &PoolId, device: &str) -> Vec<DeviceHolder> {
        let claims = self.0.get(pool).and_then(|devices| devices.get(device)).into_iter().flatten();
        let holder = |claim: &Arc<Claim>| DeviceHolder {
            namespace: claim.namespace.to_string(),
            claim: claim.name.to_string(),
            pods: claim.pods.clone(),
        };
        claims.map(holder).collect()
    }
}

/// What keeps these claims from getting devices on a node.
pub(crate) fn shortage(devices: &Devices, holders: &Holders, node: &NodeSpec, claims: &[Arc<Claim>]) -> DeviceShortage {
    let pools = gather(devices, node);
    let judge = Judge { devices, holders, node, pools: &pools };
    let mut result = DeviceShortage::default();
    for pool in pools.iter().filter(|pool| pool.incomplete || pool.invalid) {
        let (driver, name) = (pool.id.driver.to_string(), pool.id.pool.to_string());
        result.unusable.push(UnusablePool { driver, pool: name, incomplete: pool.incomplete });
    }
    for claim in claims {
        for request in &claim.spec.requests {
            for (number, choice) in request.choices.iter().enumerate() {
                let reference = request.reference(number);
                result.requests.push(judge.request(claim, &request.name, reference, choice));
            }
        }
    }
    if result.short().next().is_none() {
        result.together = Some(judge.together(claims, &result.requests));
    }
    result
}

struct Judge<'a, 'b> {
    devices: &'a Devices,
    holders: &'b Holders,
    node: &'b NodeSpec,
    pools: &'b [Pool<'a>],
}

impl<'a> Judge<'a, '_> {
    /// The devices that can be given at all.
    fn all(&self) -> impl Iterator<Item = (&Pool<'a>, &'a Slice, usize, &'a Device)> {
        let usable = self.pools.iter().filter(|pool| !pool.incomplete && !pool.invalid);
        let slices = usable.flat_map(|pool| pool.slices.iter().map(move |slice| (pool, *slice)));
        slices.flat_map(|(pool, slice)| {
            slice.devices.iter().enumerate().map(move |(at, device)| (pool, slice, at, device))
        })
    }

    fn request(&self, claim: &Claim, request: &str, reference: String, choice: &Choice) -> RequestShortage {
        let class = self.devices.class(&choice.class);
        let judged = |(pool, slice, at, device): (&Pool<'a>, &'a Slice, usize, &'a Device)| JudgedDevice {
            driver: Arc::clone(&slice.pool.driver),
            pool: Arc::clone(&slice.pool.pool),
            device: Arc::clone(&device.name),
            shared: device.multiple || choice.admin,
            obstacle: class.and_then(|class| self.obstacle(claim, request, choice, class, pool, slice, at, device)),
        };
        RequestShortage {
            claim: claim.name.to_string(),
            request: reference,
            class: choice.class.clone(),
            wanted: match choice.mode {
                Mode::Exactly(count) => Some(usize::try_from(count).unwrap_or(0)),
                Mode::All | Mode::Unknown => None,
            },
            devices: class.map_or_else(Vec::new, |_| self.all().map(judged).collect()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a device is judged by, once")]
    fn obstacle(
        &self,
        claim: &Claim,
        request: &str,
        choice: &Choice,
        class: &Class,
        pool: &Pool<'a>,
        slice: &'a Slice,
        at: usize,
        device: &'a Device,
    ) -> Option<DeviceObstacle> {
        let of_class = class.selectors.iter().map(|expression| (expression, true));
        let of_request = choice.selectors.iter().map(|expression| (expression, false));
        for (expression, is_class) in of_class.chain(of_request) {
            let owner = || if is_class { SelectorOwner::Class(class.name.clone()) } else { SelectorOwner::Request };
            let Some(expression) = expression else { continue };
            if let Some(obstacle) = self.selector(slice, at, device, expression, owner) {
                return Some(obstacle);
            }
        }
        if slice.per_device && !device.reach.covers(self.node) {
            return Some(DeviceObstacle::OtherNode);
        }
        if !choice.admin && pool.taken.is_some_and(|taken| taken.alone.contains_key(&device.name)) {
            return Some(DeviceObstacle::Taken { by: self.holders.of_device(&pool.id, &device.name) });
        }
        let taints: Vec<String> = untolerated(&device.taints, choice.tolerations.as_deref()).map(taint).collect();
        if !taints.is_empty() {
            return Some(DeviceObstacle::Tainted { taints });
        }
        let compared = claim
            .spec
            .constraints
            .iter()
            .filter(|constraint| named(constraint.requests.as_deref().unwrap_or_default(), request, &choice.name));
        let mut attributes = compared.filter_map(|it| it.match_attribute.as_ref().or(it.distinct_attribute.as_ref()));
        if let Some(attribute) = attributes.find(|name| value_of(device, &slice.pool.driver, name).is_none()) {
            return Some(DeviceObstacle::NoAttribute { attribute: attribute.clone() });
        }
        match capacity::lack(device, &choice.capacity, in_use(pool, device)) {
            None => {}
            Some(Lack::Unknown(name)) => return Some(DeviceObstacle::NoCapacity { name }),
            Some(Lack::Forbidden { name, wanted }) => {
                return Some(DeviceObstacle::CapacityPolicy { name, wanted: wanted.to_string() });
            }
            Some(Lack::TooLittle { name, wanted, left, total }) => {
                let (wanted, left, total) = (wanted.to_string(), left.to_string(), total.to_string());
                return Some(DeviceObstacle::Capacity { name, wanted, left, total });
            }
        }
        let shared_already = device.multiple && pool.taken.is_some_and(|taken| taken.shared.contains_key(&device.name));
        if shared_already || device.consumes.is_empty() {
            return None;
        }
        let (set, counter, wanted, left) = Left::of(pool).lacks(device)?;
        Some(DeviceObstacle::Counter { set, counter, wanted: wanted.to_string(), left: left.to_string() })
    }

    fn selector(
        &self,
        slice: &Slice,
        at: usize,
        device: &Device,
        expression: &Arc<str>,
        owner: impl Fn() -> SelectorOwner,
    ) -> Option<DeviceObstacle> {
        let failed = |error: String| {
            Some(DeviceObstacle::SelectorFailed { owner: owner(), expression: expression.to_string(), error })
        };
        let compiled = match self.devices.compile(expression) {
            Ok(compiled) => compiled,
            Err(error) => return failed(error),
        };
        match slice.selected(at, expression, compiled.as_ref()) {
            Ok(true) => None,
            Err(error) => failed(error),
            Ok(false) => {
                let facts = DeviceFacts {
                    driver: &slice.pool.driver,
                    multiple: device.multiple,
                    attributes: &device.attributes,
                    capacity: &device.capacity,
                };
                let found = compiled.reads(&facts);
                Some(DeviceObstacle::NotSelected { owner: owner(), expression: expression.to_string(), found })
            }
        }
    }

    /// Why requests that could each be met alone are not met together.
    fn together(&self, claims: &[Arc<Claim>], requests: &[RequestShortage]) -> Together {
        type Name<'n> = (&'n PoolId, &'n str);
        let mut free: BTreeMap<Name<'_>, (&Slice, &Device)> = BTreeMap::new();
        for (pool, slice, _, device) in self.all() {
            free.insert((&pool.id, &*device.name), (slice, device));
        }
        let is_free = |of: &dyn Fn(&RequestShortage) -> bool| -> BTreeSet<(&str, &str, &str)> {
            let devices = requests.iter().filter(|request| of(request)).flat_map(|request| &request.devices);
            let free = devices.filter(|device| device.obstacle.is_none());
            free.map(|device| (&*device.driver, &*device.pool, &*device.device)).collect()
        };
        for claim in claims {
            for constraint in &claim.spec.constraints {
                let about = constraint.requests.as_deref().unwrap_or_default();
                let (attribute, distinct) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
                    (Some(attribute), _) => (attribute, false),
                    (None, Some(attribute)) => (attribute, true),
                    (None, None) => continue,
                };
                let mut wanted = 0_usize;
                let mut concerned = BTreeSet::new();
                for request in &claim.spec.requests {
                    let choices = request.choices.iter().enumerate();
                    let named = choices.filter(|(_, choice)| named(about, &request.name, &choice.name));
                    let references: Vec<String> = named.map(|(number, _)| request.reference(number)).collect();
                    let numbers =
                        requests.iter().filter(|it| *claim.name == it.claim && references.contains(&it.request));
                    let least = numbers.map(|it| it.wanted.unwrap_or_else(|| it.free())).min();
                    wanted = wanted.saturating_add(least.unwrap_or(0));
                    concerned.extend(references);
                }
                let devices = is_free(&|request| *claim.name == request.claim && concerned.contains(&request.request));
                let mut values: BTreeMap<String, usize> = BTreeMap::new();
                for ((pool, name), (slice, device)) in &free {
                    if devices.contains(&(&*pool.driver, &*pool.pool, *name))
                        && let Some(value) = value_of(device, &slice.pool.driver, attribute)
                    {
                        let count = values.entry(value).or_default();
                        *count = count.saturating_add(1);
                    }
                }
                let most = if distinct { values.len() } else { values.values().copied().max().unwrap_or(0) };
                if most < wanted {
                    let values = values.into_iter().collect();
                    let (claim, attribute) = (claim.name.to_string(), attribute.clone());
                    return Together::Constraint { claim, attribute, distinct, wanted, values };
                }
            }
        }
        // Of alternatives the smallest is counted.
        let mut least: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for request in requests {
            let base = request.request.split('/').next().unwrap_or_default();
            let wanted = request.wanted.unwrap_or_else(|| request.free());
            let of_request = least.entry((&request.claim, base)).or_insert(wanted);
            *of_request = wanted.min(*of_request);
        }
        let wanted = least.values().sum();
        let any_shared = requests.iter().flat_map(|request| &request.devices).any(|device| device.shared);
        let free = is_free(&|_| true).len();
        if !any_shared && free < wanted { Together::Contest { wanted, free } } else { Together::Combination }
    }
}

fn taint(taint: &DeviceTaint) -> String {
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    format!("{}{}:{}", taint.key, value.map(|value| format!("={value}")).unwrap_or_default(), taint.effect)
}
