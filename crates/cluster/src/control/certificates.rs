//! Signs CertificateSigningRequests that are approved, for the signers that Kubernetes itself has.

// upstream: pkg/controller/certificates/signer/signer.go handle, pkg/apis/certificates/helpers.go ValidateKubeletServingCSR,
// ValidateKubeletClientCSR (v1.36)

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use klab_api_machinery::certificates::{Asked, DNS, EMAIL, IP, URI};
use klab_api_machinery::resource::CERTIFICATE_SIGNING_REQUESTS;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::CertificateSigningRequest;
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::cluster::Part;
use klab_api_machinery::certificates::Order;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// How long certificates are good that do not ask for less.
const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

/// Signs certificate requests.
#[derive(Default)]
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
        let (spec, status) = (CertificateSigningRequest(&value).spec(), CertificateSigningRequest(&value).status());
        let is = |kind: &str| status.conditions().any(|one| one.type_() == kind && one.status() != "False");
        if !is("Approved") || is("Denied") || is("Failed") || !status.certificate().is_empty() {
            return;
        }
        let (usages, signer) = (spec.usages().collect::<Vec<&str>>(), spec.signer_name());
        if ![CLIENT, KUBELET_CLIENT, KUBELET_SERVING].contains(&signer) {
            return;
        }
        let now = plane.now();
        let wanted = spec.expiration_seconds().map_or(LIFETIME, SignedDuration::from_secs);
        let lifetime = wanted.clamp(SHORTEST, LIFETIME);
        let pem = STANDARD.decode(spec.request()).unwrap_or_default();
        let signed =
            Asked::read(&String::from_utf8_lossy(&pem)).map_err(|fault| fault.to_string()).and_then(
                |asked| match fault(signer, &asked, &usages) {
                    Some(fault) => Err(fault),
                    None => Ok(authority.sign(&Order {
                        asked: &asked,
                        usages: &usages,
                        lifetime,
                        now,
                        serial: request.resource_version,
                    })),
                },
            );
        let write = |status: &mut Value| match (signed, status["conditions"].as_array_mut()) {
            (Ok(certificate), _) => status["certificate"] = json!(STANDARD.encode(certificate)),
            (Err(message), Some(conditions)) => {
                let now = time_text(now);
                conditions.push(json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message,
                    "lastUpdateTime": now, "lastTransitionTime": now,
                }));
            }
            (Err(_), None) => {}
        };
        // Gone meanwhile, or changed: the next change comes back here.
        let _written = plane.cluster.modify(CERTIFICATE_SIGNING_REQUESTS, Part::Status, "", name, &writes(), |value| {
            write(&mut value["status"]);
        });
    }
}

/// Why a signer does not sign what is asked for.
pub(super) fn fault(signer: &str, asked: &Asked, usages: &[&str]) -> Option<String> {
    match signer {
        CLIENT => client_fault(usages),
        KUBELET_CLIENT => not_of_nodes(asked)
            .or_else(|| other_names(asked, &[(DNS, "DNS"), (EMAIL, "Email"), (IP, "IP"), (URI, "URI")]))
            .or_else(|| not_a_node(asked))
            .or_else(|| other_usages(usages, "client auth")),
        _ => {
            let has = asked.has(DNS) || asked.has(IP);
            not_of_nodes(asked)
                .or_else(|| (!has).then(|| "DNS or IP subjectAltName is required".to_owned()))
                .or_else(|| other_names(asked, &[(EMAIL, "Email"), (URI, "URI")]))
                .or_else(|| other_usages(usages, "server auth"))
                .or_else(|| not_a_node(asked))
        }
    }
}

fn other_names(asked: &Asked, refused: &[(u8, &str)]) -> Option<String> {
    let (_, name) = refused.iter().find(|(kind, _)| asked.has(*kind))?;
    Some(format!("{name} subjectAltNames are not allowed"))
}

fn not_of_nodes(asked: &Asked) -> Option<String> {
    let is_of_nodes = asked.subject().organizations == ["system:nodes"];
    (!is_of_nodes).then(|| "subject organization is not system:nodes".to_owned())
}

fn not_a_node(asked: &Asked) -> Option<String> {
    let is_node = asked.subject().common_name.starts_with("system:node:");
    (!is_node).then(|| "subject common name does not begin with system:node:".to_owned())
}

/// What is wrong with the usages of a kubelet's certificate: they are a set, with or without `key encipherment`.
fn other_usages(usages: &[&str], purpose: &str) -> Option<String> {
    let all = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    let mut fewest = all.clone();
    fewest.remove("key encipherment");
    let asked: BTreeSet<&str> = usages.iter().copied().collect();
    let names = all.iter().copied().collect::<Vec<_>>().join(" ");
    (asked != all && asked != fewest).then(|| format!("usages did not match [{names}]"))
}

