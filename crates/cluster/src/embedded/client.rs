//! A client of a cluster on a stepped clock: while a request is under way, the cluster waits.

use std::sync::atomic::Ordering;

use http::{Request, Response};

use super::Cluster;
use super::fault::{Fault, Injected};
use crate::api::client::client;
use crate::api::{Body, PendingWebhooks, receive, status_response};

impl Cluster {
    /// A client of its API, as the administrator: requests made side by side are answered before the cluster acts on any
    /// of them. Nothing is retried, so that every refusal is seen. Call it in the runtime that drives the client.
    pub fn client(&self) -> kube::Client {
        let cluster = self.clone();
        client(move |request| {
            cluster.0.under_way.fetch_add(1, Ordering::AcqRel);
            let under_way = UnderWay(cluster.clone());
            async move {
                let answer = under_way.0.answer(request).await;
                drop(under_way);
                answer
            }
        })
    }

    /// Has the next requests of its clients that match refused. Of several faults for a request the oldest is taken.
    pub fn inject(&self, fault: Fault) -> Injected {
        self.0.faults.arm(fault)
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        match receive(request).await {
            Ok((parts, body)) => {
                let fault = self.0.faults.answer(self.inner(), &parts, &body);
                if let Some(refusal) = fault {
                    return refusal;
                }
                let pending_webhooks = PendingWebhooks::default();
                loop {
                    let response = self.0.api.respond(&parts, body.clone(), &pending_webhooks);
                    if !self.0.api.resolve_webhooks(&pending_webhooks).await {
                        return response;
                    }
                }
            }
            Err(status) => status_response(&status),
        }
    }

    fn answered(&self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.settle();
        }
    }
}

/// Counts a request as under way until it is answered or given up.
struct UnderWay(Cluster);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered();
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::seed::Seed;
    use crate::system::Flavour;

    fn pod(name: &str) -> Pod {
        let spec = json!({ "containers": [{ "name": "main", "image": "nginx:1.27" }] });
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    }

    fn node(name: &str) -> serde_json::Value {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": {
                "capacity": resources, "allocatable": resources,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }],
            },
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    async fn places(seed: u64) -> Vec<(String, String)> {
        let objects = (0..5).map(|number| node(&format!("node-{number}"))).collect();
        let seed = Seed { seed, flavour: Flavour::Bare, objects, ..Seed::default() };
        let cluster = Cluster::new("test", &seed).unwrap();
        let pods: Api<Pod> = Api::default_namespaced(cluster.client());
        let parameters = PostParams::default();
        let names: Vec<Pod> = (0..8).map(|number| pod(&format!("web-{number}"))).collect();
        for made in futures::future::join_all(names.iter().map(|pod| pods.create(&parameters, pod))).await {
            made.unwrap();
        }
        let list = pods.list(&ListParams::default()).await.unwrap();
        let place = |pod: Pod| (pod.metadata.name.unwrap(), pod.spec.unwrap().node_name.unwrap_or_default());
        list.items.into_iter().map(place).collect()
    }

    #[test]
    fn equal_seeds_give_equal_places_and_others_differ() {
        let first = block_on(places(1));
        assert!(first.iter().all(|(_, node)| node.starts_with("node-")), "{first:?}");
        assert_eq!(first, block_on(places(1)));
        assert!((2..8).any(|seed| block_on(places(seed)) != first), "the seed decides between equal nodes");
    }

    #[test]
    fn time_passes_from_one_due_moment_to_the_next() {
        let seed = Seed { objects: vec![node("a")], ..Seed::default() };
        let cluster = Cluster::new("test", &seed).unwrap();
        let before = cluster.now();
        cluster.pass_until(before + SignedDuration::from_mins(7));
        assert_eq!(cluster.now().duration_since(before), SignedDuration::from_mins(7));
        assert_eq!(cluster.age(), SignedDuration::from_mins(7));
    }
}
