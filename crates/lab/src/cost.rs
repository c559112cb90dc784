//! What a lab on AKS costs: pay-as-you-go prices of common sizes, in US dollars per hour; unknown rather than a guess.
//!
//! Machines only: disks, load balancers, addresses and traffic come on top.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::plan::size_name;
use crate::spec::{AksTier, Lab, Os, Pool};

/// Where the prices of machines come from.
pub const SOURCE: &str = "Azure's retail price list (prices.azure.com), Linux, pay-as-you-go";
/// The day they were read.
pub const AS_OF: &str = "2026-06-18";

/// Sizes by regions; an empty field is a size that the region does not offer.
const TABLE: &str = include_str!("cost/prices.tsv");

type Prices = BTreeMap<String, BTreeMap<&'static str, f64>>;

static PRICES: LazyLock<Prices> = LazyLock::new(|| {
    let mut lines = TABLE.lines();
    let regions: Vec<&str> = lines.next().unwrap_or_default().split('\t').skip(1).collect();
    let row = |line: &'static str| {
        let mut fields = line.split('\t');
        let size = fields.next().unwrap_or_default().to_ascii_lowercase();
        let prices = regions.iter().zip(fields).filter_map(|(region, price)| Some((*region, price.parse().ok()?)));
        (size, prices.collect())
    };
    lines.map(row).collect()
});

/// The price of one Linux machine for an hour; `None` where klab does not know it.
pub fn hourly(size: &str, region: &str) -> Option<f64> {
    PRICES.get(&size.to_ascii_lowercase())?.get(region.to_ascii_lowercase().as_str()).copied()
}

/// What one pool costs in an hour.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolCost {
    /// The pool.
    pub pool: String,
    /// VM size.
    pub size: String,
    /// Nodes it starts with.
    pub nodes: u32,
    /// Most nodes the autoscaler may give it.
    pub most_nodes: u32,
    /// Price of one node; `None`: unknown.
    pub each: Option<f64>,
    /// Whether `each` is a bound: spot nodes cost that or less.
    pub at_most: bool,
}

impl PoolCost {
    /// What a pool costs, which has nodes of one size.
    fn of(pool: &Pool, region: &str) -> Self {
        let size = pool.size.as_ref().map_or_else(|| size_name(pool), |size| size.value.clone());
        // Windows has its licence on top, which the table does not hold.
        let regular = hourly(&size, region).filter(|_| pool.os == Os::Linux);
        let bound = pool.spot.as_ref().and_then(|spot| spot.max_price);
        let each = match (regular, bound) {
            (Some(regular), Some(bound)) => Some(regular.min(bound)),
            (regular, bound) => bound.or(regular),
        };
        let nodes = pool.nodes.value;
        let most_nodes = pool.autoscale.as_ref().map_or(nodes, |bounds| bounds.max.max(nodes));
        Self { pool: pool.name.value.clone(), size, nodes, most_nodes, each, at_most: pool.spot.is_some() }
    }

    /// What its first nodes cost.
    pub fn hourly(&self) -> Option<f64> {
        if self.nodes == 0 { Some(0.0) } else { self.each.map(|each| each * f64::from(self.nodes)) }
    }

    /// What all nodes cost that the autoscaler may give it.
    pub fn most_hourly(&self) -> Option<f64> {
        if self.most_nodes == 0 { Some(0.0) } else { self.each.map(|each| each * f64::from(self.most_nodes)) }
    }
}

/// What a lab costs in an hour.
#[derive(Debug, Clone, PartialEq)]
pub struct LabCost {
    /// Region of the prices.
    pub region: String,
    /// The control plane; `None`: unknown.
    pub control_plane: Option<f64>,
    /// The pools that `up` makes, one of several sizes once for each.
    pub pools: Vec<PoolCost>,
}

impl LabCost {
    /// The cost of a lab on AKS.
    pub fn of(lab: &Lab) -> Self {
        let region = lab.aks.location.value.clone();
        // The free tier is free by definition; the price list of the others is not at hand.
        let control_plane = (lab.aks.tier == AksTier::Free).then_some(0.0);
        let pools = lab.pools.iter().filter(|pool| !pool.deferred).flat_map(Pool::parts);
        let pools = pools.map(|pool| PoolCost::of(&pool, &region)).collect();
        Self { region, control_plane, pools }
    }

    /// Everything at the start; `None` when a part is unknown.
    pub fn hourly(&self) -> Option<f64> {
        self.pools.iter().map(PoolCost::hourly).try_fold(self.control_plane?, |sum, cost| Some(sum + cost?))
    }

    /// Everything at the autoscaler's most; `None` when a part is unknown.
    pub fn most_hourly(&self) -> Option<f64> {
        self.pools.iter().map(PoolCost::most_hourly).try_fold(self.control_plane?, |sum, cost| Some(sum + cost?))
    }

    /// What has no known price, in words.
    pub fn unknown(&self) -> Vec<String> {
        let tier = self.control_plane.is_none().then(|| "the control plane of this tier".to_owned());
        let pools = self.pools.iter().filter(|pool| pool.hourly().is_none());
        tier.into_iter().chain(pools.map(|pool| format!("pool {} ({})", pool.pool, pool.size))).collect()
    }

