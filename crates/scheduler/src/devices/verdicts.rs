//! Verdicts on nodes for the claims of a pod. They are kept for claims that ask for the same, until something about a
//! node or its devices changes.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use k8s_openapi::api::resource::v1::AllocationResult;

use super::allocator::{Failure, Found, allocate};
use super::claim::Claim;
use super::extended::ExtendedClaim;
use super::inventory::Devices;
use super::judge::{self, Holders};
use super::outcome;
use super::shortage::DeviceShortage;
use super::subject::PodClaims;
use crate::ids::NodeId;
use crate::node_info::NodeInfo;

/// Sets of claims for which verdicts are kept.
const KEPT: usize = 64;
/// Alternatives that a request can have; the first counts most.
const MAX_ALTERNATIVES: u32 = 8;

/// Whether the claims that have no devices yet can be given some on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Unknown,
    /// They can, so well.
    Fits(u32),
    NoDevices,
    InvalidPools,
}

/// The verdicts for claims that ask for the same.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    position: u64,
    epoch: u64,
    last_used: u64,
}

/// The verdicts that are kept, by what the claims ask for.
#[derive(Debug, Default)]
pub(crate) struct DeviceCache {
    by_specs: HashMap<Vec<u64>, Cells>,
    clock: u64,
}

impl DeviceCache {
    fn key(claims: &PodClaims) -> Vec<u64> {
        claims.pending.iter().map(|claim| claim.spec.id).collect()
    }

    /// Hands out what is kept, to be put back with [`Self::put_back`]. `changed_since` lists nodes that changed since
    /// a position in the log, `None` if that is too long ago.
    pub(crate) fn take<'a>(
        &mut self,
        claims: &PodClaims,
        epoch: u64,
        position: u64,
        nodes: usize,
        changed_since: impl FnOnce(u64) -> Option<&'a [NodeId]>,
    ) -> Cells {
        let mut cells = self.by_specs.remove(&Self::key(claims)).unwrap_or_default();
        let changed = if cells.epoch == epoch { changed_since(cells.position) } else { None };
        match changed.filter(|_| !cells.cells.is_empty()) {
            None => cells.cells.clear(),
            Some(changed) => {
                for &node in changed {
                    if let Some(cell) = cells.cells.get_mut(node as usize) {
                        *cell = Cell::Unknown;
                    }
                }
            }
        }
        cells.cells.resize(nodes, Cell::Unknown);
        cells.epoch = epoch;
        cells.position = position;
        cells
    }

    pub(crate) fn put_back(&mut self, claims: &PodClaims, mut cells: Cells) {
        self.clock += 1;
        cells.last_used = self.clock;
        if self.by_specs.len() >= KEPT {
            let oldest = self.by_specs.iter().min_by_key(|(_, cells)| cells.last_used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.by_specs.remove(&key);
            }
        }
        self.by_specs.insert(Self::key(claims), cells);
    }
}

/// What the plugin says of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits(u32),
    NoDevices,
    InvalidPools,
    /// This claim of the pod has devices that cannot be used there.
    NotThere(usize),
    /// The pod cannot be scheduled before somebody mends a claim or a class.
    Broken(String),
}

/// The claims of the pod that looks for a node.
#[derive(Debug)]
pub(crate) struct ClaimCycle<'a> {
    pub(crate) devices: &'a Devices,
    pub(crate) claims: &'a PodClaims,
    cells: RefCell<Cells>,
    /// Claims whose devices cannot be used on some node.
    unavailable: RefCell<BTreeSet<usize>>,
    /// Who has which device, once somebody asked.
    holders: OnceCell<Holders>,
}

impl<'a> ClaimCycle<'a> {
    pub(crate) fn new(devices: &'a Devices, claims: &'a PodClaims, cells: Cells) -> Self {
        Self { devices, claims, cells: RefCell::new(cells), unavailable: RefCell::default(), holders: OnceCell::new() }
    }

    pub(crate) fn into_cells(self) -> Cells {
        self.cells.into_inner()
    }

    /// What keeps the claims from getting devices on a node.
    pub(crate) fn shortage(&self, node: &NodeInfo) -> DeviceShortage {
        let holders = self.holders.get_or_init(|| Holders::of(self.devices));
        let (claims, _) = self.wanted(node);
        judge::shortage(self.devices, holders, &node.spec, &claims)
    }

    /// Whether a node will do.
    pub(crate) fn verdict(&self, id: NodeId, node: &NodeInfo) -> Verdict {
        let not_there = self.not_there(node);
        if let Some(first) = not_there.first() {
            let first = *first;
            self.unavailable.borrow_mut().extend(not_there);
            return match self.allocatable(id, node) {
                Verdict::Fits(_) => Verdict::NotThere(first),
                other => other,
            };
        }
        self.allocatable(id, node)
    }

    /// The claims whose devices cannot be used on a node.
    fn not_there(&self, node: &NodeInfo) -> Vec<usize> {
        if self.claims.pending.len() == self.claims.all.len() {
            return Vec::new();
        }
        let spec = &node.spec;
        let elsewhere = |claim: &super::claim::Claim| {
            let terms = claim.allocation.as_ref().and_then(|allocation| allocation.terms.as_ref());
            let lost = claim.allocation.is_some() && claim.is_of_no_use();
            lost || terms.is_some_and(|terms| !terms.iter().any(|term| term.matches(&spec.labels, &spec.name)))
        };
        let all = self.claims.all.iter().enumerate();
        all.filter(|(_, claim)| elsewhere(claim)).map(|(at, _)| at).collect()
    }

