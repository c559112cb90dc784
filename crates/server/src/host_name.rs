//! The host name that a cluster's clients ask for in a TLS handshake: whose connection it is, before it costs anything.
//!
//! A kubeconfig names it (`tls-server-name`). Only the server can make such names, and none says which cluster it is of:
//! no client takes another cluster's turns, or turns for clusters that do not exist.

use ring::hmac;
use subtle::ConstantTimeEq;

use super::credentials::{Digest, Token};

/// What all host names end in; ICANN keeps `.internal` for private use.
const DOMAIN: &str = ".clusters.klab.internal";
/// What the server's certificate says for all of them.
pub(super) const ALL: &str = "*.clusters.klab.internal";
/// Hexadecimal digits of each half of a name: which cluster's it is, and the proof that the server made it.
const HALF: usize = 24;

/// Makes host names, and knows its own.
pub(super) struct HostNames {
    key: hmac::Key,
}

impl HostNames {
    /// Those of the server with this token.
    pub(super) fn new(server: &Token) -> Self {
        let secret = Digest::of(format!("host names {}", server.text()).as_bytes());
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.text().as_bytes()) }
    }

    /// The host name of the cluster with this token.
    pub(super) fn name(&self, cluster: &Token) -> String {
        let whose = Digest::of(format!("host name {}", cluster.text()).as_bytes()).text();
        let whose = &whose[..HALF];
        format!("{whose}{}{DOMAIN}", self.proof(whose))
    }

    /// Whether this server made a name.
    pub(super) fn knows(&self, name: &str) -> bool {
        let Some((whose, proof)) = name.strip_suffix(DOMAIN).and_then(|label| label.split_at_checked(HALF)) else {
            return false;
        };
        self.proof(whose).as_bytes().ct_eq(proof.as_bytes()).into()
    }

    fn proof(&self, whose: &str) -> String {
        let tag = hmac::sign(&self.key, whose.as_bytes());
        tag.as_ref().iter().take(HALF / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_server_made_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let token = |name: &str| Token::open(&folder.path().join(name)).unwrap();
        let names = HostNames::new(&token("server"));
        let (one, other) = (names.name(&token("one")), names.name(&token("other")));
        assert_ne!(one, other);
        assert!(names.knows(&one) && names.knows(&other));
        assert!(one.split('.').next().is_some_and(|label| label.len() <= 63), "{one}");
        let mixed = format!("{}{}", &one[..HALF], &other[HALF..]);
        for unknown in [mixed.as_str(), "", "localhost", DOMAIN, "é.clusters.klab.internal", &one[1..], ALL] {
            assert!(!names.knows(unknown), "{unknown}");
        }
        assert!(!HostNames::new(&token("another server")).knows(&one));
    }
}
