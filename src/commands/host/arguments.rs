//! What can be typed after `klab host`, and what it means for how the class is reached.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::on_kubernetes;
use super::{addresses, sign_in};
use klab_cluster::clock::later;
use klab_host::address::Network;
use klab_host::console;
use klab_host::webhook::delivery::{Receiver, Settings};
use klab_host::webhook::signature::Signer;
use klab_lab::spec::Track;
use klab_operations::environment;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::state::home::state_error;
use klab_server::Certificate;
use klab_server::files::write_private;

/// The default port, on an address that others reach.
const PORT: u16 = 8443;

/// What can be typed after `klab host`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lab files, or names of lessons that come with klab. A learner who joins gets a seat in the first one, and may choose another.
    #[arg(value_name = "LAB", required_unless_present_any = ["resume", "health", "practice"])]
    pub(super) labs: Vec<PathBuf>,
    /// Have learners practise: the labs are tasks, each learner has the same time from when they join, and finds the way alone.
    /// Without LAB, klab draws the tasks.
    #[arg(long, conflicts_with = "on_kubernetes")]
    pub(super) practice: bool,
    /// Draw only tasks of this track: scheduling, cka, aks or operators.
    #[arg(long, requires = "practice", conflicts_with = "labs")]
    pub(super) track: Option<Track>,
    /// How long each learner practises.
    #[arg(long, requires = "practice", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(super) minutes: u16,
    /// Draw by this number: the same number gives the same tasks, also at other shards of the class.
    #[arg(long, value_name = "NUMBER", requires = "practice", conflicts_with = "labs")]
    pub(super) draw: Option<u64>,
    /// What the class is called here; the first lab's name by default.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) name: Option<String>,
    /// Where to listen; what `KLAB_LISTEN` says, or this machine alone by default. Any other address is secured by TLS.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = listen)]
    pub(super) listen: Option<SocketAddr>,
    /// What people call the host, where that is another address than it listens at: the name of a proxy, with a path if it has one.
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(super) url: Option<String>,
    /// A TLS certificate (PEM, with those that vouch for it); one of klab's own authority by default.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// The authority (PEM) that kubeconfigs are to trust, where the certificate is of one that machines do not trust anyway.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Addresses of proxies at which TLS ends; only they and this machine may connect, and klab believes only their word on who is asking.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', requires = "url")]
    behind_proxy: Vec<Network>,
    /// Most seats.
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_seats: u32,
    /// When people may come, as a time (2026-06-01T09:00:00Z) or from now on (30m); at once by default.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(super) opens: Option<When>,
    /// When the class closes: nothing is changed any more.
    #[arg(long, value_name = "WHEN", default_value = "8h", value_parser = when)]
    pub(super) closes: When,
    /// For how long a closed class is kept.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = long)]
    pub(super) keep: Duration,
    /// When the code of the class stops admitting new learners.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(super) code_expires: Option<When>,
    /// How many people the code of the class lets in.
    #[arg(long, value_name = "COUNT")]
    pub(super) code_uses: Option<u32>,
    /// Make this many codes for one seat each, and print them.
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(super) seat_codes: u32,
    /// Which shard of a class that several hosts share.
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub(super) shard: u32,
    /// The number of shards: a learner is sent to the shard that has their seat, or the most room.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) shards: u32,
    /// Where shards reach each other, with `{}` in place of the number: `http://klab-{}.klab-shards:8443`.
    #[arg(long, value_name = "URL", requires = "join_code_file", requires = "shard_secret_file")]
    pub(super) shard_address: Option<String>,
    /// Take from this file what all shards know and no learner: with it they know each other, and one link is the instructor's at all of them.
    #[arg(long, value_name = "FILE")]
    pub(super) shard_secret_file: Option<PathBuf>,
    /// Take the code of the class from this file; klab makes one otherwise.
    #[arg(long, value_name = "FILE")]
    pub(super) join_code_file: Option<PathBuf>,
    /// Tell this address (https) what happens in the class, in signed requests (Standard Webhooks).
    #[arg(long, value_name = "URL", requires = "webhook_secret_file", conflicts_with = "on_kubernetes")]
    webhook: Option<Receiver>,
    /// The secret that these requests are signed with, `whsec_` and base64; a second line is the one before it.
    #[arg(long, value_name = "FILE", requires = "webhook")]
    webhook_secret_file: Option<PathBuf>,
    /// Tell the names of learners, too.
    #[arg(long, requires = "webhook")]
    webhook_names: bool,
    #[command(flatten)]
    pub(super) sign_in: sign_in::Arguments,
    #[command(flatten)]
    pub(super) console: console::Arguments,
    #[command(flatten)]
    pub(super) on_kubernetes: on_kubernetes::Arguments,
    /// Bring back a class that was hosted before, with its codes, seats and progress; with LAB, begin it where there is none.
    #[arg(long)]
    pub(super) resume: bool,
    /// Ask the class that this machine hosts whether it serves, and end: for health checks of containers.
    #[arg(long, conflicts_with_all = ["labs", "resume"])]
    pub(super) health: bool,
    /// Set a variable of the labs' templates.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = super::super::variable)]
    pub(super) vars: Vec<(String, String)>,
    /// Let labs read files outside the folders of their files.
    #[arg(long)]
    pub(super) allow_outside: bool,
}

