//! What every command works with: the terminal, klab's home, the providers, and which lab is meant.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::runtime::Runtime;

use crate::background;
use crate::bundled_lessons;
use crate::client::{NoAnswer, are_credentials_refused, connect_within, is_cut_off};
use crate::environment;
use crate::error::{Code, Error, Kind, Result};
use crate::event::{About, Sink, Verb};
use crate::exec::quoted;
use crate::guard::guarded;
use crate::interruption::{CleanUp, Interruption};
use crate::provider::sim::daemon;
use crate::provider::{self, AzureNames, Memory, Provider, Work, refuse_without_recreation};
use crate::state::azure;
use crate::state::class::Class;
use crate::state::home::state_error;
use crate::state::{Home, Joined, Record};
use crate::ui::Ui;
use klab_az::notes::ClusterNote;
use klab_lab::spec::{self, Diagnostics, Lab, LoadOptions, Unread, did_you_mean};
use klab_lab::words::plural;

/// What every command works with.
pub struct Context {
    /// The terminal.
    pub ui: Ui,
    /// klab's state.
    pub home: Home,
    /// What providers remember of the machine.
    pub memory: Memory,
    runtime: OnceCell<Runtime>,
    interruption: Interruption,
    /// Whether this process does what a command left to it: no command waits for it, and it waits for its turn.
    pub is_later: bool,
}

impl Context {
    /// A context on a terminal and a home.
    pub fn new(ui: Ui, home: Home, interruption: Interruption) -> Self {
        let (memory, runtime) = (Memory::default(), OnceCell::new());
        Self { ui, home, memory, runtime, interruption, is_later: false }
    }

    /// With what providers remember already.
    pub fn remembering(self, memory: &Memory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// The provider of that name, for this home.
    ///
    /// # Errors
    /// When this klab does not have it.
    pub fn provider(&self, name: spec::Provider) -> Result<Box<dyn Provider>> {
        provider::provider(name, &self.home, &self.memory)
    }

    /// Removes a cluster that cannot become what its lab says, where that is allowed. The provider is another one then: what it knows
    /// is of the cluster that was.
    ///
    /// # Errors
    /// Where it is not allowed, and when the cluster cannot be removed.
    pub fn recreated(
        &self,
        provider: Box<dyn Provider>,
        lab: &Lab,
        is_allowed: bool,
        work: &mut Work<'_>,
    ) -> Result<Box<dyn Provider>> {
        if !is_allowed {
            return refuse_without_recreation(provider.as_ref(), lab).map(|()| provider);
        }
        let differences = provider.recreation(lab)?;
        if differences.is_empty() {
            return Ok(provider);
        }
        let name = &lab.name.value;
        let words = format!("the cluster of lab {name}: {}", differences.join("; "));
        work.events.about(About::Cluster, name).note(Verb::RecreateCluster, words);
        provider.remove(name, work)?;
        self.provider(lab.provider)
    }

    /// Runs a future to its end.
    ///
    /// # Errors
    /// When the system refuses a runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime()?.block_on(future)
    }

