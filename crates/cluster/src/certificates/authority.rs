//! The authority that signs what CertificateSigningRequests ask for.

// upstream: pkg/controller/certificates/authority/{authority,policies}.go (v1.36)

use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
#[cfg(any(feature = "server", test))]
use ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, EcdsaKeyPair, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};

use super::der::{
    BIT_STRING, BOOLEAN, Element, Elements, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, UTC_TIME,
    context, element, of, unwrapped, wrapped,
};
use super::name::Subject;
use crate::clock::{earlier, later};

pub(super) const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
pub(super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// Says which of the clusters of a server signed a certificate: they have one authority. The numbers of a UUID, which nobody
/// registers, below the arc that is there for such (1.2.840.113556.1.8000.2554): below 2.25, where it would be one number,
/// Go reads no certificate that has it.
pub(super) const MARK: &[u8] = &[
    0x2a, 0x86, 0x48, 0x86, 0xf7, 0x14, 0x01, 0xbe, 0x40, 0x93, 0x7a, 0x81, 0xb6, 0x0f, 0x81, 0xb8, 0x1e, 0x82, 0xb8,
    0x47, 0x81, 0x9a, 0x2a, 0x82, 0x9e, 0x36, 0x81, 0xb5, 0xfc, 0x61, 0x85, 0x93, 0x93, 0x33,
];
/// Certificates are good from a little before now, for machines whose clock is behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// Ways of signing requests, by their object identifiers.
fn algorithm(id: &[u8]) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match id {
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b] => &RSA_PKCS1_2048_8192_SHA256,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c] => &RSA_PKCS1_2048_8192_SHA384,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d] => &RSA_PKCS1_2048_8192_SHA512,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02] => &ECDSA_P256_SHA256_ASN1,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03] => &ECDSA_P384_SHA384_ASN1,
        [0x2b, 0x65, 0x70] => &ED25519,
        _ => return None,
    })
}

/// The first elements in some bytes, if there are so many.
pub(super) fn parts<const COUNT: usize>(content: &[u8]) -> Option<[Element<'_>; COUNT]> {
    Elements(content).take(COUNT).collect::<Vec<_>>().try_into().ok()
}

/// What a request (PKCS #10) asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    subject: Vec<u8>,
    key: Vec<u8>,
}

impl Asked {
    /// Reads a request in PEM; none when it is no request, or not signed with the key that it names.
    pub(crate) fn read(pem: &str) -> Option<Self> {
        let der = unwrapped(pem, "CERTIFICATE REQUEST")?;
        let [outer] = parts(&der)?;
        let [info, signed_by, signature] = parts(outer.content)?;
        let [_, subject, key] = parts(info.content)?;
        let [_, bits] = parts(key.content)?;
        let [id] = parts(signed_by.content)?;
        if [subject.tag, bits.tag, signature.tag] != [SEQUENCE, BIT_STRING, BIT_STRING] {
            return None;
        }
        // Of bit strings the first byte counts the bits that are not used.
        let (public, signature) = (bits.content.get(1..)?, signature.content.get(1..)?);
        UnparsedPublicKey::new(algorithm(id.content)?, public).verify(info.whole, signature).ok()?;
        Some(Self { subject: subject.whole.to_vec(), key: key.whole.to_vec() })
    }

    /// Whom it asks to be, if that can be read.
    pub(crate) fn subject(&self) -> Option<Subject> {
        Subject::read(&self.subject)
    }
}

/// An authority: its name and its key.
#[derive(Debug)]
pub(crate) struct Authority {
    pub(super) name: Vec<u8>,
    pub(super) key: EcdsaKeyPair,
    random: SystemRandom,
    /// Which cluster it signs for.
    mark: [u8; 32],
}

/// What a certificate is to be.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) usages: &'a [&'a str],
    pub(crate) lifetime: SignedDuration,
    pub(crate) now: Timestamp,
    pub(crate) serial: u64,
}

impl Authority {
    /// Of its certificate and its key (PKCS #8, P-256), both in PEM, for the cluster of this mark.
    #[cfg(any(feature = "server", test))]
    pub(crate) fn new(certificate: &str, key: &str, mark: [u8; 32]) -> Option<Self> {
        let certificate = unwrapped(certificate, "CERTIFICATE")?;
        let [outer] = parts(&certificate)?;
        let [body] = parts(outer.content)?;
        let [_, _, _, _, _, subject] = parts(body.content)?;
        let random = SystemRandom::new();
        let key = unwrapped(key, "PRIVATE KEY")?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key, &random).ok()?;
        Some(Self { name: subject.whole.to_vec(), key, random, mark })
    }

    /// A certificate in PEM; none when the system gives no random numbers.
    pub(crate) fn sign(&self, order: &Order<'_>) -> Option<String> {
        let signed_by = of(SEQUENCE, &[element(OBJECT, ECDSA_SHA256)]);
        let validity = [earlier(order.now, BACKDATE), later(order.now, order.lifetime)].map(time);
        let body = of(
            SEQUENCE,
            &[
                of(context(0), &[element(INTEGER, &[2])]),
                element(INTEGER, &[&[1], &order.serial.to_be_bytes()[..]].concat()),
                signed_by.clone(),
                self.name.clone(),
                of(SEQUENCE, &validity),
                order.asked.subject.clone(),
                order.asked.key.clone(),
                of(context(3), &[of(SEQUENCE, &extensions(order.usages, &self.mark))]),
            ],
        );
        let signature = self.key.sign(&self.random, &body).ok()?;
        let signature = element(BIT_STRING, &[&[0], signature.as_ref()].concat());
        Some(wrapped(&of(SEQUENCE, &[body, signed_by, signature]), "CERTIFICATE"))
    }
}

fn time(instant: Timestamp) -> Vec<u8> {
    if instant.strftime("%Y").to_string().as_str() < "2050" {
        element(UTC_TIME, instant.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        element(GENERALIZED_TIME, instant.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

fn extensions(usages: &[&str], mark: &[u8]) -> Vec<Vec<u8>> {
    let critical = || element(BOOLEAN, &[0xff]);
    let mut bits = 0_u8;
    let mut purposes = Vec::new();
    for usage in usages {
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
