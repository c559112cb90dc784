//! The kubeconfig of a cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How the user of a kubeconfig proves who they are.
pub(super) enum Proof<'a> {
    Token(&'a str),
    Certificate { certificate: &'a str, key: &'a str },
}

/// Where a cluster is, and how its server shows that it is the one.
pub(super) struct Place<'a> {
    pub(super) url: &'a str,
    /// The host name asked for in the TLS handshake; nothing: that of the URL.
    pub(super) host_name: &'a str,
    /// The certificate authority's certificate, PEM; nothing: whatever the client trusts.
    pub(super) authority: &'a str,
}

/// A kubeconfig with one cluster, one user and one context. `name` is that of cluster and context.
pub(super) fn text(name: &str, user: &str, place: &Place<'_>, proof: &Proof<'_>) -> String {
    let Place { url, host_name, authority } = place;
    let proof = match proof {
        Proof::Token(token) => format!("    token: {token}\n"),
        Proof::Certificate { certificate, key } => format!(
            "    client-certificate-data: {}\n    client-key-data: {}\n",
            STANDARD.encode(certificate),
            STANDARD.encode(key)
        ),
    };
    let trust = match (*host_name, *authority) {
        (_, "") => String::new(),
        ("", authority) => format!("    certificate-authority-data: {}\n", STANDARD.encode(authority)),
        (name, authority) => {
            format!("    tls-server-name: {name}\n    certificate-authority-data: {}\n", STANDARD.encode(authority))
        }
    };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: {name}\n  \
           cluster:\n    \
             server: {url}\n\
         {trust}\
         users:\n\
         - name: {user}\n  \
           user:\n\
         {proof}\
         contexts:\n\
         - name: {name}\n  \
           context:\n    \
             cluster: {name}\n    \
             user: {user}\n\
         current-context: {name}\n"
    )
}

/// Whether a kubeconfig still leads where another one does, whatever its owner has added: users, contexts.
pub(super) fn leads_to(kept: &str, wanted: &str) -> bool {
    const TELLING: [&str; 4] = ["server", "tls-server-name", "certificate-authority-data", "token"];
    let telling = |line: &&str| line.trim().split_once(": ").is_some_and(|(key, _)| TELLING.contains(&key));
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(telling).filter_map(|line| line.split_once(": "));
        lines.map(|(_, value)| value.trim().trim_matches('"').to_owned()).collect()
    };
    let has_context = kept.contains("current-context: ");
    let kept = values(kept);
    has_context && values(wanted).iter().all(|value| kept.contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_kube_reads() {
        let place = Place { url: "https://127.0.0.1:1/clusters/a", host_name: "a.internal", authority: "PEM" };
        let text = text("klab-a", "klab-a", &place, &Proof::Token("secret"));
        let read = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("klab-a"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:1/clusters/a"));
        assert_eq!(cluster.tls_server_name.as_deref(), Some("a.internal"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("UEVN"));
        assert!(read.auth_infos[0].auth_info.as_ref().unwrap().token.is_some());
    }

    #[test]
    fn what_somebody_adds_does_not_lead_elsewhere() {
        let of = |url: &str, token: &str| {
            let place = Place { url, host_name: "a.internal", authority: "PEM" };
            text("klab-a", "klab-a", &place, &Proof::Token(token))
        };
        let own = of("https://127.0.0.1:1/clusters/a", "1234");
        let more = own.replace("contexts:\n", "contexts:\n- name: jane\n  context: {cluster: klab-a, user: jane}\n");
        assert!(leads_to(&own, &own) && leads_to(&more, &own) && leads_to(&own.replace("1234", "\"1234\""), &own));
        assert!(!leads_to(&more, &of("https://127.0.0.1:2/clusters/a", "1234")));
        assert!(!leads_to(&more, &of("https://127.0.0.1:1/clusters/a", "5")) && !leads_to("", &own));
    }

    #[test]
    fn a_certificate_that_clients_trust_anyway_needs_no_authority() {
        let place = Place { url: "https://labs.example.org/seats/0-1", host_name: "", authority: "" };
        let text = text("klab-a", "klab-a", &place, &Proof::Token("secret"));
        let read = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://labs.example.org/seats/0-1"));
        assert_eq!((&cluster.tls_server_name, &cluster.certificate_authority_data), (&None, &None));
    }
}
