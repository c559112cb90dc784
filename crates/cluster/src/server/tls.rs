//! Certificates: one authority for each server, kept so that kubeconfigs stay good, and client certificates it signs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{CipherSuite, RootCertStore, ServerConfig};

use crate::server::files::write_private;

/// How many years certificates are good for; labs do not live as long.
const YEARS: i32 = 10;

/// The server's certificate authority and its own certificate.
pub(super) struct Identity {
    /// The authority's certificate, PEM.
    pub(super) authority: String,
    authority_key: String,
    /// How connections are secured.
    pub(super) config: Arc<ServerConfig>,
}

/// A client certificate and its key, PEM.
pub(super) struct ClientCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

fn parameters(name: &str, addresses: &[&str]) -> io::Result<CertificateParams> {
    let names: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).map_err(other)?;
    let year = i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    // From the year before, for machines whose clock is behind.
    parameters.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

impl Identity {
    /// The identity kept in a folder; made, and written, when there is none.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let kept = (read("authority.pem"), read("authority.key"), read("server.pem"), read("server.key"));
        if let (Ok(authority), Ok(authority_key), Ok(certificate), Ok(key)) = kept
            && let Ok(config) = server_config(&authority, &certificate, &key)
        {
            return Ok(Self { authority, authority_key, config });
        }
        let mut ca = parameters("klab embedded cluster", &[])?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_key = KeyPair::generate().map_err(other)?;
        let authority = ca.self_signed(&ca_key).map_err(other)?.pem();
        let authority_key = ca_key.serialize_pem();
        let mut server = parameters("kube-apiserver", &["127.0.0.1", "localhost"])?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate().map_err(other)?;
        let certificate = server.signed_by(&server_key, &Issuer::new(ca, ca_key)).map_err(other)?.pem();
        let key = server_key.serialize_pem();
        let config = server_config(&authority, &certificate, &key)?;
        for (name, text) in [
            ("authority.pem", &authority),
            ("authority.key", &authority_key),
            ("server.pem", &certificate),
            ("server.key", &key),
        ] {
            write_private(&folder.join(name), text.as_bytes())?;
        }
        Ok(Self { authority, authority_key, config })
    }

    /// A client certificate of the authority.
    pub(super) fn client(&self, name: &str) -> io::Result<ClientCertificate> {
        let mut ca = parameters("klab embedded cluster", &[])?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let issuer = Issuer::new(ca, KeyPair::from_pem(&self.authority_key).map_err(other)?);
        let mut client = parameters("admin", &[])?;
        client.distinguished_name.push(DnType::OrganizationName, "system:masters");
        client.distinguished_name.push(DnType::OrganizationalUnitName, name);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(other)?;
        let certificate = client.signed_by(&key, &issuer).map_err(other)?.pem();
        Ok(ClientCertificate { certificate, key: key.serialize_pem() })
    }
}

/// The DER form of a certificate.
pub(super) fn der(pem: &str) -> io::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(other)
}

/// HTTP/2, as a TLS handshake names it.
pub(super) const HTTP_2: &[u8] = b"h2";

/// The provider, with what costs least first: handshakes are most of what a short command costs the server.
fn quick_provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

fn server_config(authority: &str, certificate: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(quick_provider());
    let mut roots = RootCertStore::empty();
    roots.add(der(authority)?).map_err(other)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(other)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(other)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(other)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![der(certificate)?], key)
        .map_err(other)?;
    config.ignore_client_order = true;
    // Clients are short commands, or keep their connection: none comes back with a ticket.
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
