//! What can be typed after `klab host` for people who sign in at an identity provider, and what it means here and on Kubernetes.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use klab_host::oidc::settings::{Rule, Settings};
use klab_host::on_kubernetes::manifests::SignIn;
use klab_host::service_address::Address;
use klab_operations::error::{Code, Context as _, Error, Result};

/// Where the files of the options are in the pods of a class.
const FOLDER: &str = "/run/secrets/klab-oidc";
/// The key of the secret's text, and of the authority.
const SECRET: &str = "client-secret";
const AUTHORITY: &str = "ca.pem";

/// Where systems keep the authorities that they trust: Debian and Alpine, Fedora, SUSE, macOS.
const TRUSTED: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Most that a secret of Kubernetes holds, with room for the rest of it.
const MAX_SECRET: usize = 900 * 1024;

/// What can be typed after `klab host` for people who sign in.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Let people join by signing in at this identity provider (OpenID Connect), letter for letter as it calls itself.
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer: Option<Address>,
    /// What the provider calls this class: the client that is registered there, with the address `URL/oidc/callback`.
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    oidc_client_id: Option<String>,
    /// The secret that the provider has given the client; none for a public client.
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Users who may join by signing in alone: `anybody`, `domain=example.org`, `email=ann@example.org`, or a claim and its value such as
    /// `groups=platform`; repeat the flag for several rules; one match is enough. Without it, a new learner also types the code.
    #[arg(long, value_name = "WHO", requires = "oidc_issuer")]
    oidc_allow: Vec<Rule>,
    /// Users who become instructors by signing in, with the same rules.
    #[arg(long, value_name = "WHO", requires = "oidc_issuer")]
    oidc_instructors: Vec<Rule>,
    /// What the provider is asked for besides `openid`: some name groups only where `groups` is among it.
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', default_value = "profile,email", value_parser = scope)]
    oidc_scopes: Vec<String>,
    /// The authority (PEM) that vouches for the provider, where machines do not know it.
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    oidc_ca: Option<PathBuf>,
}

fn scope(text: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_graphic() && letter != '"' && letter != '\\';
    if !text.is_empty() && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected words such as profile,email,groups".to_owned())
    }
}

impl Arguments {
    /// Where people sign in, if they do; `shards` share the class.
    ///
    /// # Errors
    /// When a file cannot be read, or the options do not go together.
    pub(super) fn settings(&self, shards: u32) -> Result<Option<Settings>> {
        let Some((issuer, client_id)) = self.oidc_issuer.clone().zip(self.oidc_client_id.clone()) else {
            return Ok(None);
        };
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).code(Code::FileUnread, || format!("could not read `{}`", path.display()))
        };
        let secret = self.oidc_client_secret_file.as_ref().map(read).transpose()?;
        if let (Some(text), Some(path)) = (&secret, &self.oidc_client_secret_file)
            && text.trim().is_empty()
        {
            return Err(Error::message(Code::ClassSettings, format!("`{}` has no secret in it", path.display()))
                .hint("a public client has none: leave `--oidc-client-secret-file` out"));
        }
        let settings = Settings {
            issuer,
            client_id,
            client_secret: secret.map(|text| text.trim().to_owned()),
            authority: self.oidc_ca.as_ref().map(read).transpose()?,
            scopes: self.oidc_scopes.clone(),
            allow: self.oidc_allow.clone(),
            instructors: self.oidc_instructors.clone(),
        };
        if shards > 1 && settings.needs_code() {
            let message = "learners who sign in to a class of several shards need no code, so a rule must say who may";
            return Err(Error::message(Code::ClassSettings, message)
                .hint("`--oidc-allow groups=platform` or `--oidc-allow domain=example.org` says who may join")
                .hint("`--oidc-allow anybody` admits every user whom the provider signs in"));
        }
        Ok(Some(settings))
    }

    /// The same for the pods of a class on Kubernetes: their arguments, and the texts of a secret.
    ///
    /// # Errors
    /// As [`Arguments::settings`].
    pub(super) fn on_kubernetes(&self) -> Result<Option<(SignIn, Map<String, Value>)>> {
        // It may have one shard today and several tomorrow.
        let Some(mut settings) = self.settings(2)? else { return Ok(None) };
        if settings.authority.is_none() && settings.issuer.is_tls() {
            settings.authority = Some(trusted()?);
        }
        let mut arguments =
            vec![format!("--oidc-issuer={}", settings.issuer), format!("--oidc-client-id={}", settings.client_id)];
        arguments.extend(settings.allow.iter().map(|rule| format!("--oidc-allow={rule}")));
        arguments.extend(settings.instructors.iter().map(|rule| format!("--oidc-instructors={rule}")));
        arguments.push(format!("--oidc-scopes={}", settings.scopes.join(",")));
        let mut files = Map::new();
        let texts = [
            ("--oidc-client-secret-file", SECRET, settings.client_secret),
            ("--oidc-ca", AUTHORITY, settings.authority),
        ];
        for (option, file, text) in texts {
            if let Some(text) = text {
                arguments.push(format!("{option}={FOLDER}/{file}"));
                files.insert(file.to_owned(), json!(text));
            }
        }
        let port = settings.issuer.port();
        Ok(Some((SignIn { arguments, port, folder: (!files.is_empty()).then(|| FOLDER.to_owned()) }, files)))
    }
}

/// The authorities that this machine trusts: the image of klab has the binary and nothing else.
fn trusted() -> Result<String> {
    let found =
        TRUSTED.iter().find_map(|path| std::fs::read_to_string(path).ok().filter(|text| text.len() <= MAX_SECRET));
    found.ok_or_else(|| {
        let message =
            "the shards need to know whose certificates they trust, and this machine has no such file at a usual place";
        Error::message(Code::ClassSettings, message)
            .hint("`--oidc-ca FILE` names the authority of the identity provider's certificate")
    })
}
