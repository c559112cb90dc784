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
use rustls::{CipherSuite, ServerConfig};

use super::any_client::AnyClient;
use super::credentials::Token;
use super::host_name;
use crate::files::{gone, write_private};
use klab_api_machinery::certificates::Authority;

/// How many years certificates are good for; labs do not live as long.
const YEARS: i32 = 10;

/// The server's own certificate and key; those in files of other names, of an older klab, lack the clusters' host names.
const SERVING: &str = "serving.pem";
const SERVING_KEY: &str = "serving.key";
/// The names that it is good for, one a line; written last.
const SERVING_NAMES: &str = "serving.names";

/// The server's certificate authority and its own certificate.
pub(super) struct Identity {
    /// The authority's certificate, PEM.
    pub(super) authority: String,
    authority_key: String,
    /// The server's own certificate and its key, PEM.
    pub(super) serving: (String, String),
    /// How connections are secured.
    pub(super) config: Arc<ServerConfig>,
}

/// What certificates say of the cluster that they were signed for: the token does not follow from it.
pub(super) fn mark(cluster: &Token) -> [u8; 32] {
    cluster.secret("mark of certificates")
}

/// The authority that signs what is asked for in the cluster with this token. Its key is the cluster's own: what it signs says
/// nothing to those who trust the authority of the server.
pub(super) fn signer(cluster: &Token) -> Option<Authority> {
    Authority::new(&cluster.secret("key of certificate requests"), mark(cluster))
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

fn authority_parameters() -> io::Result<CertificateParams> {
    let mut parameters = parameters("klab embedded cluster", &[])?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

/// The authority as one that signs, of its key.
fn issuer(key: &str) -> io::Result<Issuer<'static, KeyPair>> {
    Ok(Issuer::new(authority_parameters()?, KeyPair::from_pem(key).map_err(other)?))
}

/// A fresh authority and its key, PEM.
fn new_authority() -> io::Result<(String, String)> {
    let key = KeyPair::generate().map_err(other)?;
    let authority = authority_parameters()?.self_signed(&key).map_err(other)?.pem();
    Ok((authority, key.serialize_pem()))
}

/// A server's certificate for these names, signed by the authority of this key, and its own key, PEM.
fn new_serving(authority_key: &str, names: &[&str]) -> io::Result<(String, String)> {
    let mut server = parameters("kube-apiserver", names)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(other)?;
    let certificate = server.signed_by(&key, &issuer(authority_key)?).map_err(other)?.pem();
    Ok((certificate, key.serialize_pem()))
}

impl Identity {
    /// The identity kept in a folder. What is missing is made, and written: another authority only where there is none, as
    /// kubeconfigs trust the one there is.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        Self::named(folder, &[])
    }

    /// As [`Identity::open`], with a certificate that is good for these names and addresses, too.
    pub(super) fn named(folder: &Path, names: &[String]) -> io::Result<Self> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let kept = (read("authority.pem"), read("authority.key"));
        let (authority, authority_key) = match kept {
            (Ok(authority), Ok(key)) if der(&authority).is_ok() && issuer(&key).is_ok() => (authority, key),
            _ => {
                let (authority, key) = new_authority()?;
                write_private(&folder.join("authority.pem"), authority.as_bytes())?;
                write_private(&folder.join("authority.key"), key.as_bytes())?;
                // No client accepts what another authority signed.
                gone(std::fs::remove_file(folder.join(SERVING)))?;
                (authority, key)
            }
        };
        let wanted: Vec<&str> =
            ["127.0.0.1", "localhost", host_name::ALL].into_iter().chain(names.iter().map(String::as_str)).collect();
        let lines = wanted.join("\n");
        let is_good = names.is_empty() || read(SERVING_NAMES).is_ok_and(|kept| kept == lines);
        if let (true, Ok(certificate), Ok(key)) = (is_good, read(SERVING), read(SERVING_KEY))
            && let Ok(config) = server_config(&authority, &certificate, &key)
        {
            return Ok(Self { authority, authority_key, serving: (certificate, key), config });
        }
        let (certificate, key) = new_serving(&authority_key, &wanted)?;
        let config = server_config(&authority, &certificate, &key)?;
        write_private(&folder.join(SERVING), certificate.as_bytes())?;
        write_private(&folder.join(SERVING_KEY), key.as_bytes())?;
        write_private(&folder.join(SERVING_NAMES), lines.as_bytes())?;
        Ok(Self { authority, authority_key, serving: (certificate, key), config })
    }

    /// One that is kept nowhere, for a server on loopback that ends before anybody asks again.
    pub(super) fn fleeting() -> io::Result<Self> {
        let (authority, authority_key) = new_authority()?;
        let (certificate, key) = new_serving(&authority_key, &["127.0.0.1", "localhost"])?;
        let config = server_config(&authority, &certificate, &key)?;
        Ok(Self { authority, authority_key, serving: (certificate, key), config })
    }

    /// A client certificate of the authority.
    pub(super) fn client(&self, name: &str) -> io::Result<ClientCertificate> {
        let issuer = issuer(&self.authority_key)?;
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

/// How connections are secured by a certificate that somebody gave, and no certificate of the other end is asked for.
pub(super) fn given(chain: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().map_err(other)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(quick_provider()))
        .with_safe_default_protocol_versions()
        .map_err(other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(other)?;
    Ok(furnished(config))
}

fn server_config(authority: &str, certificate: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(quick_provider());
    let verifier = Arc::new(AnyClient::new(&der(authority)?, &provider)?);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(other)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(other)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![der(certificate)?], key)
        .map_err(other)?;
    Ok(furnished(config))
}