/// A moment: one that is named, or one from now on.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// At a time.
    At(Timestamp),
    /// So long after.
    After(SignedDuration),
}

impl When {
    /// The moment, counted from another one.
    pub(super) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::After(duration) => later(now, duration),
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let good = (1..=40).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-');
    if good { Ok(text.to_owned()) } else { Err("expected small letters, digits and hyphens, at most 40".to_owned()) }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let bare = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    let text = text.strip_prefix("localhost").map_or_else(|| text.to_owned(), |rest| format!("127.0.0.1{rest}"));
    text.parse()
        .ok()
        .or_else(|| bare(&text))
        .ok_or_else(|| "expected an address such as 0.0.0.0:8443 or [::]:8443".to_owned())
}

fn url(text: &str) -> Result<String, String> {
    let good = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).is_some_and(|rest| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._~:[]/".contains(letter);
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.chars().all(plain)
            && !rest.contains("//")
            && !rest.contains("/..")
    });
    if good {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("expected an address such as https://labs.example.org/kubernetes".to_owned())
    }
}

fn when(text: &str) -> Result<When, String> {
    if let Ok(at) = text.parse() {
        return Ok(When::At(at));
    }
    let wrong = |_| "expected a time such as 2026-06-01T09:00:00Z, or a duration such as 90m or 8h".to_owned();
    let duration = long(text).map_err(wrong)?;
    Ok(When::After(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)))
}

/// A duration that may be one of days.
fn long(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        Some(days) => Ok(Duration::from_hours(24).saturating_mul(days)),
        None => super::super::duration(text),
    }
}

/// How the class is reached.
pub(super) struct Way {
    pub(super) listen: SocketAddr,
    pub(super) certificate: Certificate,
    pub(super) url: Option<String>,
    pub(super) proxies: Vec<Network>,
    /// Other addresses at which it is reached.
    pub(super) others: Vec<String>,
}

impl Way {
    /// Notes how connections are secured, for who asks on this machine.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn note(&self, folder: &Path) -> Result<()> {
        let word = match self.certificate {
            Certificate::Own(_) => "own",
            Certificate::Given { .. } => "given",
            Certificate::Proxied { .. } => "http",
        };
        let path = folder.join("scheme");
        write_private(&path, word.as_bytes()).map_err(|error| state_error(error, "write", &path))
    }
}

impl Arguments {
    /// The webhook that hears what happens, if there is one.
    ///
    /// # Errors
    /// When the file of the secret cannot be read, or has none.
    pub(super) fn webhook(&self) -> Result<Option<Settings>> {
        let Some((receiver, file)) = self.webhook.clone().zip(self.webhook_secret_file.as_ref()) else {
            return Ok(None);
        };
        let problem = || format!("could not read `{}`", file.display());
        let text = std::fs::read_to_string(file).code(Code::FileUnread, problem)?;
        let signer = Signer::new(&text).map_err(|words| {
            Error::message(Code::ClassSettings, format!("`{}` has no secret of a webhook: {words}", file.display()))
                .hint("`printf 'whsec_%s\\n' \"$(head -c 32 /dev/urandom | base64)\"` prints a new one")
        })?;
        Ok(Some(Settings { receiver, signer, names: self.webhook_names }))
    }

