//! The authority that signs what CertificateSigningRequests ask for.

// upstream: pkg/controller/certificates/authority/{authority,policies}.go (v1.36)

use super::Asked;
use super::der::{
    ALTERNATIVE_NAMES, BIT_STRING, BOOLEAN, COMMON_NAME, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, SEQUENCE,
    SET, UTC_TIME, UTF8_STRING, context, element, of, wrapped,
};
use jiff::{SignedDuration, Timestamp};
use ring::signature::Ed25519KeyPair;

use crate::value::{earlier, later};

/// What authorities sign with.
pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// The name of the authorities of all clusters. It is no name of the authority that clients of a server trust.
const NAME: &str = "klab certificate requests";
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
pub(super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// Says which of the clusters of a server signed a certificate: their authorities have one name. The numbers of a UUID, which needs no
/// registry, below the arc that is there for such (1.2.840.113556.1.8000.2554): below 2.25, where it would be one number,
/// Go reads no certificate that has it.
pub(super) const MARK: &[u8] = &[
    0x2a, 0x86, 0x48, 0x86, 0xf7, 0x14, 0x01, 0xbe, 0x40, 0x93, 0x7a, 0x81, 0xb6, 0x0f, 0x81, 0xb8, 0x1e, 0x82, 0xb8,
    0x47, 0x81, 0x9a, 0x2a, 0x82, 0x9e, 0x36, 0x81, 0xb5, 0xfc, 0x61, 0x85, 0x93, 0x93, 0x33,
];
/// Certificates are good from a little before now, for machines whose clock is behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// Certificates that are good for less than this end when they were asked to, and others by [`BACKDATE`] earlier.
const SHORT: SignedDuration = SignedDuration::from_hours(8);

/// The authority of one cluster, which signs what is asked for in it and nothing else: no client trusts it for a server's address.
pub struct Authority {
    key: Ed25519KeyPair,
    /// Which cluster it signs for.
    pub(super) mark: [u8; 32],
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate that an [`Authority`] signs.
#[derive(Debug)]
pub struct Order<'a> {
    /// What the request for it asks: the subject, the key, alternative names.
    pub asked: &'a Asked,
    /// For what it is good, as `spec.usages` of a request spells it.
    pub usages: &'a [&'a str],
    /// How long it is good.
    pub lifetime: SignedDuration,
    /// When the authority signs it.
    pub now: Timestamp,
    /// Its serial number.
    pub serial: u64,
}

/// What certificates name as their issuer.
pub fn name() -> Vec<u8> {
    let pair = of(SEQUENCE, &[element(OBJECT, COMMON_NAME), element(UTF8_STRING, NAME.as_bytes())]);
    of(SEQUENCE, &[of(SET, &[pair])])
}

impl Authority {
    /// The authority of the cluster of this mark, with the key of this seed; none where the seed makes no key.
    pub fn new(seed: &[u8; 32], mark: [u8; 32]) -> Option<Self> {
        Some(Self { key: Ed25519KeyPair::from_seed_unchecked(seed).ok()?, mark })
    }

    /// A certificate, in PEM.
    pub fn sign(&self, order: &Order<'_>) -> String {
        let signed_by = of(SEQUENCE, &[element(OBJECT, ED25519)]);
        let lifetime = if order.lifetime < SHORT { order.lifetime } else { order.lifetime.saturating_sub(BACKDATE) };
        let validity = [earlier(order.now, BACKDATE), later(order.now, lifetime)].map(time);
        let body = of(
            SEQUENCE,
            &[
                of(context(0), &[element(INTEGER, &[2])]),
                element(INTEGER, &[&[1], &order.serial.to_be_bytes()[..]].concat()),
                signed_by.clone(),
                name(),
                of(SEQUENCE, &validity),
                order.asked.subject.clone(),
                order.asked.key.clone(),
                of(context(3), &[of(SEQUENCE, &extensions(order, &self.mark))]),
            ],
        );
        let signature = element(BIT_STRING, &[&[0], self.key.sign(&body).as_ref()].concat());
        wrapped(&of(SEQUENCE, &[body, signed_by, signature]), "CERTIFICATE")
    }

    /// What others check its signatures with.
    pub(super) fn public_key(&self) -> &[u8] {
        ring::signature::KeyPair::public_key(&self.key).as_ref()
    }
}

fn time(instant: Timestamp) -> Vec<u8> {
    if instant.strftime("%Y").to_string().as_str() < "2050" {
        element(UTC_TIME, instant.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        element(GENERALIZED_TIME, instant.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

fn extensions(order: &Order<'_>, mark: &[u8]) -> Vec<Vec<u8>> {
    let critical = || element(BOOLEAN, &[0xff]);
    let mut bits = 0_u8;
    let mut purposes = Vec::new();
    for usage in order.usages {
        match *usage {
            "signing" | "digital signature" => bits |= 0x80,
            "content commitment" => bits |= 0x40,
            "key encipherment" => bits |= 0x20,
            "data encipherment" => bits |= 0x10,
            "key agreement" => bits |= 0x08,
            "server auth" => purposes.push(1),
            "client auth" => purposes.push(2),
            "code signing" => purposes.push(3),
            "email protection" => purposes.push(4),
            _ => {}
        }
    }
    let mut all = Vec::new();
    if bits != 0 {
        let value = element(BIT_STRING, &[bits.trailing_zeros() as u8, bits]);
        all.push(of(SEQUENCE, &[element(OBJECT, KEY_USAGE), critical(), element(OCTET_STRING, &value)]));
    }
    if !purposes.is_empty() {
        let ids: Vec<Vec<u8>> = purposes
            .into_iter()
            .map(|purpose| element(OBJECT, &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, purpose]))
            .collect();
        let value = of(SEQUENCE, &ids);
        all.push(of(SEQUENCE, &[element(OBJECT, EXTENDED_KEY_USAGE), element(OCTET_STRING, &value)]));
    }
    if !order.asked.names.is_empty() {
        let names: Vec<Vec<u8>> = order.asked.names.iter().map(|(kind, name)| element(*kind, name)).collect();
        let mut extension = vec![element(OBJECT, ALTERNATIVE_NAMES)];
        // upstream: crypto/x509 buildCertExtensions: critical where the subject says nothing.
        extension.extend((order.asked.subject.len() <= 2).then(critical));
        extension.push(element(OCTET_STRING, &of(SEQUENCE, &names)));
        all.push(of(SEQUENCE, &extension));
    }
    all.push(of(SEQUENCE, &[element(OBJECT, MARK), element(OCTET_STRING, mark)]));
    let none = of(SEQUENCE, &[]);
    all.push(of(SEQUENCE, &[element(OBJECT, BASIC_CONSTRAINTS), critical(), element(OCTET_STRING, &none)]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go's encoding/asn1 reads no object identifier with a number of more than 31 bits.
    #[test]
    fn go_reads_the_mark() {
        for number in MARK.split_inclusive(|byte| byte & 0x80 == 0) {
            let value =
                number.iter().try_fold(0_i32, |value, byte| value.checked_mul(128)?.checked_add((byte & 0x7f).into()));
            assert!(value.is_some(), "{number:02x?}");
        }
    }
}
