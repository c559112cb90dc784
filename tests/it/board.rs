//! `klab board` through the binary: what it serves and to whom, what it writes, and what a browser makes of it.

pub(crate) mod browser;
mod served;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::environment::Environment;

/// A page that is served until it is dropped.
pub(crate) struct Page {
    klab: Child,
    /// The address that opens it once.
    pub(crate) link: String,
}

impl Page {
    pub(crate) fn of(environment: &Environment) -> Self {
        Self::with(environment, &[])
    }

    fn with(environment: &Environment, options: &[&str]) -> Self {
        let mut klab = environment.command(&["board", "--no-open"]);
        let mut klab = klab.args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut link = String::new();
        BufReader::new(klab.stdout.take().unwrap()).read_line(&mut link).unwrap();
        Self { klab, link: link.trim().to_owned() }
    }

    /// `127.0.0.1:PORT`, and the word that opens the page.
    fn parts(&self) -> (&str, &str) {
        self.link.strip_prefix("http://").unwrap().split_once("/?open=").unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.klab.kill();
        let _ = self.klab.wait();
    }
}
