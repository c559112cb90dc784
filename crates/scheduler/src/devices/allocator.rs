//! Which devices claims get on a node: every request against every device, in order, until all have what they ask for.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
// Allocate, validateDeviceRequest, allocateOne, allocateDevice (v1.36)

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity;
use super::claim::{Choice, Claim, Mode};
use super::constraint::{Constraint, Taker};
use super::counters::Left;
use super::inventory::{Class, Devices};
use super::pools::{Pool, gather};
use super::slice::{Counters, Device, Slice};
use super::taints::untolerated;
use crate::node_info::NodeSpec;

/// Devices that a claim can hold.
pub(crate) const MAX_RESULTS: usize = 32;
/// Devices that are looked at before the search is given up; kube-scheduler gives up after ten seconds.
const MAX_STEPS: usize = 200_000;

/// Why claims cannot be allocated on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There are not the devices.
    NoDevices,
    /// There might be, but some pool contradicts itself.
    InvalidPools,
    /// Something is wrong with a claim or a class: there is no use in looking at other nodes.
    Broken(String),
}

/// A device by its place in the pools of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct At {
    pub(crate) pool: usize,
    pub(crate) slice: usize,
    pub(crate) device: usize,
}

/// A device that a request was given.
#[derive(Debug)]
pub(crate) struct Pick<'a> {
    pub(crate) at: At,
    pub(crate) slice: &'a Slice,
    pub(crate) device: &'a Device,
    /// Number of the request, and of its choice.
    pub(crate) request: usize,
    pub(crate) choice: usize,
    /// What it consumes of a device that others may share.
    pub(crate) consumed: Option<Counters>,
    /// Whether it drew on its pool's counters.
    counted: bool,
}

/// What is given to the claims.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// By claim.
    pub(crate) picks: Vec<Vec<Pick<'a>>>,
    /// The choice that was taken, by claim and request.
    pub(crate) chosen: Vec<Vec<usize>>,
}

/// A request, made ready for a node.
struct Ready<'a> {
    class: &'a Arc<Class>,
    number: usize,
    /// The devices of a request for all.
    all: Option<Vec<At>>,
}

#[derive(Debug, Clone, Copy)]
struct Position {
    claim: usize,
    request: usize,
    choice: usize,
    device: usize,
}

enum Halt {
    /// More devices than a claim can hold.
    Exceeded,
    Broken(String),
}

type Step = Result<bool, Halt>;

/// Looks for devices for claims that have none yet.
pub(crate) fn allocate<'a>(
    devices: &'a Devices,
    node: &'a NodeSpec,
    claims: &'a [Arc<Claim>],
) -> Result<Found<'a>, Failure> {
    let pools = gather(devices, node);
    let mut ready = Vec::with_capacity(claims.len());
    let mut constraints = Vec::with_capacity(claims.len());
    for claim in claims {
        ready.push(prepare(devices, node, &pools, claim).map_err(Failure::Broken)?);
        let numbered = claim.spec.constraints.iter().enumerate();
        let of_claim: Result<Vec<_>, _> = numbered
            .map(|(at, constraint)| {
                let empty = || {
                    format!("claim {}, constraint #{at}: empty constraint (unsupported constraint type?)", claim.key())
                };
                Constraint::of(constraint).ok_or_else(empty)
            })
            .collect();
        constraints.push(of_claim.map_err(Failure::Broken)?);
    }
    let left = pools.iter().map(|_| OnceCell::new()).collect();
    let mut search = Search {
        devices,
        node,
        claims,
        pools: &pools,
        ready: &ready,
        constraints,
        left,
        allocating: BTreeMap::new(),
        found: Found {
            picks: claims.iter().map(|_| Vec::new()).collect(),
            chosen: claims.iter().map(|claim| vec![0; claim.spec.requests.len()]).collect(),
        },
        steps: 0,
    };
    let first = Position { claim: 0, request: 0, choice: 0, device: 0 };
    match search.one(first, false, At::default()) {
        Ok(true) => Ok(search.found),
        Ok(false) if pools.iter().any(|pool| pool.invalid) => Err(Failure::InvalidPools),
        Ok(false) | Err(Halt::Exceeded) => Err(Failure::NoDevices),
        Err(Halt::Broken(message)) => Err(Failure::Broken(message)),
    }
}

