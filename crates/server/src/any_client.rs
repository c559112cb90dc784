//! Client certificates in TLS handshakes: the server takes any, and finds out whose it is when a request comes. So a client
//! whose certificate is not good, or no longer good, gets the answer 401, as from every API server.

// upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go: `tls.RequestClientCert` (v1.36)

use std::io;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Takes the certificates of all who have their key.
#[derive(Debug)]
pub(super) struct AnyClient {
    provider: Arc<CryptoProvider>,
    /// The authorities whose certificates are of use, the server's and those of its clusters: clients send one of theirs.
    hints: Vec<DistinguishedName>,
}

impl AnyClient {
    /// For certificates that this authority signed.
    pub(super) fn new(authority: &CertificateDer<'static>, provider: &Arc<CryptoProvider>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).map_err(io::Error::other)?;
        let mut hints = roots.subjects();
        hints.push(DistinguishedName::from(klab_api_machinery::certificates::name()));
        Ok(Self { provider: Arc::clone(provider), hints })
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