    /// The kubeconfig of a lab that is up; its cluster is brought back first if it died.
    ///
    /// # Errors
    /// When the lab is not up or its cluster cannot be reached.
    pub fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        if Joined::read(&self.home, lab)?.is_some() {
            return Ok(Joined::kubeconfig(&self.home, lab));
        }
        let record = self.record(lab)?.ok_or_else(|| self.not_up(lab))?;
        // What was left to a process that was killed goes on with whatever is asked of the lab next.
        background::operations(&self.home, lab)?;
        self.provider(record.provider)?.kubeconfig(lab)
    }

    /// What a lab's cluster is called in Azure, or would be called there.
    ///
    /// # Errors
    /// When its provider cannot be had, or the lab's folder not be read.
    pub fn azure_names(&self, lab: &str, provider: spec::Provider) -> Result<AzureNames> {
        if let Some(names) = self.provider(provider)?.azure_names(lab) {
            return Ok(names);
        }
        let note = azure::read::<ClusterNote>(&self.home.lab(lab))?;
        let name = |said: Option<String>| said.unwrap_or_else(|| format!("klab-{lab}"));
        Ok(AzureNames { group: name(note.group), cluster: name(note.cluster) })
    }

    /// A client of a lab that is up, by the kubeconfig that its provider gave. A server that was killed in this moment is
    /// brought back, once.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn client(&self, lab: &str, kubeconfig: &Path) -> Result<Client> {
        self.client_within(lab, kubeconfig, Duration::MAX)
    }

    /// As [`Context::client`], for a caller who waits no longer than `patience` for any answer.
    ///
    /// # Errors
    /// As [`Context::client`].
    pub fn client_within(&self, lab: &str, kubeconfig: &Path, patience: Duration) -> Result<Client> {
        let client = self.connected(lab, kubeconfig, patience)?;
        match Record::read(&self.home.lab(lab), lab)?.record {
            Some(record) => self.kept_to_its_own(record.provider, lab, client),
            None => Ok(client),
        }
    }

    /// As [`Context::client`], of a lab that may not be up yet, on the provider where it would be.
    ///
    /// # Errors
    /// As [`Context::client`].
    pub fn client_on(&self, provider: spec::Provider, lab: &str, kubeconfig: &Path) -> Result<Client> {
        self.kept_to_its_own(provider, lab, self.connected(lab, kubeconfig, Duration::MAX)?)
    }

    fn connected(&self, lab: &str, kubeconfig: &Path, patience: Duration) -> Result<Client> {
        match self.block_on(connect_within(kubeconfig, patience)) {
            Err(error) if is_cut_off(&error) => {
                let kubeconfig = self.kubeconfig(lab)?;
                self.block_on(connect_within(&kubeconfig, patience))
            }
            connected => connected,
        }
    }

    /// A client for a lab on a provider: where the cluster is somebody else's, one that keeps to what klab made there.
    fn kept_to_its_own(&self, provider: spec::Provider, lab: &str, client: Client) -> Result<Client> {
        // A client has a worker of its own, which runs where it was made.
        let _entered = self.runtime()?.enter();
        Ok(if provider.profile().makes_nodes { client } else { guarded(client, lab) })
    }

    /// An error with what the person can do about a server that does not answer, if that is its cause.
    pub fn advised(&self, error: Error) -> Error {
        if NoAnswer::in_error(&error).is_none_or(|silent| !silent.own) {
            return error;
        }
        daemon::advice(&self.home).into_iter().fold(error, Error::hint)
    }

    /// A context whose work is part of another command: its talk goes to `sink`, its results nowhere, and an interruption
    /// is that command's business.
    pub fn apart(&self, home: Home, sink: Arc<dyn Sink>) -> Self {
        Self::new(self.ui.apart(sink), home, Interruption::default()).remembering(&self.memory)
    }

    /// A context that is this one, but for its talk, which goes to `sink`, and its results, which go nowhere.
    pub fn talking_to(&self, sink: Arc<dyn Sink>) -> Self {
        Self::new(self.ui.apart(sink), self.home.clone(), self.interruption.clone()).remembering(&self.memory)
    }

    /// What the first interruption does before klab ends.
    pub fn interruption_cleans_up(&self, clean_up: Option<CleanUp>) {
        self.interruption.cleans_up(clean_up);
    }

    /// The runtime for network requests.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let runtime = crate::client::runtime()?;
        Ok(self.runtime.get_or_init(|| runtime))
    }

    /// Says what an interruption from now on would leave.
    pub fn interruption_leaves(&self, words: Option<String>) {
        self.interruption.would_leave(words);
    }

    /// An error of a cluster that does not answer, with what its provider knows of it: paused, gone, or with other credentials.
    pub fn why_unreachable(&self, lab: &str, mut error: Error) -> Error {
        if error.kind() != Kind::Outside {
            return error;
        }
        let record = Record::read(&self.home.lab(lab), lab).ok().and_then(|found| found.record);
        let file = record.as_ref().map(|record| record.source.display().to_string());
        let observed =
            record.map(|record| record.provider).and_then(|name| self.provider(name).ok()?.observe(lab, None).ok());
        let (words, hint) = match observed {
            Some(observed) if !observed.exists => (format!("lab `{lab}` has no cluster any more"), None),
            Some(observed) if observed.stopped => {
                (format!("lab `{lab}` is paused"), Some(format!("`klab resume {lab}` starts its machines")))
            }
            Some(_) if are_credentials_refused(&error) => (
                format!("the cluster of lab `{lab}` does not accept its kubeconfig any more"),
                file.map(|file| format!("this fetches another one:\nklab up {}", quoted(&file))),
            ),
            _ => return error,
        };
        error.source = error.source.context(words);
        error.hints.extend(hint);
        error
    }

    /// Loads a lab file; its warnings are shown, its errors end the command with nothing created.
    ///
    /// # Errors
    /// All problems of the file, each with its place.
    pub fn load(&self, path: &Path, options: &LoadOptions) -> Result<Lab> {
        match spec::load(path, options) {
            Ok(lab) => {
                if !lab.warnings.is_empty() {
                    self.ui.say(lab.warnings.render(true).trim_end());
                }
                Ok(lab)
            }
            Err(diagnostics) => Err(invalid(path, &diagnostics)),
        }
    }

    /// As [`Context::load`], for commands that bring a lab to what its file says: one that is up stays on its provider unless
    /// the command names another.
    ///
    /// # Errors
    /// All problems of the file, each with its place.
    pub fn load_where_it_is(&self, path: &Path, mut options: LoadOptions) -> Result<Lab> {
        let mut stays = false;
        // What can be read but once, such as a pipe, is left for the reading.
        if options.provider.is_none()
            && path.is_file()
            && let Ok(name) = lab_name_in(path)
            && let Some(provider) = self.provider_of(&name)?
        {
            options.provider = Some(provider);
            stays = true;
        }
        let lab = self.load(path, &options)?;
        let written = lab.source.text().parse::<toml::Table>().ok().filter(|_| stays);
        if let Some(named) = written.as_ref().and_then(|table| table.get("provider")?.as_str())
            && named != lab.provider.as_str()
        {
            let (lab, provider) = (&lab.name, lab.provider);
            let events = self.ui.events().about(About::Lab, &lab.value);
            events.warn(Code::ProviderKept, format!(
                "lab `{lab}` stays on {provider}, where it is up; `klab down {lab}`, then `up`, takes {named}, as its file says"
            ));
        }
        Ok(lab)
    }

    /// The provider of a lab or class that is up.
    fn provider_of(&self, lab: &str) -> Result<Option<spec::Provider>> {
        let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        if !lab.bytes().all(plain) {
            return Ok(None);
        }
        let of_lab = self.record(lab)?.map(|record| record.provider);
        let named = match of_lab {
            Some(provider) => Some(provider),
            None => Class::read(&self.home, lab)?.map(|class| class.provider),
        };
        Ok(named)
    }

    /// The record of a lab, with a word about what had to be repaired.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn record(&self, lab: &str) -> Result<Option<Record>> {
        if let Some(joined) = Joined::read(&self.home, lab)? {
            // What klab makes, changes and removes is the host's there.
            return Err(joined.refusal());
        }
        let found = Record::read(&self.home.lab(lab), lab)?;
        if let Some(repaired) = found.repaired {
            self.ui.events().about(About::Lab, lab).warn(Code::RecordRepaired, repaired);
        }
        Ok(found.record)
    }

    /// The labs and classes that have state, by name; the seats of classes are not among them.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn labs(&self) -> Result<Vec<String>> {
        let mut labs = self.home.labs().map_err(|error| state_error(error, "read", self.home.root()))?;
        let mut seats = std::collections::BTreeSet::new();
        for lab in &labs {
            seats.extend(Class::read(&self.home, lab)?.iter().flat_map(Class::names).map(|(_, seat)| seat));
        }
        labs.retain(|lab| !seats.contains(lab));
        Ok(labs)
    }

    /// The name of a lab or class of this machine that `name` may be a slip for. One that differs in digits alone is another seat.
    pub fn similar(&self, name: &str) -> Option<String> {
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
        let mut names = self.labs().unwrap_or_default();
        names.extend(self.home.hosted().unwrap_or_default());
        names.retain(|known| letters(known) != letters(name));
        did_you_mean(name, names.iter().map(String::as_str)).map(str::to_owned)
    }

    /// The error for a lab that is not up: with the name that may be meant, or with the command that makes the lab.
    pub fn not_up(&self, lab: &str) -> Error {
        if self.home.hosted().is_ok_and(|classes| classes.iter().any(|class| class == lab)) {
            return Error::message(Code::NoSuchSeat, format!("`{lab}` is a class hosted on this machine, not a lab"))
                .hint(format!("`klab verify {lab} --seats --watch` shows where its learners are"));
        }
        let error = Error::message(Code::LabNotUp, format!("lab `{lab}` is not up"));
        let error = match (self.similar(lab), bundled_lessons::similar(Path::new(lab))) {
            (Some(similar), _) => error.hint(format!("did you mean `{similar}`?")),
            (None, Some(lesson)) => error.hint(format!("`klab up {lesson}` makes lab `{lesson}`")),
            (None, None) if lab.parse::<u32>().is_ok() => {
                error.hint(format!("a step is named by an option: `klab guide --step {lab}`, `klab step --to {lab}`"))
            }
            (None, None) => error,
        };
        error.hint("`klab list` shows the labs that are up")
    }

    /// The lab that is meant: by name, by lab file, or the only one that is up.
    ///
    /// # Errors
    /// When no lab or more than one could be meant, or a class, which is many.
    pub fn lab_name(&self, argument: Option<&str>) -> Result<String> {
        let name = self.lab_or_class_name(argument)?;
        match Class::read(&self.home, &name)? {
            Some(class) => Err(class.name_a_seat()),
            None => Ok(name),
        }
    }

    /// The lab, or seat, whose kubeconfig `KUBECONFIG` names.
    pub fn lab_of_kubeconfig(&self) -> Option<String> {
        let named = environment::KUBECONFIG.path()?;
        let file = named.canonicalize().ok()?;
        let is_of = |lab: &String| {
            let own = self.home.lab(lab).join("kubeconfig");
            own == named || own.canonicalize().is_ok_and(|own| own == file)
        };
        self.home.labs().ok()?.into_iter().find(is_of)
    }

    /// The lab or class that is meant: by name, by lab file, the one that `KUBECONFIG` belongs to, or the only one that is up.
    ///
    /// # Errors
    /// When no lab or more than one could be meant.
    pub fn lab_or_class_name(&self, argument: Option<&str>) -> Result<String> {
        let labs = self.labs()?;
        let Some(argument) = argument else {
            if let Some(lab) = self.lab_of_kubeconfig() {
                return Ok(lab);
            }
            return match labs.as_slice() {
                [only] => Ok(only.clone()),
                [] => Err(Error::message(Code::NoLabUp, "no lab is up")
                    .hint("`klab up scheduling` makes one; `klab lessons` lists more")),
                several => Err(Error::message(
                    Code::SeveralLabs,
                    format!("{} are up: {}", plural(several.len(), "lab"), several.join(", ")),
                )
                .hint(format!(
                    "say which one is meant, by its name or its lab file; `eval \"$(klab env {})\"` makes this shell mean that \
                     one, for kubectl, too",
                    several.first().map_or("LAB", String::as_str)
                ))),
            };
        };
        if !is_path(argument) {
            return Ok(argument.to_owned());
        }
        let path = Path::new(argument);
        match lab_name_in(path) {
            Ok(name) => Ok(name),
            Err(problem) => {
                let wanted = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                let known = labs.iter().find(|lab| {
                    Record::read(&self.home.lab(lab), lab)
                        .ok()
                        .and_then(|found| found.record)
                        .is_some_and(|record| record.source == wanted)
                });
                known.cloned().ok_or_else(|| {
                    let error = Error::message(Code::NoLabFile, problem);
                    match labs.as_slice() {
                        [] => error,
                        labs => error.hint(format!("a lab can be named too; these are up: {}", labs.join(", "))),
                    }
                })
            }
        }
    }
}

/// An invalid lab file as an error: the rendered diagnostics and one summary.
pub fn invalid(path: &Path, diagnostics: &Diagnostics) -> Error {
    let count = diagnostics.errors();
    let message = format!("{} has {}; nothing was created", path.display(), plural(count, "error"));
    Error { diagnostics: diagnostics.render(true), ..Error::message(Code::InvalidLab, message) }
}

/// The name in a lab file that may be invalid otherwise.
pub fn lab_name_in(path: &Path) -> Result<String, String> {
    let unreadable = |unread: Unread| format!("could not read `{}`: {unread}", path.display());
    let bytes = spec::read_regular(path, spec::MAX_BYTES).map_err(unreadable)?;
    let text = String::from_utf8_lossy(&bytes);
    let named = text.parse::<toml::Table>().ok().and_then(|table| table.get("lab")?.as_str().map(str::to_owned));
    named.ok_or_else(|| format!("`{}` does not say the name of its lab", path.display()))
}

/// Whether an argument names a file rather than a lab.
pub fn is_path(argument: &str) -> bool {
    argument.contains('/') || Path::new(argument).extension().is_some_and(|extension| extension == "toml")
}

/// The path of a lab file made absolute, as records keep it.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
