//! A lesson on a cluster that really exists: made, stepped and removed by the code of `up`, `step` and `down`, under a
//! name of its own and in a home of its own.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::one::{self, make, remove};
use super::super::{Context, absolute};
use klab_cluster::deadline;
use klab_lab::spec::{Lab, Provider};
use klab_lab::verify::{Report, Snapshot};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{Event, Nowhere, Sink};
use klab_operations::grade;
use klab_operations::lesson::session::Act;
use klab_operations::lesson::{Performer, Run, WallClock};
use klab_operations::lesson_test::TestCluster;
use klab_operations::locked_lab::LockedLab;
use klab_operations::observe;
use klab_operations::render;
use klab_operations::state::Home;
use klab_operations::state::home::state_error;

/// How often an interruption looks again whether the lab's own thread has let go of it.
const AGAIN: Duration = Duration::from_millis(200);
/// How long it does so.
const LET_GO: Duration = Duration::from_mins(2);
/// How long the lab's own thread may write to its folder after the lab is removed.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Labs that are up for a test at this moment, for the case of an interruption.
#[derive(Clone, Default)]
pub(super) struct TestLabs(Arc<Mutex<Vec<(PathBuf, String)>>>);

impl TestLabs {
    fn add(&self, home: &Path, lab: &str) {
        self.all().push((home.to_owned(), lab.to_owned()));
    }

    fn remove(&self, home: &Path) {
        self.all().retain(|(live, _)| live != home);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<(PathBuf, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes every lab that is up; says what could not be removed.
    pub(super) fn remove_all(&self, context: &Context) -> Vec<Error> {
        let live = self.all().clone();
        let removals: Vec<_> = live
            .into_iter()
            .map(|(home, lab)| {
                let (context, live) = (context.apart(Home::new(&home), Arc::new(Nowhere)), self.clone());
                std::thread::spawn(move || {
                    let until = deadline::within(LET_GO);
                    // The thread that was interrupted may still hold the lab's lock for a moment.
                    while let Err(error) = remove(&context, &lab) {
                        if Instant::now() > until {
                            return Err(left(error, &home, &lab));
                        }
                        std::thread::sleep(AGAIN);
                    }
                    live.remove_files(&home);
                    Ok(())
                })
            })
            .collect();
        removals.into_iter().filter_map(|removal| removal.join().ok()?.err()).collect()
    }

    /// Removes the files of a test whose lab is gone, again until the lab's own thread no longer writes there.
    fn remove_files(&self, home: &Path) {
        let until = deadline::within(LAST_WRITES);
        loop {
            let is_let_go = self.all().iter().all(|(live, _)| live != home);
            let _ = std::fs::remove_dir_all(home);
            if (is_let_go && !home.exists()) || Instant::now() > until {
                return;
            }
            std::thread::sleep(AGAIN);
        }
    }
}

fn left(error: Error, home: &Path, lab: &str) -> Error {
    error
        .left_behind(format!("lab `{lab}` in `{}`", home.display()))
        .hint(format!("`KLAB_HOME={} klab down {lab}` tries again", home.display()))
}

/// Chooses between two sinks: warnings are for the person, progress is not.
struct Warnings(klab_operations::event::Events);

impl Sink for Warnings {
    fn event(&self, event: &Event) {
        if let Event::Warned { .. } = event {
            self.0.pass(event);
        }
    }
}

/// A real cluster for one trial.
pub(super) struct RealTestCluster {
    context: Context,
    home: RefCell<Option<TempDir>>,
    root: PathBuf,
    file: PathBuf,
    vars: Vec<(String, String)>,
    name: String,
    provider: Provider,
    seed: u64,
    allow_run: bool,
    since: Instant,
    live: TestLabs,
}

impl RealTestCluster {
    /// A world without a cluster yet.
    ///
    /// # Errors
    /// When there is no place for its state.
    pub(super) fn new(
        context: &Context,
        lab: &Lab,
        file: &Path,
        vars: &[(String, String)],
        seed: u64,
        allow_run: bool,
        live: &TestLabs,
    ) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("klab-test-").tempdir();
        let home = home.map_err(|error| state_error(error, "make a folder in", &std::env::temp_dir()))?;
        let root = home.path().to_owned();
        // By the folder's name no two tests on this machine have the same lab, whichever user runs them.
        let own: String = root.to_string_lossy().chars().rev().take(4).collect::<String>().to_lowercase();
        let own: String = own.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { 'x' }).collect();
        Ok(Self {
            context: context.apart(Home::new(&root), Arc::new(Warnings(context.ui.events()))),
            home: RefCell::new(Some(home)),
            file: absolute(file),
            vars: vars.to_vec(),
            name: format!("{}-t{own}", lab.name.value),
            provider: lab.provider,
            seed,
            allow_run,
            since: Instant::now(),
            live: live.clone(),
            root,
        })
    }
}