    fn allocatable(&self, id: NodeId, node: &NodeInfo) -> Verdict {
        if self.claims.extended.is_some() {
            // Nodes that have the resource themselves differ from those that have devices: nothing is kept.
            let (claims, _) = self.wanted(node);
            return match allocate(self.devices, &node.spec, &claims) {
                Ok(found) => Verdict::Fits(self.merit(&found)),
                Err(Failure::NoDevices) => Verdict::NoDevices,
                Err(Failure::InvalidPools) => Verdict::InvalidPools,
                Err(Failure::Broken(message)) => Verdict::Broken(message),
            };
        }
        if self.claims.pending.is_empty() {
            return Verdict::Fits(0);
        }
        let known = self.cells.borrow().cells.get(id as usize).copied().unwrap_or(Cell::Unknown);
        let cell = match known {
            Cell::Unknown => match allocate(self.devices, &node.spec, &self.claims.pending) {
                Ok(found) => Cell::Fits(self.merit(&found)),
                Err(Failure::NoDevices) => Cell::NoDevices,
                Err(Failure::InvalidPools) => Cell::InvalidPools,
                // Its message names one claim: it is not kept for others.
                Err(Failure::Broken(message)) => return Verdict::Broken(message),
            },
            known => known,
        };
        if let Some(place) = self.cells.borrow_mut().cells.get_mut(id as usize) {
            *place = cell;
        }
        match cell {
            Cell::Fits(merit) => Verdict::Fits(merit),
            Cell::InvalidPools => Verdict::InvalidPools,
            Cell::NoDevices | Cell::Unknown => Verdict::NoDevices,
        }
    }

    /// How well alternatives are met: the earlier the one that is taken, the better.
    fn merit(&self, found: &Found<'_>) -> u32 {
        let each = self.claims.pending.iter().zip(&found.chosen);
        let of_claim = |(claim, chosen): (&std::sync::Arc<super::claim::Claim>, &Vec<usize>)| {
            let requests = claim.spec.requests.iter().zip(chosen).filter(|(request, _)| request.alternatives);
            requests
                .map(|(_, &choice)| MAX_ALTERNATIVES.saturating_sub(u32::try_from(choice).unwrap_or(u32::MAX)))
                .sum::<u32>()
        };
        each.map(of_claim).sum()
    }

    /// What alternatives count that claims were given before: the same on every node.
    pub(crate) fn merit_before(&self) -> u32 {
        let allocated = self.claims.all.iter().filter_map(|claim| Some((claim, claim.allocation.as_ref()?)));
        let of_claim = |(claim, allocation): (&std::sync::Arc<super::claim::Claim>, &super::claim::Allocation)| {
            let results = allocation.result.devices.as_ref().and_then(|devices| devices.results.as_ref());
            let taken: BTreeSet<_> = results.into_iter().flatten().map(|result| result.request.as_str()).collect();
            let requests = claim.spec.requests.iter().filter(|request| request.alternatives);
            let choices = requests.flat_map(|request| {
                let numbered = (0..request.choices.len()).zip(0_u32..);
                numbered.map(|(choice, number)| (request.reference(choice), number))
            });
            choices
                .filter(|(reference, _)| taken.contains(reference.as_str()))
                .map(|(_, number)| MAX_ALTERNATIVES.saturating_sub(number))
                .sum::<u32>()
        };
        allocated.map(of_claim).sum()
    }

    /// The claims that are to be given devices on a node, the one for extended resources last.
    fn wanted(&self, node: &NodeInfo) -> (Vec<Arc<Claim>>, Option<Arc<ExtendedClaim>>) {
        let extended = self.claims.extended.as_ref().and_then(|extended| extended.claim_for(&node.spec));
        let own = extended.iter().map(|extended| Arc::clone(&extended.claim));
        (self.claims.pending.iter().cloned().chain(own).collect(), extended)
    }

    /// What each claim that has no devices is given on a node; and the one for extended resources, if there is one.
    pub(crate) fn results(
        &self,
        node: &NodeInfo,
    ) -> (Vec<AllocationResult>, Option<(Arc<ExtendedClaim>, AllocationResult)>) {
        let (claims, extended) = self.wanted(node);
        let mut results = allocate(self.devices, &node.spec, &claims)
            .map_or_else(|_| Vec::new(), |found| outcome::results(self.devices, &node.spec.name, &claims, &found));
        let own = extended.and_then(|extended| Some((extended, results.pop()?)));
        (results, own)
    }

    /// A claim whose devices are in the way and that no pod uses: it can get others.
    pub(crate) fn to_deallocate(&self) -> Option<(String, String)> {
        let unavailable = self.unavailable.borrow();
        let claims = unavailable.iter().filter_map(|&at| self.claims.all.get(at));
        let unused = |claim: &&std::sync::Arc<super::claim::Claim>| match claim.reserved_for.as_slice() {
            [] => true,
            [only] => *only == self.claims.pod_uid,
            _ => false,
        };
        let claim = claims.into_iter().find(unused)?;
        Some((claim.namespace.to_string(), claim.name.to_string()))
    }
}
