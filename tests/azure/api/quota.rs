//! vCPUs of the stand-in: what is in use, and what is refused.

use super::{Answer, BTreeMap, Model, Value, json, offer};

impl Model {
    /// vCPUs in use, by counter.
    pub(super) fn used(&self) -> BTreeMap<String, i64> {
        let mut used = BTreeMap::new();
        let clusters = self.groups.values().flat_map(|group| group.clusters.values());
        for pool in clusters.flat_map(|cluster| cluster.pools.values()) {
            let count = pool.properties["count"].as_i64().unwrap_or(0);
            for (counter, cpus) in counters(&pool.properties) {
                *used.entry(counter).or_insert(0) += cpus * count;
            }
        }
        used
    }

    pub(super) fn usage(&self) -> Vec<Value> {
        let used = self.used();
        let row = |(counter, limit): (&String, &i64)| {
            json!({ "name": { "value": counter, "localizedValue": counter }, "unit": "Count",
                "currentValue": used.get(counter).copied().unwrap_or(0), "limit": limit })
        };
        self.quota.iter().map(row).collect()
    }

    pub(super) fn quota_refusal(&self, properties: &Value, before: i64) -> Option<Answer> {
        let used = self.used();
        let more = properties["count"].as_i64().unwrap_or(0) - before;
        for (counter, cpus) in counters(properties) {
            let limit = self.quota.get(&counter).copied().unwrap_or(i64::MAX);
            let left = limit - used.get(&counter).copied().unwrap_or(0);
            if more > 0 && cpus * more > left {
                let message = format!(
                    "Insufficient regional vcpu quota left for location westeurope. left regional vcpu quota {left}, requested quota {}.",
                    cpus * more
                );
                return Some(Answer::refused(400, "ErrCode_InsufficientVCPUQuota", &message));
            }
        }
        None
    }
}

pub(super) fn counters(properties: &Value) -> Vec<(String, i64)> {
    let Some((cpus, family)) = offer::size(properties["vmSize"].as_str().unwrap_or_default()) else {
        return Vec::new();
    };
    if properties["scaleSetPriority"] == "Spot" {
        vec![("lowPriorityCores".to_owned(), cpus)]
    } else {
        vec![("cores".to_owned(), cpus), (family.to_owned(), cpus)]
    }
}