/// Makes the requests of a claim ready, by request and choice.
fn prepare<'a>(
    devices: &'a Devices,
    node: &NodeSpec,
    pools: &[Pool<'a>],
    claim: &Claim,
) -> Result<Vec<Vec<Ready<'a>>>, String> {
    let mut least = 0_usize;
    let mut requests = Vec::with_capacity(claim.spec.requests.len());
    for request in &claim.spec.requests {
        let choices: Result<Vec<_>, _> =
            request.choices.iter().map(|choice| ready(devices, node, pools, claim, choice)).collect();
        let choices = choices?;
        least = least.saturating_add(choices.iter().map(|choice| choice.number).min().unwrap_or(0));
        requests.push(choices);
    }
    if least > MAX_RESULTS {
        let key = claim.key();
        return Err(format!(
            "claim {key}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
        ));
    }
    Ok(requests)
}

fn ready<'a>(
    devices: &'a Devices,
    node: &NodeSpec,
    pools: &[Pool<'a>],
    claim: &Claim,
    choice: &Choice,
) -> Result<Ready<'a>, String> {
    let about = || format!("claim {}, request {}", claim.key(), choice.name);
    if let Some(at) = choice.selectors.iter().position(Option::is_none) {
        return Err(format!("{}, selector #{at}: CEL expression empty (unsupported selector type?)", about()));
    }
    let Some(class) = devices.class(&choice.class) else {
        let class = &choice.class;
        return Err(format!(
            "{}: could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found",
            about()
        ));
    };
    let number = match choice.mode {
        Mode::Exactly(count) => usize::try_from(count).unwrap_or(0),
        Mode::Unknown => return Err(format!("{}: unsupported count mode", about())),
        Mode::All => {
            let mut all = Vec::new();
            for (at, pool) in pools.iter().enumerate() {
                let state = match pool {
                    Pool { incomplete: true, .. } => "being updated",
                    Pool { invalid: true, .. } => "invalid",
                    _ => {
                        all_of(devices, node, at, pool, claim, choice, class, &mut all)?;
                        continue;
                    }
                };
                let (driver, name) = (&pool.id.driver, &pool.id.pool);
                return Err(format!(
                    "{}: asks for all devices, but resource pool {driver}/{name} is currently {state}",
                    about()
                ));
            }
            return Ok(Ready { class, number: all.len(), all: Some(all) });
        }
    };
    Ok(Ready { class, number, all: None })
}

#[expect(clippy::too_many_arguments, reason = "what a device is judged by, once")]
fn all_of(
    devices: &Devices,
    node: &NodeSpec,
    at: usize,
    pool: &Pool<'_>,
    claim: &Claim,
    choice: &Choice,
    class: &Class,
    all: &mut Vec<At>,
) -> Result<(), String> {
    for (slice_at, slice) in pool.slices.iter().enumerate() {
        for (device_at, device) in slice.devices.iter().enumerate() {
            if selectable(devices, node, slice, device_at, claim, choice, class)?
                && capacity::suffices(device, &choice.capacity, in_use(pool, device))
            {
                all.push(At { pool: at, slice: slice_at, device: device_at });
            }
        }
    }
    Ok(())
}

/// What claims that are allocated consume of a device.
pub(crate) fn in_use<'a>(pool: &Pool<'a>, device: &Device) -> impl Iterator<Item = &'a Counters> + Clone + use<'a> {
    pool.taken.and_then(|taken| taken.shared.get(&device.name)).map(|(_, used)| used).into_iter()
}

/// Whether a device is one that a request asks for, and can be used on the node.
pub(crate) fn selectable(
    devices: &Devices,
    node: &NodeSpec,
    slice: &Slice,
    device: usize,
    claim: &Claim,
    choice: &Choice,
    class: &Class,
) -> Result<bool, String> {
    for (at, expression) in class.selectors.iter().enumerate() {
        let about = || format!("class {}: selector #{at}", class.name);
        if !selects(devices, slice, device, expression.as_ref(), about)? {
            return Ok(false);
        }
    }
    for (at, expression) in choice.selectors.iter().enumerate() {
        let about = || format!("claim {}: selector #{at}", claim.key());
        if !selects(devices, slice, device, expression.as_ref(), about)? {
            return Ok(false);
        }
    }
    let here = || slice.devices.get(device).is_some_and(|device| device.reach.covers(node));
    Ok(!slice.per_device || here())
}

/// Whether an expression selects a device.
pub(crate) fn selects(
    devices: &Devices,
    slice: &Slice,
    device: usize,
    expression: Option<&Arc<str>>,
    about: impl Fn() -> String,
) -> Result<bool, String> {
    let Some(expression) = expression else {
        return Err(format!("{}: CEL expression empty (unsupported selector type?)", about()));
    };
    let compiled = devices.compile(expression).map_err(|error| format!("{}: CEL compile error: {error}", about()))?;
    let selected = slice.selected(device, expression, compiled.as_ref());
    selected.map_err(|error| format!("{}: CEL runtime error: {error}", about()))
}

