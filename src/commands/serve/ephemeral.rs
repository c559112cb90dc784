//! `klab serve --ephemeral`: one cluster for a program's tests, in any language, which ends with that program and leaves
//! nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use klab_server::ephemeral::{EphemeralOptions, EphemeralServer, Time};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::controllers::switched_off;
use super::definitions::Definitions;
use super::kubeconfig_file::{self, KubeconfigFile};
use super::parent::Parent;
use super::ready::ReadyFile;
use super::refusal::start_error;
use klab_operations::error::{Code, Context as _, Error, Kind, Result};

/// What can be typed after `klab serve --ephemeral`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Print the kubeconfig on stdout when the cluster is ready, as one line of JSON; so it is unless `--kubeconfig` is given.
    #[arg(long, requires = "ephemeral", conflicts_with = "state_directory")]
    print_kubeconfig: bool,
    /// Write the kubeconfig to a file, which is removed in the end; stdout then says when the cluster is ready.
    #[arg(long, value_name = "FILE", requires = "ephemeral", conflicts_with = "state_directory")]
    kubeconfig: Option<PathBuf>,
    /// How many nodes there are.
    #[arg(long, value_name = "N", requires = "ephemeral", conflicts_with = "state_directory", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(0..=5000))]
    nodes: u16,
    /// Folder (or file) with CustomResourceDefinitions that are there from the beginning; may be repeated.
    #[arg(long, value_name = "DIR", requires = "ephemeral", conflicts_with = "state_directory")]
    crds: Vec<PathBuf>,
    /// Which controllers act, as kube-controller-manager takes it: `*,-deployment` leaves one out.
    #[arg(
        long,
        value_name = "NAMES",
        requires = "ephemeral",
        conflicts_with = "state_directory",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// The machine's clock, or one that stands still until it is moved: POST {"advance": "5m"} to /klab/v1/clock.
    #[arg(long, value_enum, default_value_t, requires = "ephemeral", conflicts_with = "state_directory")]
    clock: Clock,
    /// Names, uids and the choice among equal nodes follow from it.
    #[arg(long, value_name = "NUMBER", requires = "ephemeral", conflicts_with = "state_directory", default_value_t)]
    seed: u64,
    /// File descriptor to which the line `ready` is written.
    #[arg(long, value_name = "FD", requires = "ephemeral", conflicts_with = "state_directory", value_parser = clap::value_parser!(u32).range(3..=65535))]
    ready_fd: Option<u32>,
}

/// Where the cluster takes its time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Clock {
    /// From the machine.
    #[default]
    Machine,
    /// From requests that move it.
    Stepped,
}

/// What is to be removed in the end.
#[derive(Clone, Default)]
struct Traces(Arc<Mutex<Option<KubeconfigFile>>>);

impl Traces {
    fn with<T>(&self, work: impl FnOnce(&mut Option<KubeconfigFile>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes them and ends klab, whatever it does now.
    fn end(&self, code: u8) -> ! {
        self.with(|file| {
            if let Some(file) = file.take() {
                file.remove();
            }
            // While this is held no other process writes one.
            std::process::exit(i32::from(code))
        })
    }
}

/// Serves until the process that started klab has ended, or asks klab to end.
pub(super) fn run(arguments: &Arguments, port: Option<u16>) -> Result<()> {
    let parent = Parent::of_this_process();
    let ready_file = arguments.ready_fd.map(ReadyFile::descriptor).transpose()?;
    klab_operations::ui::trace("klab=warn");
    let switched_off = switched_off(&arguments.controllers)?;
    if let Some(path) = &arguments.kubeconfig {
        kubeconfig_file::check(path)?;
    }
    let traces = Traces::default();
    let at_the_end = traces.clone();
    parent.at_its_end(move || at_the_end.end(0))?;
    let definitions = Definitions::read(&arguments.crds);
    let options = EphemeralOptions {
        nodes: arguments.nodes.into(),
        seed: arguments.seed,
        time: match arguments.clock {
            Clock::Machine => Time::Machine,
            Clock::Stepped => Time::Stepped,
        },
        switched_off,
        port,
        ..EphemeralOptions::default()
    };
    let runtime = klab_operations::client::runtime()?;
    let ended: Result<u8> = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let server = EphemeralServer::start(options).await.map_err(start_error)?;
        define(&server, definitions)?;
        server.settled().await;
        let (kubeconfig, url) = (server.kubeconfig(), server.url());
        if let Some(path) = &arguments.kubeconfig {
            traces.with(|file| -> Result<()> {
                *file = Some(KubeconfigFile::write(path, kubeconfig.clone())?);
                Ok(())
            })?;
        }
        let serving = tokio::spawn(server.serve());
        let printed = arguments.print_kubeconfig || arguments.kubeconfig.is_none();
        klab_operations::ui::announce(&if printed { in_one_line(&kubeconfig)? } else { format!("ready {url}") });
        if let Some(ready_file) = ready_file {
            ready_file.tell();
        }
        tokio::select! {
            code = signals.next() => Ok(code),
            _ = serving => Err(Error::message(Code::KlabFault, "the cluster's port is served no more")),
        }
    });
    match ended {
        Ok(code) => traces.end(code),
        Err(error) => {
            traces.with(|file| file.take().map(KubeconfigFile::remove));
            Err(error)
        }
    }
}

/// Makes the definitions, and reports every mistake of the files and every refusal.
fn define(server: &EphemeralServer, mut definitions: Definitions) -> Result<()> {
    for definition in std::mem::take(&mut definitions.found) {
        if let Err(status) = server.add_object(&definition.object) {
            definitions.wrong(&definition.place, &status.message);
        }
    }
    let message = match definitions.mistakes.len() {
        0 => return Ok(()),
        1 => "a CustomResourceDefinition of `--crds` cannot be used".to_owned(),
        count => format!("there are {count} mistakes in the CustomResourceDefinitions of `--crds`"),
    };
    let mut error = Error::message(Code::FileUnread, message);
    error.diagnostics = definitions.mistakes.join("\n") + "\n";
    Err(error)
}

/// A kubeconfig as one line of JSON, which is YAML, too: a client that reads a line has all of it.
fn in_one_line(kubeconfig: &str) -> Result<String> {
    let value: Value =
        serde_saphyr::from_str(kubeconfig).code(Code::KlabFault, || "could not write the kubeconfig".to_owned())?;
    Ok(value.to_string())
}

/// The signals that end klab.
struct Signals([(Signal, u8); 3]);

impl Signals {
    fn new() -> Result<Self> {
        let interrupted = Kind::Interrupted.exit_code();
        let of = |kind: SignalKind, code: u8| {
            let signal = signal(kind).code(Code::MachineRefused, || "could not take signals".to_owned())?;
            Ok::<_, Error>((signal, code))
        };
        let (terminate, hangup) = (of(SignalKind::terminate(), 0)?, of(SignalKind::hangup(), 0)?);
        Ok(Self([terminate, hangup, of(SignalKind::interrupt(), interrupted)?]))
    }

    /// Waits for one, and gives the exit code.
    async fn next(&mut self) -> u8 {
        let [(terminate, one), (hangup, two), (interrupt, three)] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => *one,
            _ = hangup.recv() => *two,
            _ = interrupt.recv() => *three,
        }
    }
}
