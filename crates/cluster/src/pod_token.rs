//! The token of its ServiceAccount that a kubelet writes into a volume of a pod.

// upstream: pkg/kubelet/token/token_manager.go requiresRefresh, pkg/volume/projected/projected.go collectData (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{NODES, SERVICE_ACCOUNTS};
use klab_api_machinery::views::{Pod, ServiceAccountTokenProjection};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::account_token::{ISSUER, TokenOrder, issue, named};
use crate::clock::later;
use crate::cluster::Cluster;

/// Of how much of its time a kubelet lets a token be used before it asks for another one, in hundredths.
const USED: i64 = 80;

/// The token in a volume of a pod, as `source` (a `serviceAccountToken`) asks for it, at an instant: the same whenever that is asked, and
/// another one after four fifths of its time. None where the pod has no ServiceAccount.
pub(crate) fn pod_token(cluster: &Cluster, pod: &Value, source: &Value, now: Timestamp) -> Option<String> {
    let (pod, source) = (Pod(pod), ServiceAccountTokenProjection(source));
    let (metadata, spec) = (pod.metadata(), pod.spec());
    let account = Some(spec.service_account_name()).filter(|name| !name.is_empty()).unwrap_or("default");
    let account = cluster.get(SERVICE_ACCOUNTS, metadata.namespace(), account)?;
    let seconds = source.expiration_seconds().unwrap_or(3600).max(1);
    let first = pod.status().start_time().unwrap_or(now);
    let round = (seconds.saturating_mul(USED) / 100).max(1);
    let rounds = now.duration_since(first).as_secs().max(0) / round;
    let from = later(first, SignedDuration::from_secs(rounds.saturating_mul(round)));
    let audience = Some(source.audience()).filter(|audience| !audience.is_empty()).unwrap_or(ISSUER);
    let pod_named = json!({ "name": metadata.name(), "uid": metadata.uid() });
    let node = cluster.get(NODES, "", spec.node_name());
    let node = node.map(|node| ("node".to_owned(), named(&node)));
    let order = TokenOrder {
        account: &account,
        audiences: &json!([audience]),
        seconds,
        from,
        identity: identity(&[metadata.uid(), audience, &from.as_second().to_string()]),
        bound: [("pod".to_owned(), pod_named)].into_iter().chain(node).collect(),
    };
    Some(issue(cluster, order).0)
}

/// An identity in the form of a UUID, which follows from these parts.
fn identity(parts: &[&str]) -> String {
    let hash = digest(&SHA256, parts.join("\n").as_bytes());
    let hex: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_follow_from_their_parts() {
        let one = identity(&["a", "b"]);
        assert_eq!((one.len(), one.as_str()), (36, &*identity(&["a", "b"])));
        assert_ne!(one, identity(&["a", "c"]));
    }
}
