//! Who holds a certificate that a cluster signed.

// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go CommonNameUserConversion, parseUIDFromCert
// (v1.36)

use super::Subject;
use super::der::{BIT_STRING, BOOLEAN, Element, Elements, GENERALIZED_TIME, OCTET_STRING, SEQUENCE, UTC_TIME, context};
use super::parts;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use ring::signature::UnparsedPublicKey;

use super::authority::{Authority, BASIC_CONSTRAINTS, ED25519, EXTENDED_KEY_USAGE, MARK, name};
use crate::access::User;

/// `id-kp-clientAuth` and `anyExtendedKeyUsage`.
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// Who holds a certificate, and for how long it says so.
#[derive(Debug, Clone)]
pub struct Holder {
    /// Which cluster signed it.
    pub mark: [u8; 32],
    user: User,
    from: Timestamp,
    until: Timestamp,
}

impl Holder {
    /// The user, while the certificate is good.
    pub fn user(&self, now: Timestamp) -> Option<User> {
        (self.from <= now && now <= self.until).then(|| self.user.clone())
    }
}

/// Of which cluster a certificate in DER says that it signed it. Anybody may say so.
pub fn mark(der: &[u8]) -> Option<[u8; 32]> {
    let [outer] = parts(der)?;
    let [body] = parts(outer.content)?;
    let [list] = parts(Elements(body.content).nth(7)?.content)?;
    let mut extensions = Extensions::default();
    Elements(list.content).try_for_each(|extension| extensions.note(extension))?;
    extensions.mark
}

impl Authority {
    /// The holder of a certificate in DER; none if the authority did not sign it for a client of its cluster.
    pub fn holder(&self, der: &[u8]) -> Option<Holder> {
        let outer = Elements(der).next().filter(|outer| outer.whole.len() == der.len() && outer.tag == SEQUENCE)?;
        let [body, signed_by, signature] = parts(outer.content)?;
        let [id] = parts(signed_by.content)?;
        // What is not signed has one form only. Of bit strings the first byte counts the bits that are not used.
        let is_whole = body.whole.len() + signed_by.whole.len() + signature.whole.len() == outer.content.len();
        if !is_whole || id.content != ED25519 || signature.tag != BIT_STRING || signature.content.first() != Some(&0) {
            return None;
        }
        let key = UnparsedPublicKey::new(&ring::signature::ED25519, self.public_key());
        key.verify(body.whole, signature.content.get(1..)?).ok()?;
        let [_, _, algorithm, issuer, validity, subject, _, extensions] = parts(body.content)?;
        if algorithm.whole != signed_by.whole || issuer.whole != name() || extensions.tag != context(3) {
            return None;
        }
        let [from, until] = parts(validity.content)?;
        let [list] = parts(extensions.content)?;
        let mut extensions = Extensions::default();
        for extension in Elements(list.content) {
            extensions.note(extension)?;
        }
        let subject = Subject::read(subject.whole)?;
        if extensions.mark != Some(self.mark)
            || !extensions.is_client
            || extensions.is_authority
            || subject.common_name.is_empty()
            || subject.uids.len() > 1
        {
            return None;
        }
        let mut groups = subject.organizations;
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        let uid = subject.uids.into_iter().next().unwrap_or_default();
        let user = User { name: subject.common_name, uid, groups, ..User::default() };
        let print: String = digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Holder {
            mark: self.mark,
            user: user.with_credential(format!("X509SHA256={print}")),
            from: instant(&from)?,
            until: instant(&until)?,
        })
    }
}

/// The group of everybody who is known.
const AUTHENTICATED: &str = "system:authenticated";

#[derive(Default)]
struct Extensions {
    mark: Option<[u8; 32]>,
    is_client: bool,
    is_authority: bool,
}

