//! CertificateSigningRequests: who may not be asked for, and who may approve.

// upstream: plugin/pkg/admission/certificates/{subjectrestriction,approval}/admission.go,
// pkg/registry/certificates/authorization/authorization.go IsAuthorizedForSignerName (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_api_machinery::certificates::Asked;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::CERTIFICATE_SIGNING_REQUESTS;
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{CertificateSigningRequest, CertificateSigningRequestCondition as Decision, metadata};
use serde_json::Value;

use crate::rbac::{Attributes, ResourceSubject, Subject, authorize};
use crate::transaction::Transaction;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Refuses requests for certificates of the group that may do everything.
pub(crate) fn restrict(value: &Value) -> Result<(), Status> {
    let spec = CertificateSigningRequest(value).spec();
    if spec.signer_name() != CLIENT {
        return Ok(());
    }
    let pem = STANDARD.decode(spec.request()).unwrap_or_default();
    // What cannot be read is refused when it is validated.
    let asked = Asked::read(&String::from_utf8_lossy(&pem));
    if asked.is_ok_and(|asked| asked.subject().organizations.iter().any(|group| group == MASTERS)) {
        let because = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
        let name = metadata(value).name();
        return Err(Status::forbidden(CERTIFICATE_SIGNING_REQUESTS.row(), name, &because));
    }
    Ok(())
}

fn decisions(request: CertificateSigningRequest<'_>) -> impl Iterator<Item = Decision<'_>> {
    request.status().conditions().filter(|one| ["Approved", "Denied"].contains(&one.type_()))
}

/// Refuses the decision of a user who may not decide for the signer.
pub(crate) fn check_approval(transaction: &Transaction<'_>, current: &Object, new: &Value) -> Result<(), Status> {
    let Some(user) = transaction.options.user else { return Ok(()) };
    let old = current.value();
    let old = CertificateSigningRequest(&old);
    if decisions(old).eq(decisions(CertificateSigningRequest(new))) {
        return Ok(());
    }
    let signer = old.spec().signer_name();
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let may = |name: &str| {
        let subject =
            ResourceSubject { group: "certificates.k8s.io", resource: "signers", name, ..ResourceSubject::default() };
        let asked = Attributes { verb: "approve", to: Subject::Resource(subject) };
        authorize(&transaction.state.store, user, &asked).allowed
    };
    if may(signer) || may(&domain) {
        return Ok(());
    }
    let because = format!("user not permitted to approve requests with signerName \"{signer}\"");
    Err(Status::forbidden(current.resource.row(), &current.name, &because))
}
