//! Signs CertificateSigningRequests that are approved, for the signers that Kubernetes itself has.

// upstream: pkg/controller/certificates/signer/signer.go handle, pkg/apis/certificates/helpers.go (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::certificates::{Asked, Order};
use crate::cluster::{Part, time_text};
use crate::resource::CERTIFICATE_SIGNING_REQUESTS;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// How long certificates are good that do not ask for less.
const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

/// Signs certificate requests.
pub(super) struct CertificateSigning;

impl Reconciler for CertificateSigning {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if !change.gone {
            plane.queue.add(Key::new(Controller::CertificateSigning, CERTIFICATE_SIGNING_REQUESTS, change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let Some(authority) = plane.cluster.authority() else { return };
        let name = &*key.name.name;
        let Some(request) = plane.cluster.get(CERTIFICATE_SIGNING_REQUESTS, "", name) else { return };
        let value = request.value();
        let is = |kind: &str| {
            let conditions = value["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] != "False")
        };
        if !is("Approved") || is("Denied") || is("Failed") || value["status"]["certificate"].is_string() {
            return;
        }
        let spec = &value["spec"];
        let usages: Vec<&str> = spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fault = match spec["signerName"].as_str() {
            Some(CLIENT | KUBELET_CLIENT) => client_fault(&usages, &["client auth"]),
            Some(KUBELET_SERVING) => client_fault(&usages, &["server auth"]),
            _ => return,
        };
        let now = plane.now();
        let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).unwrap_or_default();
        let asked = Asked::read(&String::from_utf8_lossy(&pem));
        let wanted = spec["expirationSeconds"].as_i64().map_or(LIFETIME, SignedDuration::from_secs);
        let certificate = match (&fault, &asked) {
            (None, Some(asked)) => authority.sign(&Order {
                asked,
                usages: &usages,
                lifetime: wanted.clamp(SHORTEST, LIFETIME),
                now,
                serial: request.resource_version,
            }),
            _ => None,
        };
        let message = match (fault, &asked) {
            (Some(fault), _) => Some(fault),
            (None, None) => Some("the request cannot be read, or is not signed with its own key".to_owned()),
            (None, Some(_)) => None,
        };
        let write = |status: &mut Value| {
            if let Some(certificate) = certificate {
                status["certificate"] = json!(STANDARD.encode(certificate));
            } else if let (Some(message), Some(conditions)) = (message, status["conditions"].as_array_mut()) {
                let now = time_text(now);
                conditions.push(json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message,
                    "lastUpdateTime": now, "lastTransitionTime": now,
                }));
            }
        };
        // Gone meanwhile, or changed: the next change comes back here.
        let _written = plane.cluster.modify(CERTIFICATE_SIGNING_REQUESTS, Part::Status, "", name, &writes(), |value| {
            write(&mut value["status"]);
        });
    }
}

/// What is wrong with the usages of a certificate.
fn client_fault(usages: &[&str], needed: &[&str]) -> Option<String> {
    let known = ["digital signature", "key encipherment"];
    let wrong = usages.iter().find(|usage| !known.contains(usage) && !needed.contains(usage));
    if let Some(wrong) = wrong {
        return Some(format!("invalid usage for client certificate: {wrong}"));
    }
    let missing = needed.iter().find(|needed| !usages.contains(needed))?;
    Some(format!("missing required usage for client certificate: {missing}"))
}