impl TestCluster for RealTestCluster {
    fn named(&self, lab: &Lab) -> Lab {
        let mut lab = lab.clone();
        lab.name.value.clone_from(&self.name);
        lab.sim.seed = Some(self.seed);
        lab
    }

    fn up(&self, lab: &Lab) -> Result<()> {
        let manifests = render::render(lab).map_err(|diagnostics| super::super::invalid(&self.file, &diagnostics))?;
        self.live.add(&self.root, &self.name);
        let mut locked = LockedLab::new(&self.context, &self.name, "test")?;
        make(&mut locked, &one::Arguments::of(&self.file, &self.vars), lab, &manifests)?;
        Ok(())
    }

    fn wait(&self, lab: &Lab, timeout: Duration) -> Result<Report> {
        grade::wait(&self.context, lab, self.context.kubeconfig(&self.name)?, timeout)
    }

    fn snapshot(&self, lab: &Lab) -> Result<Snapshot> {
        let kubeconfig = self.context.kubeconfig(&self.name)?;
        let client = self.context.client(&self.name, &kubeconfig)?;
        self.context.block_on(async {
            let mut snapshot = observe::look(&client).await?;
            observe::fetch(&client, &lab.checks, &mut snapshot).await?;
            Ok(snapshot)
        })
    }

    fn act(&self, act: &mut Act<'_>) -> Result<()> {
        let mut locked = LockedLab::new(&self.context, &self.name, "test")?;
        let kubeconfig = self.context.kubeconfig(&self.name)?;
        let provider = self.context.provider(self.provider)?;
        let client = self.context.client(&self.name, &kubeconfig)?;
        let place = self.file.parent().unwrap_or(Path::new("/"));
        let performer = Performer {
            runtime: self.context.runtime()?,
            client: &client,
            provider: provider.as_ref(),
            time: &WallClock::default(),
            run: self.allow_run.then_some(Run { kubeconfig: &kubeconfig, folder: place }),
        };
        act(&performer, &mut locked.work()?)
    }

    fn down(&self, _: &Lab) -> Result<()> {
        match remove(&self.context, &self.name) {
            Ok(()) => {
                self.live.remove(&self.root);
                Ok(())
            }
            Err(error) => {
                // What is known of the lab must outlive the test.
                if let Some(home) = self.home.borrow_mut().take() {
                    let _ = home.keep();
                }
                Err(left(error, &self.root, &self.name))
            }
        }
    }

    fn cluster_time(&self) -> Duration {
        self.since.elapsed()
    }
}

/// How many real clusters are made at a time by default: a machine holds few, a cloud many.
pub(super) fn jobs(provider: Provider) -> usize {
    let one_for_each_processor = || std::thread::available_parallelism().map_or(1, usize::from);
    provider.profile().tests_at_once.unwrap_or_else(one_for_each_processor)
}

/// A trial makes nodes, and changes them.
pub(super) fn refuse_foreign(provider: Provider) -> Result<()> {
    let profile = provider.profile();
    if profile.makes_nodes {
        return Ok(());
    }
    let message = format!("lessons are not tried out on {}: a trial makes pools and changes nodes", profile.title);
    Err(Error::message(Code::NotOnProvider, message)
        .hint("leave out `--provider`: they are tried on the embedded cluster"))
}

/// Several seeds make no sense where the scheduler is not klab's.
pub(super) fn refuse_seeds(provider: Provider, seeds: u32, seed: Option<u64>) -> Result<()> {
    if provider.profile().is_embedded || (seeds == 1 && seed.is_none()) {
        return Ok(());
    }
    let message =
        format!("`--seed` and `--seeds` are for the embedded scheduler; the one on {} has none", provider.as_str());
    Err(Error::message(Code::Flags, message).hint("leave them out, or leave out `--provider`"))
}