/// What is wrong with the usages of a client's certificate.
fn client_fault(usages: &[&str]) -> Option<String> {
    let known = ["digital signature", "key encipherment", "client auth"];
    if let Some(wrong) = usages.iter().find(|usage| !known.contains(usage)) {
        return Some(format!("invalid usage for client certificate: {wrong}"));
    }
    let has = usages.contains(&"client auth");
    (!has).then(|| "missing required usage for client certificate: client auth".to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn asked(groups: &[&str], name: &str, names: &[SanType]) -> Asked {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for group in groups {
            parameters.distinguished_name.push(DnType::OrganizationName, *group);
        }
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.subject_alt_names = names.to_vec();
        let pem = parameters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        Asked::read(&pem).unwrap()
    }

    /// Each signer with everything that may be asked of it: the reason is upstream's, and nothing else is signed.
    #[test]
    fn a_signer_signs_what_upstreams_signs_and_nothing_else() {
        let dns = SanType::DnsName("labs.example".try_into().unwrap());
        let ip = SanType::IpAddress([10, 0, 0, 1].into());
        let email = SanType::Rfc822Name("a@b".try_into().unwrap());
        let uri = SanType::URI("https://labs.example".try_into().unwrap());
        let named: [(&str, Vec<SanType>); 8] = [
            ("none", vec![]),
            ("DNS", vec![dns.clone()]),
            ("IP", vec![ip.clone()]),
            ("Email", vec![email.clone()]),
            ("URI", vec![uri.clone()]),
            ("DNS, IP", vec![dns.clone(), ip]),
            ("DNS, Email", vec![dns.clone(), email]),
            ("DNS, URI", vec![dns, uri]),
        ];
        let purposes = ["client auth", "server auth", "code signing"];
        let mut signed = Vec::new();
        for signer in [CLIENT, KUBELET_CLIENT, KUBELET_SERVING] {
            for groups in [&["system:nodes"][..], &[], &["developers"], &["system:nodes", "developers"]] {
                for name in ["system:node:n", "labs.example"] {
                    for (kinds, names) in &named {
                        let asked = asked(groups, name, names);
                        for purpose in purposes {
                            for more in [&[][..], &["digital signature"], &["digital signature", "key encipherment"]] {
                                let usages: Vec<&str> = more.iter().copied().chain([purpose]).collect();
                                if fault(signer, &asked, &usages).is_none() {
                                    let signer = signer.trim_start_matches("kubernetes.io/");
                                    signed.push((signer, groups.join("+"), name, *kinds, usages.join("+")));
                                }
                            }
                        }
                    }
                }
            }
        }
        let of = |signer: &str| signed.iter().filter(|one| one.0 == signer).collect::<Vec<_>>();
        let clients = of("kube-apiserver-client");
        assert_eq!(clients.len(), 4 * 2 * 8 * 3, "whoever asks to be a client, with any names");
        assert!(clients.iter().all(|one| one.4.contains("client auth")));
        for (signer, kinds, purpose) in [
            ("kube-apiserver-client-kubelet", &["none"][..], "client auth"),
            ("kubelet-serving", &["DNS", "IP", "DNS, IP"], "server auth"),
        ] {
            let signed = of(signer);
            assert_eq!(signed.len(), kinds.len() * 2, "{signed:?}");
            for (_, groups, name, named, usages) in signed {
                assert_eq!((groups.as_str(), *name), ("system:nodes", "system:node:n"));
                assert!(kinds.contains(named), "{named}");
                let with = |more: &str| format!("digital signature{more}+{purpose}");
                assert!([with(""), with("+key encipherment")].contains(usages), "{usages}");
            }
        }
    }

    #[test]
    fn the_reasons_are_upstreams_in_its_order() {
        let all = ["digital signature", "server auth"];
        let dns = || vec![SanType::DnsName("n".try_into().unwrap())];
        let email = || vec![SanType::Rfc822Name("a@b".try_into().unwrap())];
        for (signer, groups, name, names, usages, wanted) in [
            (KUBELET_SERVING, "developers", "x", vec![], &["any"][..], "subject organization is not system:nodes"),
            (KUBELET_SERVING, "system:nodes", "x", vec![], &["any"], "DNS or IP subjectAltName is required"),
            (
                KUBELET_SERVING,
                "system:nodes",
                "x",
                [dns(), email()].concat(),
                &["any"],
                "Email subjectAltNames are not allowed",
            ),
            (
                KUBELET_SERVING,
                "system:nodes",
                "x",
                dns(),
                &["any"],
                "usages did not match [digital signature key encipherment server auth]",
            ),
            (KUBELET_SERVING, "system:nodes", "x", dns(), &all, "subject common name does not begin with system:node:"),
            (KUBELET_CLIENT, "system:nodes", "x", dns(), &all, "DNS subjectAltNames are not allowed"),
            (KUBELET_CLIENT, "system:nodes", "x", vec![], &all, "subject common name does not begin with system:node:"),
            (
                KUBELET_CLIENT,
                "system:nodes",
                "system:node:n",
                vec![],
                &all,
                "usages did not match [client auth digital signature key encipherment]",
            ),
            (CLIENT, "", "x", vec![], &all, "invalid usage for client certificate: server auth"),
            (
                CLIENT,
                "",
                "x",
                vec![],
                &["digital signature"],
                "missing required usage for client certificate: client auth",
            ),
        ] {
            let fault = fault(signer, &asked(&[groups], name, &names), usages);
            assert_eq!(fault.as_deref(), Some(wanted), "{signer}");
        }
    }
}
