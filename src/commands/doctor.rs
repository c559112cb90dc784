//! `klab doctor`: what this machine offers for labs, and what would have to be mended.

mod how;

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;

use self::how::{System, Tool, to_get};
use super::Context;
use klab_lab::words::{plural, table};
use klab_operations::environment;
use klab_operations::error::{Code, Error, Result};
use klab_operations::exec::{self, Command};
use klab_operations::kubeconfig;
use klab_operations::provider::aks::az;
use klab_operations::provider::kind::docker;
use klab_operations::provider::kind::version::KindVersion;
use klab_operations::provider::sim::daemon;
use klab_operations::ui::Format;
use klab_server::files::create_private_folder;

/// What can be typed after `klab doctor`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// How long a tool may take to say its version.
const TOOL: Duration = Duration::from_secs(20);

/// How a finding is to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    Optional,
    Bad,
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Optional => "absent",
            Self::Bad => "broken",
        }
    }
}

struct Finding {
    mark: Mark,
    /// The problem, where there is one.
    code: Option<Code>,
    subject: &'static str,
    fact: String,
    fix: Option<String>,
}

impl Finding {
    /// That what is there is of no use, where it is there.
    fn useless_if(self, is_useless: bool, code: Code, why: &str) -> Self {
        if self.mark != Mark::Good || !is_useless {
            return self;
        }
        Self { mark: Mark::Optional, code: Some(code), fact: format!("{}: {why}", self.fact), ..self }
    }

    /// The fact, with the code of the problem.
    fn fact_with_code(&self) -> String {
        self.code.map_or_else(|| self.fact.clone(), |code| format!("{} ({code})", self.fact))
    }

    /// With what mends it, where it is not good and does not say so itself.
    fn or_fix(mut self, fix: &str) -> Self {
        if self.mark != Mark::Good {
            self.fix.get_or_insert_with(|| fix.to_owned());
        }
        self
    }
}

