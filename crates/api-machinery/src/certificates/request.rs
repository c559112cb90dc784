//! Certificate requests (PKCS #10) as they are read.

// upstream: crypto/x509 ParseCertificateRequest, CheckSignature; pkg/apis/certificates/helpers.go ParseCSR (v1.36)

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};

use super::der::{
    ALTERNATIVE_NAMES, BIT_STRING, Element, Elements, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, SET, context, unwrapped,
};
use super::name::Subject;

/// The attribute with the extensions that a request asks for.
const EXTENSIONS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

/// Kinds of alternative names.
pub const EMAIL: u8 = 0x81;
pub const DNS: u8 = 0x82;
pub const URI: u8 = 0x86;
pub const IP: u8 = 0x87;

/// How a request is signed, by the object identifiers of the signature and of the curve of its key.
fn algorithm(id: &[u8], curve: Option<&[u8]>) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (id, curve) {
        ([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], _) => &RSA_PKCS1_2048_8192_SHA256,
        ([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], _) => &RSA_PKCS1_2048_8192_SHA384,
        ([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], _) => &RSA_PKCS1_2048_8192_SHA512,
        ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], Some(P256)) => &ECDSA_P256_SHA256_ASN1,
        ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], Some(P256)) => &ECDSA_P256_SHA384_ASN1,
        ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], Some(P384)) => &ECDSA_P384_SHA256_ASN1,
        ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], Some(P384)) => &ECDSA_P384_SHA384_ASN1,
        ([0x2b, 0x65, 0x70], _) => &ED25519,
        _ => return None,
    })
}

/// The first elements in some bytes, if there are enough.
pub fn parts<const COUNT: usize>(content: &[u8]) -> Option<[Element<'_>; COUNT]> {
    Elements(content).take(COUNT).collect::<Vec<_>>().try_into().ok()
}

/// Why a request is not signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// There is no block of that name.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NoBlock,
    /// It is no request.
    #[error("the certificate request is malformed")]
    Malformed,
    /// Its signature is not that of the key that it names.
    #[error("the certificate request is not signed with its own key")]
    Signature,
    /// Nothing here knows such a key or such a signature.
    #[error(
        "the embedded cluster cannot check the signature: it knows RSA of 2048 bits and more, P-256, P-384 and Ed25519"
    )]
    Unknown,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub subject: Vec<u8>,
    pub key: Vec<u8>,
    /// Alternative names of the kinds that are passed on, each with its tag.
    pub names: Vec<(u8, Vec<u8>)>,
    who: Subject,
}

impl Asked {
    /// Reads a request in PEM.
    ///
    /// # Errors
    /// When it is no request, or not signed with the key that it names.
    pub fn read(pem: &str) -> Result<Self, RequestFault> {
        let der = unwrapped(pem, "CERTIFICATE REQUEST").ok_or(RequestFault::NoBlock)?;
        Self::of(&der)?.ok_or(RequestFault::Malformed)
    }

    fn of(der: &[u8]) -> Result<Option<Self>, RequestFault> {
        let read = || {
            let [outer] = parts(der)?;
            let [info, signed_by, signature] = parts(outer.content)?;
            let [version, subject, key] = parts(info.content)?;
            let [kind, bits] = parts(key.content)?;
            let tags = [outer.tag, info.tag, version.tag, subject.tag, key.tag, bits.tag, signature.tag];
            let wanted = [SEQUENCE, SEQUENCE, INTEGER, SEQUENCE, SEQUENCE, BIT_STRING, BIT_STRING];
            if tags != wanted || outer.whole.len() != der.len() {
                return None;
            }
            let attributes = Elements(info.content).nth(3).filter(|attributes| attributes.tag == context(0));
            let names = attributes.map_or_else(|| Some(Vec::new()), |attributes| names(&attributes))?;
            let who = Subject::read(subject.whole)?;
            let asked = Self { subject: subject.whole.to_vec(), key: key.whole.to_vec(), names, who };
            // Of bit strings the first byte counts the bits that are not used.
            let (public, signature) = (bits.content.get(1..)?, signature.content.get(1..)?);
            let [id] = parts(signed_by.content)?;
            Some((
                asked,
                algorithm(id.content, Elements(kind.content).nth(1).map(|curve| curve.content)),
                public,
                info.whole,
                signature,
            ))
        };
        let Some((asked, algorithm, public, signed, signature)) = read() else { return Ok(None) };
        let algorithm = algorithm.ok_or(RequestFault::Unknown)?;
        let verified = UnparsedPublicKey::new(algorithm, public).verify(signed, signature);
        verified.map_err(|_| RequestFault::Signature)?;
        Ok(Some(asked))
    }

    /// Whom it asks to be.
    pub fn subject(&self) -> &Subject {
        &self.who
    }

    /// Whether it asks for an alternative name of a kind.
    pub fn has(&self, kind: u8) -> bool {
        self.names.iter().any(|(of, _)| *of == kind)
    }
}

/// The alternative names among the attributes of a request; none where they are broken.
// upstream: crypto/x509 parseCSRExtensions, parseSANExtension: other kinds of names are passed over.
fn names(attributes: &Element<'_>) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut names = Vec::new();
    for attribute in Elements(attributes.content) {
        let [id, values] = parts(attribute.content)?;
        if id.content != EXTENSIONS {
            continue;
        }
        if values.tag != SET {
            return None;
        }
        let [list] = parts(values.content)?;
        for extension in Elements(list.content) {
            let mut elements = Elements(extension.content);
            let id = elements.next().filter(|id| id.tag == OBJECT)?;
            let value = elements.find(|element| element.tag == OCTET_STRING)?;
            if id.content != ALTERNATIVE_NAMES {
                continue;
            }
            let [all] = parts(value.content)?;
            let mut left = all.content;
            while !left.is_empty() {
                let name = Elements(left).next()?;
                left = left.get(name.whole.len()..)?;
                let is_good = match name.tag {
                    EMAIL | DNS | URI => name.content.is_ascii(),
                    IP => matches!(name.content.len(), 4 | 16),
                    _ => continue,
                };
                if !is_good {
                    return None;
                }
                names.push((name.tag, name.content.to_vec()));
            }
        }
    }
    Some(names)
}