impl Extensions {
    /// Takes in an extension; none where it is broken.
    fn note(&mut self, extension: Element<'_>) -> Option<()> {
        let mut elements = Elements(extension.content);
        let id = elements.next()?;
        let value = elements.find(|element| element.tag == OCTET_STRING)?;
        match id.content {
            MARK => self.mark = value.content.try_into().ok(),
            EXTENDED_KEY_USAGE => {
                let [list] = parts(value.content)?;
                self.is_client =
                    Elements(list.content).any(|usage| usage.content == CLIENT_AUTH || usage.content == ANY_USAGE);
            }
            BASIC_CONSTRAINTS => {
                let [list] = parts(value.content)?;
                let first = Elements(list.content).next();
                self.is_authority = first.is_some_and(|first| first.tag == BOOLEAN && first.content != [0]);
            }
            _ => {}
        }
        Some(())
    }
}

/// `260102030405Z`, or with a century.
fn instant(element: &Element<'_>) -> Option<Timestamp> {
    let text = std::str::from_utf8(element.content).ok()?;
    let text = match element.tag {
        UTC_TIME => {
            let century = if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let at = |from: usize, to: usize| text.get(from..to);
    let (date, time) = ((at(0, 4)?, at(4, 6)?, at(6, 8)?), (at(8, 10)?, at(10, 12)?, at(12, 14)?));
    let whole = format!("{}-{}-{}T{}:{}:{}Z", date.0, date.1, date.2, time.0, time.1, time.2);
    (text.len() == 15 && text.ends_with('Z')).then(|| whole.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::super::Order;
    use super::*;
    use crate::certificates::Asked;
    use crate::value::later;

    fn authority(mark: u8) -> Authority {
        Authority::new(&[mark; 32], [mark; 32]).unwrap()
    }

    fn signed(authority: &Authority, name: &str, usages: &[&str]) -> Vec<u8> {
        let mut asked = CertificateParams::new(Vec::new()).unwrap();
        asked.distinguished_name.push(DnType::CommonName, name);
        asked.distinguished_name.push(DnType::OrganizationName, "developers");
        let request = asked.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let asked = Asked::read(&request).unwrap();
        let lifetime = SignedDuration::from_hours(1);
        let order = Order { asked: &asked, usages, lifetime, now: Timestamp::UNIX_EPOCH, serial: 1 };
        crate::certificates::der::unwrapped(&authority.sign(&order), "CERTIFICATE").unwrap()
    }

    #[test]
    fn a_holder_is_who_the_subject_says_while_the_certificate_is_good() {
        let authority = authority(7);
        let der = signed(&authority, "jane", &["client auth"]);
        let holder = authority.holder(&der).expect("a holder");
        assert_eq!(mark(&der), Some([7; 32]));
        let user = holder.user(Timestamp::UNIX_EPOCH).expect("a user");
        assert_eq!((&*user.name, &*user.uid), ("jane", ""));
        assert_eq!(user.groups, ["developers", "system:authenticated"]);
        let credential = &user.extra["authentication.kubernetes.io/credential-id"][0];
        assert!(credential.starts_with("X509SHA256="), "{credential}");
        for hours in [-1, 2] {
            let then = later(Timestamp::UNIX_EPOCH, SignedDuration::from_hours(hours));
            assert!(holder.user(then).is_none(), "{hours}");
        }
    }

    #[test]
    fn only_the_authoritys_own_certificates_of_clients_have_holders() {
        let (own, other) = (authority(1), authority(2));
        let der = signed(&own, "jane", &["client auth"]);
        assert!(own.holder(&der).is_some() && other.holder(&der).is_none());
        assert!(own.holder(&signed(&own, "jane", &["server auth"])).is_none(), "a server's");
        assert!(own.holder(&signed(&own, "", &["client auth"])).is_none(), "of nobody");
        let longer = [&der[..], &[0]].concat();
        assert!(own.holder(&longer).is_none() && own.holder(&[]).is_none());
        for at in 0..der.len() {
            let mut broken = der.clone();
            broken[at] ^= 0x20;
            assert!(own.holder(&broken).is_none(), "changed at {at}");
        }
        for end in 0..der.len() {
            assert!(own.holder(&der[..end]).is_none(), "ends at {end}");
        }
    }
}
