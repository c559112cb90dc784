//! Approves requests for the client certificates of kubelets, where who asks may have them.

// upstream: pkg/controller/certificates/approver/sarapprove.go handle (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_api_machinery::certificates::Asked;
use klab_api_machinery::resource::CERTIFICATE_SIGNING_REQUESTS;
use klab_api_machinery::value::{list_mut, time_text};
use klab_api_machinery::views::CertificateSigningRequest;
use serde_json::json;

use super::certificates::{KUBELET_CLIENT, fault};
use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::cluster::Part;
use crate::rbac::{Attributes, ResourceSubject, Subject, User, authorize};

/// Approves certificate requests.
#[derive(Default)]
pub(super) struct CertificateApproving;

impl Reconciler for CertificateApproving {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if !change.gone {
            plane.queue.add(Key::new(Controller::CertificateApproving, CERTIFICATE_SIGNING_REQUESTS, change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &*key.name.name;
        let Some(request) = plane.cluster.get(CERTIFICATE_SIGNING_REQUESTS, "", name) else { return };
        let value = request.value();
        let (spec, status) = (CertificateSigningRequest(&value).spec(), CertificateSigningRequest(&value).status());
        let is_decided = status.conditions().any(|one| ["Approved", "Denied"].contains(&one.type_()));
        if is_decided || !status.certificate().is_empty() || spec.signer_name() != KUBELET_CLIENT {
            return;
        }
        let pem = STANDARD.decode(spec.request()).unwrap_or_default();
        let Ok(asked) = Asked::read(&String::from_utf8_lossy(&pem)) else { return };
        let usages: Vec<&str> = spec.usages().collect();
        if fault(KUBELET_CLIENT, &asked, &usages).is_some() {
            return;
        }
        let user = User::written(spec.0, "username");
        let may = |part: &'static str| {
            let subject = ResourceSubject {
                group: "certificates.k8s.io",
                resource: "certificatesigningrequests",
                subresource: part,
                ..ResourceSubject::default()
            };
            let asked = Attributes { verb: "create", to: Subject::Resource(subject) };
            plane.cluster.read(|store| authorize(store, &user, &asked).allowed)
        };
        let words = if user.name == asked.subject().common_name && may("selfnodeclient") {
            "Auto approving self kubelet client certificate after SubjectAccessReview."
        } else if may("nodeclient") {
            "Auto approving kubelet client certificate after SubjectAccessReview."
        } else {
            return;
        };
        let now = time_text(plane.now());
        let approved = json!({
            "type": "Approved", "status": "True", "reason": "AutoApproved", "message": words, "lastUpdateTime": now,
            "lastTransitionTime": now,
        });
        // Gone meanwhile, or changed: the next change comes back here.
        let _written = plane.cluster.modify(CERTIFICATE_SIGNING_REQUESTS, Part::Status, "", name, &writes(), |value| {
            list_mut(&mut value["status"]["conditions"]).push(approved);
        });
    }
}
