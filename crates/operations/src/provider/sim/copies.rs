//! What is called otherwise in the embedded cluster of another seat, and whether that is all that differs.

use klab_api_machinery::renaming::Renaming;
use serde_json::Value;

use super::beginning::{addons, flavour};
use super::node_pools;
use klab_cluster::system;
use klab_lab::nodes;
use klab_lab::spec::{Lab, Pool, SimLike};

/// What is called otherwise in a copy for lab `to` of the cluster of lab `of`, both of one file. `None` where a cluster
/// that is made for `to` would differ in more than names: every node that the set-up has is compared, and nothing of the
/// cluster itself may have one of the names by chance.
pub fn renaming(of: &Lab, to: &Lab) -> Option<Renaming> {
    // What templates make of unknown node names.
    let names_nodes = of.workloads.iter().any(|workload| !workload.deferred && workload.node_pool().is_some());
    if of.has_templates() || names_nodes || of.pools.len() != to.pools.len() {
        return None;
    }
    let renaming = names(of, to);
    let same = |one: Value, other: &Value| {
        let mut renamed = one;
        renaming.value(&mut renamed);
        renamed == *other
    };
    let mut order = Vec::new();
    for (pool, other) in of.pools.iter().zip(&to.pools) {
        let count = pool.nodes.value.max(u32::try_from(pool.zones.len()).unwrap_or_default()).max(1);
        for number in 0..count {
            let wanted = nodes::node(to, other, number);
            if !same(nodes::node(of, pool, number), &wanted) {
                return None;
            }
            order.push((nodes::node_name(of, pool, number), nodes::node_name(to, other, number)));
        }
        let [template, wanted] = [(of, pool), (to, other)].map(|(lab, pool)| node_pools::node_pool(lab, pool));
        let [template, wanted] = [template, wanted].map(|pool| serde_json::to_value(pool).unwrap_or_default());
        if !same(template, &wanted) {
            return None;
        }
    }
    // Who chooses among equal nodes has them in the order of their names.
    order.sort();
    if !order.is_sorted_by_key(|(_, name)| name) {
        return None;
    }
    let own = flavour(of);
    let is_untouched = !renaming.touches(system::texts(own)) && !addons(of).iter().any(|addon| renaming.touches(addon));
    is_untouched.then_some(renaming)
}

/// The names by which the two clusters differ.
fn names(of: &Lab, to: &Lab) -> Renaming {
    let pair = |of: &Value, to: &Value| Some((of.as_str()?.to_owned(), to.as_str()?.to_owned()));
    let machine = |node: Value| node["status"]["nodeInfo"]["machineID"].clone();
    let mut words = vec![(of.name.value.clone(), to.name.value.clone())];
    let mut beginnings = Vec::new();
    let of_pool =
        |(pool, other): (&Pool, &Pool)| pair(&machine(nodes::node(of, pool, 0)), &machine(nodes::node(to, other, 0)));
    words.extend(of.pools.iter().zip(&to.pools).filter_map(of_pool));
    match of.sim.like {
        SimLike::Aks => beginnings.extend(
            of.pools
                .iter()
                .zip(&to.pools)
                .map(|(pool, other)| (nodes::scale_set(of, pool), nodes::scale_set(to, other))),
        ),
        SimLike::Kind => {
            let node = |lab: &Lab| machine(system::control_plane_node(&lab.name.value));
            words.extend(pair(&node(of), &node(to)));
        }
    }
    Renaming::new(words, beginnings)
}