fn furnished(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.ignore_client_order = true;
    // Clients are short commands, or keep their connection: none comes back with a ticket.
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;

    use super::*;
    use klab_api_machinery::certificates::Asked;
    use klab_api_machinery::certificates::{Order, mark as holder_mark};

    /// Whether somebody who trusts the authority of a server takes a certificate for that of a host.
    fn is_trusted(authority: &str, certificate: &str, host: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(der(authority).unwrap()).unwrap();
        let provider = Arc::new(quick_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let host = rustls::pki_types::ServerName::try_from(host).unwrap();
        let now = rustls::pki_types::UnixTime::now();
        verifier.verify_server_cert(&der(certificate).unwrap(), &[], &host, &[], now).is_ok()
    }

    #[test]
    fn what_a_cluster_signs_is_no_certificate_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::named(folder.path(), &["labs.example".to_owned()]).unwrap();
        let cluster = Token::of("t");
        let signer = signer(&cluster).expect("an authority");
        let hosts = ["labs.example", "localhost", "127.0.0.1"];
        for name in hosts.into_iter().chain(["system:node:n", "klab embedded cluster", "kube-apiserver"]) {
            let mut asked = CertificateParams::new(hosts.map(str::to_owned).to_vec()).unwrap();
            asked.distinguished_name.push(DnType::CommonName, name);
            asked.distinguished_name.push(DnType::OrganizationName, "system:nodes");
            let request = asked.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
            let asked = Asked::read(&request).expect("a request");
            for usages in [&["client auth", "digital signature"][..], &["server auth", "digital signature"]] {
                let lifetime = jiff::SignedDuration::from_hours(1);
                let order = Order { asked: &asked, usages, lifetime, now: jiff::Timestamp::now(), serial: 7 };
                let certificate = signer.sign(&order);
                for host in hosts {
                    assert!(is_trusted(&identity.authority, &identity.serving.0, host), "the server's own");
                    assert!(!is_trusted(&identity.authority, &certificate, host), "{name} {usages:?} {host}");
                }
                let leaf = der(&certificate).unwrap();
                assert_eq!(holder_mark(&leaf), Some(mark(&cluster)));
                assert_eq!(signer.holder(&leaf).is_some(), usages[0] == "client auth");
                let other = super::signer(&Token::of("u")).unwrap();
                assert!(other.holder(&leaf).is_none(), "of another cluster");
            }
        }
    }

    #[test]
    fn an_authority_outlives_a_certificate_that_lacks_the_host_names() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::open(folder.path()).unwrap();
        let serving = folder.path().join(SERVING);
        let certificate = std::fs::read(&serving).unwrap();
        assert_eq!(Identity::open(folder.path()).unwrap().authority, first.authority);
        assert_eq!(std::fs::read(&serving).unwrap(), certificate, "what is there is kept");
        std::fs::remove_file(&serving).unwrap();
        assert_eq!(Identity::open(folder.path()).unwrap().authority, first.authority);
        assert_ne!(std::fs::read(&serving).unwrap(), certificate);
        std::fs::write(folder.path().join("authority.key"), "not a key").unwrap();
        let certificate = std::fs::read(&serving).unwrap();
        assert_ne!(Identity::open(folder.path()).unwrap().authority, first.authority);
        assert_ne!(std::fs::read(&serving).unwrap(), certificate, "signed by the other authority");
    }

    #[test]
    fn a_certificate_is_made_again_when_its_names_change_and_the_authority_stays() {
        let folder = tempfile::tempdir().unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let identity = Identity::named(folder.path(), &names).unwrap();
            (identity.authority, std::fs::read(folder.path().join(SERVING)).unwrap())
        };
        let first = names(&["lab.example", "10.0.0.7"]);
        assert_eq!(names(&["lab.example", "10.0.0.7"]), first);
        let second = names(&["lab.example", "10.0.0.8", "fd00::8"]);
        assert_eq!(second.0, first.0);
        assert_ne!(second.1, first.1);
        assert!(given("no certificate", "no key").is_err());
    }
}
