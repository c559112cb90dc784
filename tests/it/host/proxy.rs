//! nginx as a proxy at which TLS ends. `.ci/nginx` says where it is, in `KLAB_NGINX`; else the one on `PATH` is taken, and without
//! any the tests that need one are skipped, and say so.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::running::free_port;
use crate::skipped::is_there;

/// nginx, while it runs.
pub(super) struct Proxy {
    child: Child,
    /// Where it listens: `https://HOST:PORT`.
    pub(super) url: String,
    folder: tempfile::TempDir,
    /// The certificate, PEM.
    pub(super) authority: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its workers end with it where it is asked to; killed, it would leave them.
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn program() -> String {
    std::env::var("KLAB_NGINX").unwrap_or_else(|_| "nginx".to_owned())
}

/// Whether there is one.
pub(super) fn has_nginx() -> bool {
    is_there(&program())
}

/// Whether nobody listens at a port of this machine.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Where a proxy listens, and what it is run with.
pub(super) struct Place<'p> {
    pub(super) address: IpAddr,
    /// None: any that is free.
    pub(super) port: Option<u16>,
    /// As people call it.
    pub(super) name: &'p str,
    /// Words before nginx's own, for another network namespace.
    pub(super) within: &'p [&'p str],
}

impl Proxy {
    /// On this machine, as `localhost`; `outside` stands before its server, `inside` in it.
    pub(super) fn start(outside: &str, inside: &str) -> Self {
        let address = IpAddr::from([127, 0, 0, 1]);
        let proxy = Self::at(&Place { address, port: None, name: "localhost", within: &[] }, outside, inside);
        proxy.wait(address);
        proxy
    }

    /// At a place. Nobody has waited for it.
    pub(super) fn at(place: &Place<'_>, outside: &str, inside: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let made = rcgen::generate_simple_self_signed(vec![place.name.to_owned()]).unwrap();
        std::fs::write(path("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(path("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let port = place.port.unwrap_or_else(free_port);
        let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", path(kind)))
            .concat();
        // Workers of a root's nginx are another user, who may not enter the folder of the temporary files.
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let text = format!(
            "{user}daemon off;\nworker_processes 1;\npid {};\nerror_log {} warn;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}{outside}\
             server {{\nlisten {}:{port} ssl;\nssl_certificate {};\nssl_certificate_key {};\n{inside}}}\n}}\n",
            path("pid"),
            path("error.log"),
            place.address,
            path("tls.crt"),
            path("tls.key"),
        );
        std::fs::write(path("nginx.conf"), text).unwrap();
        let arguments = ["-e", &path("error.log"), "-p", &path(""), "-c", &path("nginx.conf")];
        let words: Vec<String> = place.within.iter().map(|word| (*word).to_owned()).chain([program()]).collect();
        let mut nginx = Command::new(&words[0]);
        nginx.args(&words[1..]).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = nginx.spawn().unwrap();
        let url = format!("https://{}:{port}", place.name);
        Self { child, url, authority: made.cert.pem(), folder }
    }

    fn wait(&self, address: IpAddr) {
        let port = self.url.rsplit(':').next().unwrap().parse().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(SocketAddr::new(address, port)).is_err() {
            let log = self.folder.path().join("error.log");
            assert!(Instant::now() < until, "{}", std::fs::read_to_string(log).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