    /// How the class is reached.
    ///
    /// # Errors
    /// When the options do not go together, or a file cannot be read.
    pub(super) fn way(&self) -> Result<Way> {
        let from_environment = environment::KLAB_LISTEN.text().map(|text| {
            listen(&text)
                .map_err(|words| Error::message(Code::ClassSettings, format!("KLAB_LISTEN is `{text}`: {words}")))
        });
        let listen = match self.listen {
            Some(at) => at,
            None => from_environment.transpose()?.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
        };
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).code(Code::FileUnread, || format!("could not read `{}`", file.display()))
        };
        let authority = self.tls_ca.as_ref().map(read).transpose()?;
        let (mut url, mut others) = (self.url.clone(), Vec::new());
        let found = addresses::of(listen.ip());
        if url.is_none() && listen.ip().is_unspecified() {
            let port = if listen.port() == 0 { PORT } else { listen.port() };
            let mut all = found.addresses.iter().map(|ip| format!("https://{}", SocketAddr::new(*ip, port)));
            url = all.next();
            others.extend(all);
        }
        let certificate = match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Certificate::Given { chain: read(chain)?, key: read(key)?, authority },
            _ if !self.behind_proxy.is_empty() => Certificate::Proxied { authority },
            _ if authority.is_some() => {
                let message = "`--tls-ca` belongs to a certificate of yours";
                return Err(Error::message(Code::ClassSettings, message)
                    .hint("`--tls-cert` and `--tls-key` say which one it is"));
            }
            _ => Certificate::Own(found.names(url.as_deref())),
        };
        if matches!(&certificate, Certificate::Proxied { .. })
            && url.as_ref().is_some_and(|url| !url.starts_with("https://"))
        {
            let message = "people would send their tokens over an open line: the proxy's `--url` is not https";
            return Err(
                Error::message(Code::ClassSettings, message).hint("`--behind-proxy` is for a proxy at which TLS ends")
            );
        }
        let listen = match listen {
            at if at.ip().is_unspecified() && at.port() == 0 => SocketAddr::new(at.ip(), PORT),
            at => at,
        };
        Ok(Way { listen, certificate, url, proxies: self.behind_proxy.clone(), others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_times_are_read_as_people_write_them() {
        for (text, wanted) in [
            ("0.0.0.0:8443", Some("0.0.0.0:8443")),
            ("0.0.0.0", Some("0.0.0.0:8443")),
            ("[::]:1", Some("[::]:1")),
            ("::", Some("[::]:8443")),
            ("localhost:9000", Some("127.0.0.1:9000")),
            ("example.org:1", None),
            ("", None),
        ] {
            assert_eq!(listen(text).ok(), wanted.map(|text| text.parse().unwrap()), "{text}");
        }
        for (text, wanted) in [
            ("https://labs.example.org/", Some("https://labs.example.org")),
            ("https://h:8443/a/b/", Some("https://h:8443/a/b")),
            ("ftp://h", None),
            ("https://", None),
            ("https://h/?x", None),
            ("https://h/../x", None),
            ("https://h/a b", None),
        ] {
            assert_eq!(url(text).ok().as_deref(), wanted, "{text}");
        }
        assert_eq!(long("7d"), Ok(Duration::from_hours(168)));
        assert_eq!(long("90m"), Ok(Duration::from_mins(90)));
        assert!(long("soon").is_err());
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(when("1h").unwrap().from(now).as_second(), 3600);
        assert_eq!(when("1970-01-02T00:00:00Z").unwrap().from(now).as_second(), 86_400);
        assert!(when("tomorrow").is_err());
        assert!(name("Class").is_err() && name("a/b").is_err() && name("class-1").is_ok());
    }
}
