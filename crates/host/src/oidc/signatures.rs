//! Signatures of ID tokens, checked by ring: public keys alone. A provider that signs with a shared secret is refused.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// What tokens may be signed with.
pub(crate) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// How an algorithm's signatures are checked.
enum Way {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

fn way(algorithm: Algorithm) -> Option<Way> {
    Some(match algorithm {
        Algorithm::RS256 => Way::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Way::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Way::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Way::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Way::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Way::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Way::Point(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Way::Point(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Way::Point(&signature::ED25519),
        _ => return None,
    })
}

/// A key, and the algorithm that it is taken for.
struct Checked {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for Checked {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Error> {
        let verified = match (way(self.algorithm), self.key.kind()) {
            (Some(Way::Rsa(parameters)), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Some(Way::Point(by)), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(by, point).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Checked {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

static RING: CryptoProvider = CryptoProvider {
    // klab signs no tokens.
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| {
        if way(*algorithm).is_none() || algorithm.family() != key.family() {
            return Err(new_error(ErrorKind::UnsupportedAlgorithm));
        }
        Ok(Box::new(Checked { algorithm: *algorithm, key: key.clone() }))
    },
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        rsa_pub_components_from_public_key: |_| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        ec_pub_components_from_private_key: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        ed_pub_components_from_private_key: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        compute_digest: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    },
};

/// Has tokens of this process checked by ring.
pub(crate) fn by_ring() {
    // It is ring's already, after the first time.
    let _ = RING.install_default();
}
