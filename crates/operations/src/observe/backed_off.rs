//! The pools that the cluster autoscaler leaves alone for a while, read out of its status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use serde_json::Value;

use crate::client::objects;
use klab_api_machinery::node_pools::{NAMESPACE, STATUS};
use klab_lab::verify::BackOff;

/// The pools that the cluster autoscaler leaves alone after they failed to grow, by its names for them. None where there is no
/// autoscaler, or the user may not read its status.
pub(super) async fn backed_off(client: &Client) -> BTreeMap<String, BackOff> {
    let map = objects::find::<ConfigMap>(client, Some(NAMESPACE), STATUS).await.ok().flatten();
    let text = map.and_then(|map| map.data?.remove("status")).unwrap_or_default();
    let status: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let groups = status["nodeGroups"].as_array().into_iter().flatten();
    let failed = groups.filter(|group| group["scaleUp"]["status"] == "Backoff");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let back_off = |scale_up: &Value| BackOff {
        why: text(&scale_up["backoffInfo"]["errorMessage"]),
        since: scale_up["lastTransitionTime"].as_str().and_then(|time| time.parse().ok()),
    };
    failed.map(|group| (text(&group["name"]), back_off(&group["scaleUp"]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pools_in_backoff_are_read_out_of_the_status() {
        let cluster = klab_cluster::Cluster::builder().build().unwrap();
        let runtime = crate::client::runtime().unwrap();
        let read = || runtime.block_on(async { backed_off(&cluster.client()).await });
        assert_eq!(read(), BTreeMap::new());
        let status = "nodeGroups:\n- name: aks-burst-1-vmss\n  scaleUp:\n    backoffInfo:\n      errorCode: timeout\n      \
                      errorMessage: Scale-up timed out\n    lastTransitionTime: \"2026-06-01T08:00:00Z\"\n    \
                      status: Backoff\n- name: other\n  scaleUp:\n    status: NoActivity\n\
                      time: 2026-06-01 08:00:00.0 +0000 UTC\n";
        let map = |status: &str| {
            let metadata = json!({ "name": STATUS, "namespace": NAMESPACE });
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "status": status } })
        };
        cluster.add_objects(&[map(status)]).unwrap();
        let back_off = BackOff { why: "Scale-up timed out".to_owned(), since: "2026-06-01T08:00:00Z".parse().ok() };
        assert_eq!(read(), BTreeMap::from([("aks-burst-1-vmss".to_owned(), back_off)]));
    }
}