/// Looks, and prints one line for each thing.
///
/// # Errors
/// When something klab cannot do without is broken.
pub fn run(context: &Context, _: &Arguments) -> Result<()> {
    let mut findings = vec![state(context), loopback(), kubectl(), kind(), runtime(), azure(), current_context()];
    findings.extend(server(context));
    let broken: Vec<&Finding> = findings.iter().filter(|finding| finding.mark == Mark::Bad).collect();
    if context.ui.format() == Format::Json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({ "subject": finding.subject, "state": finding.mark.word(), "code": finding.code, "fact": finding.fact, "fix": finding.fix })
            })
            .collect();
        context.ui.result(&json!({ "schema": "klab.doctor/1", "ok": broken.is_empty(), "findings": list }).to_string());
    } else {
        let row = |finding: &Finding| {
            vec![finding.mark.word().to_owned(), finding.subject.to_owned(), finding.fact_with_code()]
        };
        context.ui.result(&table(&findings.iter().map(row).collect::<Vec<_>>()));
        for finding in &findings {
            if let Some(fix) = &finding.fix {
                context.ui.advise(&format!("hint: {}: {fix}", finding.subject));
            }
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let names = broken.iter().map(|finding| finding.subject).collect::<Vec<_>>().join(", ");
    Err(Error::message(Code::MachineRefused, format!("klab cannot work here: {names}")))
}

fn state(context: &Context) -> Finding {
    let root = context.home.root();
    let existed = root.exists();
    let writable = create_private_folder(root).and_then(|()| tempfile::tempfile_in(root));
    if !existed {
        // Looking must not leave traces.
        let _ = std::fs::remove_dir(root);
    }
    match writable {
        Ok(_) => good("state folder", root.display().to_string()),
        Err(error) => Finding {
            mark: Mark::Bad,
            code: Some(Code::StateFolder),
            subject: "state folder",
            fact: format!("`{}` cannot be written: {error}", root.display()),
            fix: Some("set KLAB_HOME to a folder you can write to".to_owned()),
        },
    }
}

fn loopback() -> Finding {
    match std::net::TcpListener::bind(("127.0.0.1", 0)) {
        Ok(_) => good("loopback", "127.0.0.1 takes connections, the embedded cluster can be served".to_owned()),
        Err(error) => Finding {
            mark: Mark::Bad,
            code: Some(Code::MachineRefused),
            subject: "loopback",
            fact: format!("127.0.0.1 refuses a port: {error}"),
            fix: Some("allow connections to 127.0.0.1; the embedded cluster is served there".to_owned()),
        },
    }
}

/// The server of embedded clusters, where one is running.
fn server(context: &Context) -> Option<Finding> {
    match context.block_on(daemon::look(&context.home)) {
        Ok(None) => None,
        Ok(Some((access, health))) => {
            let labs = plural(health.clusters.len(), "cluster");
            if !health.faults.is_empty() {
                let fix = "delete or change these objects; their labs work without them";
                let fact = health.faults.join("; ");
                return Some(Finding {
                    mark: Mark::Bad,
                    code: Some(Code::Server),
                    subject: "server",
                    fact,
                    fix: Some(fix.to_owned()),
                });
            }
            Some(good("server", format!("process {} serves {labs} at {}", health.pid, access.address)))
        }
        Err(error) => {
            let error = context.advised(error);
            let fix = error.hints.first().cloned();
            Some(Finding {
                mark: Mark::Bad,
                code: Some(error.code),
                subject: "server",
                fact: format!("{error:#}"),
                fix,
            })
        }
    }
}

fn kubectl() -> Finding {
    tool("kubectl", &["version", "--client"], "klab does not need it, learners do")
        .or_fix(to_get(Tool::Kubectl, System::here()))
}

fn kind() -> Finding {
    let found = tool("kind", &["version"], "labs on kind need it");
    let is_old = KindVersion::parse(&found.fact).is_some_and(|version| version < KindVersion::OLDEST);
    let fit = found.useless_if(
        is_old,
        Code::ToolTooOld,
        &format!("too old, labs on kind need {} or newer", KindVersion::OLDEST),
    );
    fit.or_fix(to_get(Tool::Kind, System::here()))
}

/// The container runtime of kind, found as labs on kind find it.
fn runtime() -> Finding {
    match docker::find(environment::KIND_EXPERIMENTAL_PROVIDER.text().as_deref(), &docker::Memory::default()) {
        Ok((runtime, _)) => good("containers", format!("{} answers", runtime.program())),
        Err(error) => Finding {
            mark: Mark::Optional,
            code: Some(error.code),
            subject: "containers",
            fact: format!("{error}; labs on kind need Docker, Podman or nerdctl"),
            // Where one is there and does not answer, its own words say what mends that.
            fix: if ["docker", "podman", "nerdctl"].into_iter().any(is_on_path) {
                error.hints.first().cloned()
            } else {
                Some(to_get(Tool::Containers, System::here()).to_owned())
            },
        },
    }
}

fn is_on_path(program: &str) -> bool {
    let folders = environment::PATH.value().unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

fn azure() -> Finding {
    let absent = "labs on aks need it";
    let Some(program) = az::program() else { return missing("az", absent).or_fix(to_get(Tool::Az, System::here())) };
    let found = answer_of("az", program.clone(), &["version", "--output", "tsv"], absent);
    let (major, minor) = az::OLDEST;
    let is_old = is_old_az(&found.fact);
    let fit =
        found.useless_if(is_old, Code::ToolTooOld, &format!("too old, labs on aks need {major}.{minor} or newer"));
    if fit.mark != Mark::Good {
        return fit.or_fix(to_get(Tool::Az, System::here()));
    }
    // Who is logged in stands in a file: Azure is not asked.
    let account = Command::new(program).args(["account", "show", "--output", "none"]).output(TOOL);
    fit.useless_if(account.is_err(), Code::AzureLogin, "there is no login, and labs on aks need a subscription")
        .or_fix("`az login`")
}

/// Whether `az version` says one that lacks what klab uses; what it says may be anything.
fn is_old_az(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < az::OLDEST)
}

/// The default cluster of `klab explain` without a lab, and of labs on `existing`.
fn current_context() -> Finding {
    match kubeconfig::read(None).and_then(|kubeconfig| kubeconfig::of_context(kubeconfig, None)) {
        Ok(kubeconfig) => {
            let server = kubeconfig.clusters.iter().find_map(|named| named.cluster.as_ref()?.server.clone());
            let name = kubeconfig.current_context.unwrap_or_default();
            good("context", format!("{name}, at {}", server.unwrap_or_default()))
        }
        Err(error) => Finding {
            mark: Mark::Optional,
            code: Some(error.code),
            subject: "context",
            fact: format!("{error}; `klab explain --context` and labs on existing need one"),
            fix: None,
        },
    }
}

fn good(subject: &'static str, fact: String) -> Finding {
    Finding { mark: Mark::Good, code: None, subject, fact, fix: None }
}

fn missing(name: &'static str, absent: &str) -> Finding {
    Finding {
        mark: Mark::Optional,
        code: Some(Code::ToolMissing),
        subject: name,
        fact: format!("not on PATH; {absent}"),
        fix: None,
    }
}

fn tool(name: &'static str, arguments: &[&str], absent: &str) -> Finding {
    answer_of(name, name.into(), arguments, absent)
}

fn answer_of(name: &'static str, program: OsString, arguments: &[&str], absent: &str) -> Finding {
    match Command::new(program).args(arguments.iter().copied()).output(TOOL) {
        Ok(output) => good(name, output.lines().next().unwrap_or("there").trim().to_owned()),
        Err(exec::Error::Missing { .. }) => missing(name, absent),
        Err(error) => Finding {
            mark: Mark::Optional,
            code: Some(Code::ToolFailed),
            subject: name,
            fact: error.to_string().lines().next().unwrap_or_default().to_owned(),
            fix: Some(format!("`{name} {}` should answer", arguments.join(" "))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_az_is_too_old_where_it_says_so() {
        for (said, is_old) in [
            ("2.59.0\t2.59.0\t1.1.0", true),
            ("1.90.1", true),
            ("2.60.0\t2.60.0\t1.1.0", false),
            ("2.91.0", false),
            ("of-azure", false),
            ("2", false),
            ("", false),
        ] {
            assert_eq!(is_old_az(said), is_old, "{said}");
        }
    }

    #[test]
    fn what_is_there_and_of_no_use_is_told_with_what_mends_it() {
        let found = good("kind", "kind v0.20.0".to_owned())
            .useless_if(true, Code::ToolTooOld, "too old")
            .or_fix("take a newer one");
        assert!(found.mark == Mark::Optional);
        assert_eq!((found.fact.as_str(), found.fix.as_deref()), ("kind v0.20.0: too old", Some("take a newer one")));
        let fit = good("kind", "kind v0.30.0".to_owned())
            .useless_if(false, Code::ToolTooOld, "too old")
            .or_fix("take a newer one");
        assert_eq!((fit.fact.as_str(), fit.fix), ("kind v0.30.0", None));
        let absent = missing("kind", "needed").useless_if(true, Code::ToolTooOld, "too old").or_fix("take it");
        assert_eq!((absent.fact.as_str(), absent.fix.as_deref()), ("not on PATH; needed", Some("take it")));
    }
}