struct Search<'a, 'b> {
    devices: &'a Devices,
    node: &'a NodeSpec,
    claims: &'a [Arc<Claim>],
    pools: &'b [Pool<'a>],
    /// By claim, request and choice.
    ready: &'b [Vec<Vec<Ready<'a>>>],
    constraints: Vec<Vec<Constraint<'a>>>,
    /// What is left of the counters of each pool, once somebody asked.
    left: Vec<OnceCell<Left<'a>>>,
    /// Which claims are being given a device.
    allocating: BTreeMap<At, Vec<usize>>,
    found: Found<'a>,
    steps: usize,
}

impl<'a> Search<'a, '_> {
    /// Gives the device that is next in turn, and all after it. `in_choice`: of a request with alternatives, this one is
    /// tried; `start`: where to look first, for the order of devices within a request does not matter.
    fn one(&mut self, at: Position, in_choice: bool, start: At) -> Step {
        self.count_step()?;
        let Some(requests) = self.ready.get(at.claim) else { return Ok(true) };
        let Some(choices) = requests.get(at.request) else {
            let next = Position { claim: at.claim + 1, request: 0, choice: 0, device: 0 };
            return match self.one(next, false, At::default()) {
                // Another choice in this claim may leave the next one what it needs.
                Err(Halt::Exceeded) => Ok(false),
                other => other,
            };
        };
        let request = &self.claims[at.claim].spec.requests[at.request];
        if request.alternatives && !in_choice {
            let mut exceeded = true;
            for choice in 0..choices.len() {
                match self.one(Position { choice, ..at }, true, At::default()) {
                    Err(Halt::Exceeded) => {}
                    Ok(true) => {
                        self.found.chosen[at.claim][at.request] = choice;
                        return Ok(true);
                    }
                    Ok(false) => exceeded = false,
                    broken @ Err(Halt::Broken(_)) => return broken,
                }
            }
            return if exceeded { Err(Halt::Exceeded) } else { Ok(false) };
        }
        let Some(ready) = choices.get(at.choice) else { return Ok(false) };
        if ready.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(false);
        }
        if at.device >= ready.number {
            let next = Position { claim: at.claim, request: at.request + 1, choice: 0, device: 0 };
            return self.one(next, false, At::default());
        }
        let missing = ready.number - at.device;
        if self.found.picks[at.claim].len().saturating_add(missing) > MAX_RESULTS {
            return Err(Halt::Exceeded);
        }
        let next = Position { device: at.device + 1, ..at };
        if let Some(all) = &ready.all {
            let Some(place) = all.get(at.device) else { return Ok(false) };
            if !self.take(at, *place, true)? {
                return Ok(false);
            }
            return self.or_give_back(at, next, in_choice, At::default());
        }
        for (pool_at, pool) in self.pools.iter().enumerate().skip(start.pool) {
            if pool.incomplete || pool.invalid {
                continue;
            }
            let first_slice = if pool_at == start.pool { start.slice } else { 0 };
            for (slice_at, slice) in pool.slices.iter().enumerate().skip(first_slice) {
                let first = if (pool_at, slice_at) == (start.pool, start.slice) { start.device } else { 0 };
                for device in first..slice.devices.len() {
                    let place = At { pool: pool_at, slice: slice_at, device };
                    if !self.offered(at, place)? || !self.take(at, place, false)? {
                        continue;
                    }
                    if self.or_give_back(at, next, in_choice, At { device: device + 1, ..place })? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Counts what is looked at, and gives up where it is too much.
    fn count_step(&mut self) -> Result<(), Halt> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let node = &self.node.name;
            return Err(Halt::Broken(format!("node {node}: timed out trying to allocate devices")));
        }
        Ok(())
    }

    /// Goes on with a device taken, and gives it back if that leads nowhere.
    fn or_give_back(&mut self, at: Position, next: Position, in_choice: bool, start: At) -> Step {
        let step = self.one(next, in_choice, start);
        if !matches!(step, Ok(true)) {
            self.give_back(at);
        }
        step
    }

    fn choice(&self, at: Position) -> (&'a Claim, &'a Choice) {
        let claim = self.claims[at.claim].as_ref();
        (claim, &claim.spec.requests[at.request].choices[at.choice])
    }

    fn device(&self, place: At) -> (&'a Slice, &'a Device) {
        let slice = self.pools[place.pool].slices[place.slice];
        (slice, &slice.devices[place.device])
    }

    /// Whether somebody has a device, or is being given it.
    fn in_the_way(&self, at: Position, place: At) -> bool {
        let (_, choice) = self.choice(at);
        let (_, device) = self.device(place);
        let allocating = self.allocating.get(&place);
        if choice.admin {
            return allocating.is_some_and(|claims| claims.contains(&at.claim));
        }
        let taken = self.pools[place.pool].taken;
        taken.is_some_and(|taken| taken.alone.contains_key(&device.name))
            || allocating.is_some_and(|claims| !claims.is_empty())
    }

    /// Whether a device could be given to a request, what other requests were given apart.
    fn offered(&mut self, at: Position, place: At) -> Step {
        self.count_step()?;
        if self.in_the_way(at, place) {
            return Ok(false);
        }
        let (claim, choice) = self.choice(at);
        let (slice, _) = self.device(place);
        let class = self.ready[at.claim][at.request][at.choice].class;
        selectable(self.devices, self.node, slice, place.device, claim, choice, class).map_err(Halt::Broken)
    }

    /// Gives a device to a request if nothing speaks against it.
    fn take(&mut self, at: Position, place: At, must: bool) -> Step {
        let (claim, choice) = self.choice(at);
        let (slice, device) = self.device(place);
        if (!device.multiple || !choice.admin) && self.in_the_way(at, place) {
            return Ok(false);
        }
        if untolerated(&device.taints, choice.tolerations.as_deref()).next().is_some() {
            return Ok(false);
        }
        let pool = &self.pools[place.pool];
        let picks = || self.found.picks.iter().flatten();
        let given = picks().filter(|pick| pick.at == place).filter_map(|pick| pick.consumed.as_ref());
        if !capacity::suffices(device, &choice.capacity, in_use(pool, device).chain(given)) {
            return Ok(false);
        }
        let shared_already = device.multiple
            && (pool.taken.is_some_and(|taken| taken.shared.contains_key(&device.name))
                || picks().any(|pick| pick.at == place));
        let counted = !shared_already && !device.consumes.is_empty();
        if counted {
            self.left[place.pool].get_or_init(|| Left::of(pool));
            if !self.left[place.pool].get_mut().is_some_and(|left| left.take(device)) {
                return Ok(false);
            }
        }
        let taker = taker(claim, at, choice);
        for number in 0..self.constraints[at.claim].len() {
            if self.constraints[at.claim][number].add(taker, &slice.pool.driver, device) {
                continue;
            }
            self.constraints[at.claim][..number].iter_mut().for_each(|constraint| constraint.remove(taker));
            if counted && let Some(left) = self.left[place.pool].get_mut() {
                left.give_back(device);
            }
            if must {
                let (key, name) = (claim.key(), &choice.name);
                let id = format!("{}/{}/{}", slice.pool.driver, slice.pool.pool, device.name);
                return Err(Halt::Broken(format!(
                    "claim {key}, request {name}: cannot add device {id} because a claim constraint would not be satisfied"
                )));
            }
            return Ok(false);
        }
        if !device.multiple {
            self.allocating.entry(place).or_default().push(at.claim);
        }
        let consumed = device.multiple.then(|| capacity::consumed(device, &choice.capacity));
        let pick = Pick { at: place, slice, device, request: at.request, choice: at.choice, consumed, counted };
        self.found.picks[at.claim].push(pick);
        Ok(true)
    }

    /// Takes back the device that a claim was given last.
    fn give_back(&mut self, at: Position) {
        let Some(pick) = self.found.picks[at.claim].pop() else { return };
        let (claim, choice) = self.choice(at);
        let taker = taker(claim, at, choice);
        self.constraints[at.claim].iter_mut().for_each(|constraint| constraint.remove(taker));
        if let Some(claims) = self.allocating.get_mut(&pick.at)
            && let Some(own) = claims.iter().rposition(|claim| *claim == at.claim)
        {
            claims.remove(own);
        }
        if pick.counted
            && let Some(left) = self.left[pick.at.pool].get_mut()
        {
            left.give_back(pick.device);
        }
    }
}

fn taker<'a>(claim: &'a Claim, at: Position, choice: &'a Choice) -> Taker<'a> {
    let request = &claim.spec.requests[at.request];
    Taker { request: &request.name, choice: request.alternatives.then_some(choice.name.as_str()) }
}
