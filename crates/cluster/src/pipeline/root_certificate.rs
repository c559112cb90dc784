//! The certificate authority that each namespace publishes to its pods.

use serde_json::{Value, json};

/// The ConfigMap of each namespace by which its pods know the API server.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// The ConfigMap that holds the certificate.
pub(crate) fn root_certificate(certificate: &str) -> Value {
    json!({
        "metadata": {
            "name": ROOT_CERTIFICATE,
            "annotations": {
                "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
            },
        },
        "data": { "ca.crt": certificate },
    })
}
