//! `az aks nodepool manual-scale …`: the sizes of single virtual machines and how many nodes each has, in az's words.

use toml::{Table, Value as Key};

use super::clusters::{Clusters, PoolChanges};
use super::known::Known;
use super::nodepool::{changed, cluster, idle, is_virtual_machines, shown};
use super::pool_arguments::{size, split};
use crate::state::operation::OperationKind;
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;

/// `add`.
pub(super) fn add(on: &dyn Clusters, given: &Arguments) -> Answer {
    let change = |sizes: &mut Table, location: &str| {
        let sizes_given = split(given.needed("--vm-sizes"));
        let [wanted] = sizes_given.as_slice() else {
            return Err(Refusal::new("We only accept single sku size for manual profile."));
        };
        let wanted = size(wanted, location)?;
        if sizes.contains_key(&wanted) {
            let message =
                format!("klab's az adds no second profile of size {wanted}: AKS does not say what that means.");
            return Err(
                Refusal::new(message).advise("'az aks nodepool manual-scale update' changes the one that there is.")
            );
        }
        sizes.insert(wanted, given.number("--node-count").unwrap_or_default().into());
        Ok(())
    };
    perform(on, given, "Cannot add manual to a non-virtualmachines node pool.", change)
}

/// `update`.
pub(super) fn update(on: &dyn Clusters, given: &Arguments) -> Answer {
    let (wanted, count) = (given.word("--vm-sizes"), given.number("--node-count"));
    if wanted.is_none() && count.is_none() {
        return Err(Refusal::new("specify --vm-sizes or --node-count or both."));
    }
    let change = |sizes: &mut Table, location: &str| {
        let current = single(given.needed("--current-vm-sizes"))?;
        let Some(wanted) = wanted else {
            return Err(Refusal::new("We only accept single sku size for manual profile. None is invalid.")
                .advise("az asks for --vm-sizes also where only the number changes: name the size that there is."));
        };
        let (wanted, name) = (single(wanted)?, found(sizes, &current, given)?);
        let before = sizes.remove(&name).unwrap_or_else(|| 1.into());
        // az takes 0 for no number at all.
        let nodes = count.filter(|count| *count != 0).map_or(before, Key::from);
        let wanted = size(&wanted, location)?;
        if sizes.insert(wanted.clone(), nodes).is_some() {
            let message = format!(
                "klab's az makes no two profiles of size {wanted} of one pool: AKS does not say what that means."
            );
            return Err(Refusal::new(message));
        }
        Ok(())
    };
    perform(on, given, "Cannot update manual in a non-virtualmachines node pool.", change)
}

/// `delete`.
pub(super) fn delete(on: &dyn Clusters, given: &Arguments) -> Answer {
    if !given.has("--yes") && !on.agrees("Are you sure you want to perform this operation?") {
        return Err(Refusal::new("Operation cancelled."));
    }
    let change = |sizes: &mut Table, _: &str| {
        let current = single(given.needed("--current-vm-sizes"))?;
        sizes.remove(&found(sizes, &current, given)?);
        if sizes.is_empty() {
            let name = given.needed("--nodepool-name");
            return Err(Refusal::new(format!("Cannot delete the last manual profile in node pool {name}. ")));
        }
        Ok(())
    };
    perform(on, given, "Cannot delete manual in a non-virtualmachines node pool.", change)
}

/// Changes the sizes of a pool, which is of type VirtualMachines or else refused in these words.
fn perform(
    on: &dyn Clusters,
    given: &Arguments,
    refusal: &str,
    change: impl FnOnce(&mut Table, &str) -> Result<(), Refusal>,
) -> Answer {
    let name = given.needed("--nodepool-name");
    let known: Known = cluster(on, given)?;
    let mut pools: Box<dyn PoolChanges + '_> = idle(on, &known, given, name, OperationKind::Scaling)?;
    if !is_virtual_machines(&shown(&known, pools.live(), name)?) {
        return Err(Refusal::new(refusal));
    }
    let location = pools.live().lab.aks.location.value.clone();
    let mut keys = pools.live().keys(name)?.clone();
    let mut sizes = keys.get("sizes").and_then(Key::as_table).cloned().unwrap_or_default();
    change(&mut sizes, &location)?;
    keys.insert("sizes".to_owned(), sizes.into());
    pools.put(name, keys)?;
    pools.end()?;
    changed(on, &known, name, given)
}

/// The only size of a list, in small letters as az has it.
fn single(sizes: &str) -> Result<String, Refusal> {
    match split(sizes).as_slice() {
        [one] => Ok(one.to_lowercase()),
        _ => Err(Refusal::new(format!("We only accept single sku size for manual profile. {sizes} is invalid."))),
    }
}

/// The profile of this size, in Azure's spelling.
fn found(sizes: &Table, current: &str, given: &Arguments) -> Result<String, Refusal> {
    sizes.keys().find(|size| size.eq_ignore_ascii_case(current)).cloned().ok_or_else(|| {
        let name = given.needed("--nodepool-name");
        Refusal::new(format!("Manual with size {current} doesn't exist in node pool {name}."))
    })
}