    /// One row a pool: name, nodes, price of one, price of all; then the sum.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["POOL", "NODES", "SIZE", "EACH/H", "ALL/H"].map(str::to_owned).to_vec()];
        for pool in &self.pools {
            let nodes = if pool.most_nodes > pool.nodes {
                format!("{} to {}", pool.nodes, pool.most_nodes)
            } else {
                pool.nodes.to_string()
            };
            let price = |price: Option<f64>| {
                price.map_or("unknown".to_owned(), |price| {
                    format!("{}{}", if pool.at_most { "≤ " } else { "" }, dollars(price))
                })
            };
            rows.push(vec![pool.pool.clone(), nodes, pool.size.clone(), price(pool.each), price(pool.hourly())]);
        }
        let free = match self.control_plane {
            Some(price) => dollars(price),
            None => "unknown".to_owned(),
        };
        rows.push(vec!["control plane".to_owned(), String::new(), String::new(), String::new(), free]);
        let sum = self.hourly().map_or("unknown".to_owned(), dollars);
        rows.push(vec!["all".to_owned(), String::new(), String::new(), String::new(), sum]);
        rows
    }

    /// For machines: dollars an hour, `null` where unknown.
    pub fn document(&self) -> Value {
        let pool = |pool: &PoolCost| {
            json!({
                "pool": pool.pool, "size": pool.size, "nodes": pool.nodes, "most_nodes": pool.most_nodes,
                "each_hourly": pool.each, "hourly": pool.hourly(), "at_most": pool.at_most,
            })
        };
        json!({
            "currency": "USD", "region": self.region, "source": SOURCE, "as_of": AS_OF,
            "control_plane_hourly": self.control_plane, "hourly": self.hourly(), "most_hourly": self.most_hourly(),
            "pools": self.pools.iter().map(pool).collect::<Vec<_>>(),
        })
    }

    /// Where the figures come from.
    pub fn note(&self) -> String {
        format!("{} in {}, read on {AS_OF}; without disks, load balancers and traffic", SOURCE, self.region)
    }
}

/// `$0.0832`, `$1.25`: four decimals below a dollar.
pub fn dollars(price: f64) -> String {
    if price == 0.0 || price >= 1.0 { format!("${price:.2}") } else { format!("${price:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{self, LoadOptions};

    fn lab(text: &str) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        std::fs::write(&path, format!("lab = \"cost\"\nprovider = \"aks\"\n{text}")).unwrap();
        spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    #[test]
    fn prices_are_those_of_the_list() {
        assert_eq!(hourly("Standard_B2ms", "westeurope"), Some(0.096));
        assert_eq!(hourly("standard_b2MS", "EastUS"), Some(0.0832));
        assert_eq!(hourly("Standard_B2ms", "atlantis"), None);
        assert_eq!(hourly("Standard_Z9", "eastus"), None);
    }

    #[test]
    fn every_row_of_the_table_is_whole() {
        let fields = TABLE.lines().next().unwrap().split('\t').count();
        for line in TABLE.lines().skip(1) {
            assert_eq!(line.split('\t').count(), fields, "{line}");
            let prices: Vec<&str> = line.split('\t').skip(1).filter(|price| !price.is_empty()).collect();
            assert!(
                !prices.is_empty() && prices.iter().all(|price| price.parse::<f64>().is_ok_and(|price| price > 0.0)),
                "{line}"
            );
        }
    }

    #[test]
    fn cost_counts_nodes_and_bounds_and_stays_unknown_where_it_is() {
        let cost = LabCost::of(&lab("[pool.a]\nnodes = 2\n[pool.b]\nautoscale = { min = 1, max = 3 }\n"));
        assert_eq!(cost.hourly().map(|sum| (sum * 1e4).round()), Some(2880.0));
        assert_eq!(cost.most_hourly().map(|sum| (sum * 1e4).round()), Some(4800.0));
        let cost = LabCost::of(&lab("[aks]\ntier = \"standard\"\n[pool.a]\n"));
        assert_eq!(cost.hourly(), None);
    }

    #[test]
    fn nodes_of_each_size_have_their_own_price() {
        let text = "[pool.a]\ntype = \"VirtualMachines\"\nsizes = { Standard_B2ms = 2, Standard_B4ms = 1 }\n";
        let cost = LabCost::of(&lab(text));
        let rows: Vec<_> = cost.pools.iter().map(|pool| (pool.size.as_str(), pool.nodes, pool.each)).collect();
        assert_eq!(rows, [("Standard_B2ms", 2, Some(0.096)), ("Standard_B4ms", 1, Some(0.192))]);
    }

    #[test]
    fn spot_costs_its_bound_at_most() {
        let text = "[pool.a]\n[pool.b]\nspot = true\nmax_price = 0.01\n";
        let cost = LabCost::of(&lab(text));
        assert_eq!((cost.pools[1].each, cost.pools[1].at_most), (Some(0.01), true));
    }
}
