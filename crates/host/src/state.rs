//! A hosted class while it runs: who is in it, its server, what is kept of it.

mod callers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use http::HeaderMap;
use jiff::Timestamp;

pub use self::callers::{Learner, bearer};
use super::address::{self, Network};
use super::audit::Audit;
use super::board_cache::Stages;
use super::boards::Boards;
use super::course::Course;
use super::fingerprint;
use super::journal::{self, Journal};
use super::limit::{Guesser, Limits};
use super::metrics::Metrics;
use super::oidc::sign_in::SignIn;
use super::refusal::Refusal;
use super::register::{Entry, Phase, Register, Times};
use super::seat::SeatId;
use super::seat_locks::SeatLocks;
use super::secret::Secret;
use super::shards::Shards;
use super::standings::Standings;
use crate::console::Console;
use klab_operations::error::{Code, Error, Result};
use klab_operations::state::Progress;
use klab_operations::state::home::state_error;
use klab_server::files::create_private_folder;
use klab_server::{NewCopy, Server};

/// How a class is reached, and how large it may be.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What the class is called, here and in what is counted.
    pub name: String,
    /// Proxies that are believed.
    pub proxies: Vec<Network>,
    /// Whether only proxies may ask, as TLS ends there.
    pub is_proxied: bool,
    /// The certificate that was given (a chain, PEM), where it is not klab's own.
    pub certificate: Option<String>,
    /// The shard.
    pub shard: u32,
    /// Most seats.
    pub most: u32,
    /// All shards, where there are several.
    pub shards: Option<Shards>,
    /// What all shards know and no learner, where one was given.
    pub secret: Option<Secret>,
    /// The console of the learners, where they have one.
    pub console: Option<Arc<Console>>,
    /// The code of the class, where it is given and not made.
    pub code: Option<String>,
    /// The provider that people sign in at, where there is one.
    pub sign_in: Option<Arc<SignIn>>,
    /// How many minutes each learner has, where the class is a practice and its labs are tasks.
    pub practice: Option<u16>,
}

/// A hosted class while it runs.
pub struct Host {
    /// How it is reached.
    pub settings: Settings,
    /// Its folder.
    pub folder: PathBuf,
    /// What only it knows.
    pub secret: Secret,
    /// What only hosts of the class know: what makes its codes and the instructor's link.
    pub class: Secret,
    /// What happened, for those who answer for it.
    pub audit: Audit,
    /// What is counted.
    pub metrics: Metrics,
    /// Where all learners are.
    pub standings: Standings,
    /// Seats that somebody looks at.
    pub stages: Stages,
    /// Where those are drawn.
    pub boards: Boards,
    /// Seats that somebody works on.
    pub turns: SeatLocks,
    /// Seats whose lesson has gone on, for those who look at them.
    pub moves: tokio::sync::broadcast::Sender<SeatId>,
    journal: Journal,
    register: Mutex<Register>,
    limits: Mutex<Limits>,
    /// Attempts to come in that are judged at a time.
    pub(super) judging: tokio::sync::Semaphore,
    progress: Mutex<BTreeMap<SeatId, Progress>>,
    begun: OnceLock<Begun>,
    /// Tells this run of the host from others, for pages.
    pub run: String,
    times: tokio::sync::watch::Sender<()>,
    /// Says that a person is barred.
    pub(super) barred: tokio::sync::watch::Sender<()>,
}

/// What there is once the server runs.
struct Begun {
    server: Arc<Server>,
    courses: BTreeMap<String, Course>,
}

/// Somebody who wants to come in.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// The code, as typed.
    pub code: String,
    /// The name, as typed.
    pub name: String,
    /// The PIN, where one was typed.
    pub pin: Option<String>,
    /// The lab; none: the first.
    pub lab: Option<String>,
    /// Whether another shard of the class has the room that this one may not have.
    pub beyond: bool,
    /// The person who has joined in the browser before.
    pub browser: Option<u32>,
}

/// What somebody has who has come in.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// Whose it is.
    pub person: u32,
    /// The seat.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: String,
    /// The PIN that klab chose for them.
    pub pin: Option<String>,
}

/// The part of the path before a seat.
pub const SEATS: &str = "seats";

impl Host {
    /// A class of this folder: as it was left, or a new one with these times.
    ///
    /// # Errors
    /// When the folder cannot be used, or its journal is damaged.
    pub fn open(folder: &Path, settings: Settings, labs: &[String]) -> Result<Self> {
        let secret = Secret::open(folder)?;
        let (journal, entries) = Journal::open::<Vec<Entry>>(&folder.join(journal::FILE))?;
        let mut register = Register::new(settings.shard, labs, settings.most);
        register.minutes = settings.practice;
        entries.into_iter().flatten().for_each(|entry| register.take(entry));
        Ok(Self {
            class: settings.secret.clone().unwrap_or_else(|| secret.clone()),
            audit: Audit::open(&folder.join("audit.log"))?,
            metrics: Metrics::default(),
            standings: Standings::default(),
            stages: Stages::default(),
            boards: Boards::default(),
            turns: SeatLocks::default(),
            moves: tokio::sync::broadcast::Sender::new(4096),
            settings,
            folder: folder.to_owned(),
            secret,
            journal,
            register: Mutex::new(register),
            limits: Mutex::default(),
            judging: tokio::sync::Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
            progress: Mutex::default(),
            begun: OnceLock::new(),
            run: format!("{:x}", Timestamp::now().as_millisecond()),
            times: tokio::sync::watch::Sender::new(()),
            barred: tokio::sync::watch::Sender::new(()),
        })
    }

    /// Begins to let people in: the server runs, and its templates are made.
    ///
    /// # Errors
    /// When a seat that somebody has could not be made again.
    pub fn begin(&self, server: Arc<Server>, courses: BTreeMap<String, Course>) -> Result<()> {
        let seats: Vec<(SeatId, String)> = self.register().seats().map(|seat| (seat.seat, seat.lab.clone())).collect();
        let there: BTreeSet<String> = server.names().into_iter().collect();
        // A seat is made after it is written down: where one is unknown, the end of the journal is missing.
        let wanted: BTreeSet<String> = seats.iter().map(|(seat, _)| seat.to_string()).collect();
        let unknown: Vec<&str> =
            there.difference(&wanted).map(String::as_str).filter(|name| name.parse::<SeatId>().is_ok()).collect();
        if !unknown.is_empty() && !self.register().is_removed() {
            let journal = self.folder.join(journal::FILE);
            let message = format!(
                "the journal `{}` does not know seats that are there: {}",
                journal.display(),
                unknown.join(", ")
            );
            return Err(Error::message(Code::ClassJournal, message)
                .hint("its end is missing: put back a copy of it that has them"));
        }
        // Learners have the address of each of these, and a host was killed before it was made, perhaps.
        for (seat, lab) in seats.iter().filter(|(seat, _)| !there.contains(&seat.to_string())) {
            make_seat(&server, *seat, lab).map_err(|refusal| Error::message(Code::ClassFault, refusal.message))?;
        }
        let _ = self.begun.set(Begun { server, courses });
        Ok(())
    }

    /// Who is in the class.
    pub fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server; none before it runs.
    pub fn server(&self) -> Option<&Arc<Server>> {
        self.begun.get().map(|begun| &begun.server)
    }

    /// The labs by name.
    pub fn courses(&self) -> impl Iterator<Item = (&String, &Course)> {
        self.begun.get().into_iter().flat_map(|begun| &begun.courses)
    }

    /// A lab of the class.
    pub fn course(&self, lab: &str) -> Option<&Course> {
        self.begun.get()?.courses.get(lab)
    }

    /// Whom a request comes from.
    pub fn client(&self, from: IpAddr, headers: &HeaderMap) -> IpAddr {
        address::client(from, headers, &self.settings.proxies)
    }

    /// Takes in what happened, and returns when it is on disk.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn record(&self, entries: Vec<Entry>) -> Result<()> {
        let written = self.take(&mut self.register(), entries);
        self.settled(written).await
    }

    /// Returns when entries that were taken in are on disk. What could not be written is forgotten.
    pub(super) async fn settled(&self, written: journal::Written) -> Result<()> {
        let outcome = written.on_disk().await;
        if outcome.is_err() {
            self.recover()?;
        }
        outcome
    }

    /// Goes back to what stands in the journal after a write has failed: no more was acknowledged.
    fn recover(&self) -> Result<()> {
        let mut register = self.register();
        if let Some(entries) = self.journal.recover::<Vec<Entry>>()? {
            let labs = std::mem::take(&mut register.labs);
            *register = Register::new(register.shard, &labs, register.most);
            register.minutes = self.settings.practice;
            entries.into_iter().flatten().for_each(|entry| register.take(entry));
        }
        Ok(())
    }

    /// Why nothing can be written down at the moment.
    pub(super) async fn trouble(&self) -> Option<String> {
        let probed = self.journal.probe().await;
        probed.and_then(|()| self.recover().map_err(|error| error.to_string())).err()
    }

    /// What is taken in while the register is locked stands in the journal in the same order.
    pub(super) fn take(&self, register: &mut Register, entries: Vec<Entry>) -> journal::Written {
        let written = self.journal.write(&entries);
        for entry in entries {
            register.take(entry);
        }
        written
    }

    /// All shards, where there are several.
    pub fn shards(&self) -> Option<&Shards> {
        self.settings.shards.as_ref()
    }

    /// Signing in, where people may.
    pub fn sign_in(&self) -> Option<&Arc<SignIn>> {
        self.settings.sign_in.as_ref()
    }

    /// Judges what may be a guess: it is counted before, and not any more where it was right.
    ///
    /// # Errors
    /// When it is wrong, or too many were.
    pub fn judged<T>(&self, from: IpAddr, judge: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        let claim = self.limits().claim(Guesser::Address(from), None, Instant::now()).map_err(Refusal::too_many)?;
        let outcome = judge();
        if !outcome.as_ref().is_err_and(|refusal| refusal.is_guess) {
            self.limits().refund(&claim, Instant::now());
        }
        outcome
    }

    /// The console of the learners, where they have one.
    pub fn console(&self) -> Option<&Arc<Console>> {
        self.settings.console.as_ref()
    }

    pub(super) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubeconfig of a seat, with words about it before.
    pub fn kubeconfig(&self, seat: SeatId, lab: &str) -> Option<String> {
        self.server()?.kubeconfig_called(&seat.to_string(), &format!("klab-{lab}"))
    }

    /// What distinguishes its certificate authority from all others: enough of its SHA-256 that no other can be made to match.
    pub fn fingerprint(&self) -> Option<String> {
        Some(fingerprint::of(self.server()?.authority()?))
    }

    /// What people call the host, without a slash at the end.
    pub fn url(&self) -> String {
        self.server().map(|server| server.url()).unwrap_or_default()
    }

    /// The path of that, without a slash at the end: pages link below it.
    pub fn base(&self) -> String {
        path_of(&self.url()).to_owned()
    }

    /// The path below which all shards of the class are, without a slash at the end.
    pub fn common_base(&self) -> String {
        let base = self.base();
        let number = self.shards().map(|shards| format!("/{}", shards.own));
        number.and_then(|number| base.strip_suffix(&number).map(str::to_owned)).unwrap_or(base)
    }

    /// Whether browsers reach it by TLS.
    pub fn is_secure(&self) -> bool {
        self.url().starts_with("https://")
    }

    /// Whether a page's origin is this host: by the name that it has, or by the one the browser asked for.
    pub fn is_own_origin(&self, origin: &str, asked: Option<&str>) -> bool {
        let url = self.url();
        let own = url.strip_suffix(&self.base()).unwrap_or(&url);
        let scheme = own.split("://").next().unwrap_or_default();
        let by_name =
            |asked: &str| origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) == Some(asked);
        origin == own || (!self.settings.is_proxied && asked.is_some_and(by_name))
    }

    /// Where the class is in its time.
    pub fn phase(&self) -> Phase {
        self.register().phase(Timestamp::now())
    }

    /// Whether a learner may change something now.
    ///
    /// # Errors
    /// When the class is not open, or the time of their practice is over.
    pub fn refuse_late(&self, person: u32) -> Result<(), Refusal> {
        self.register().refuse_late(person, Timestamp::now())
    }

    /// Whether the learner of a seat may change something now.
    pub fn is_open_at(&self, seat: SeatId) -> bool {
        let register = self.register();
        register.seat(seat).is_some_and(|seat| register.refuse_late(seat.person, Timestamp::now()).is_ok())
    }

    /// When the time of a learner is over, in a practice.
    pub fn ends(&self, person: u32) -> Option<Timestamp> {
        self.register().ends(person)
    }

    /// The times of the class.
    pub fn times(&self) -> Times {
        self.register().times()
    }

    /// Says that the times of the class are other ones.
    pub fn retimed(&self) {
        self.times.send_replace(());
        self.standings.stir();
        self.stages.poke_all();
    }

    /// Hears of it.
    pub fn times_changed(&self) -> tokio::sync::watch::Receiver<()> {
        self.times.subscribe()
    }

    /// The folder of a seat's own state.
    pub fn seat_folder(&self, seat: SeatId) -> PathBuf {
        self.folder.join("seats").join(seat.to_string())
    }

    /// How far the lesson of a seat has come.
    ///
    /// # Errors
    /// When its folder cannot be read.
    pub fn progress(&self, seat: SeatId, lab: &str) -> Result<Progress> {
        if let Some(known) = self.progresses().get(&seat) {
            return Ok(known.clone());
        }
        let folder = self.seat_folder(seat);
        let begins = self.course(lab).map(|course| course.begins.clone()).unwrap_or_default();
        let steps = self.course(lab).map_or(0, |course| course.written.lab.steps.len());
        let progress = if folder.is_dir() { Progress::of(&folder, steps)? } else { begins };
        self.progresses().insert(seat, progress.clone());
        Ok(progress)
    }

    /// Notes how far the lesson of a seat has come. On disk when this returns.
    ///
    /// # Errors
    /// When its folder cannot be written.
    pub fn set_progress(&self, seat: SeatId, progress: Progress) -> Result<()> {
        let folder = self.seat_folder(seat);
        create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        progress.write(&folder)?;
        self.progresses().insert(seat, progress);
        Ok(())
    }

    /// Notes how far the lesson of a seat has come, and tells those who look at it.
    ///
    /// # Errors
    /// When its folder cannot be written.
    pub fn moved(&self, seat: SeatId, progress: Progress) -> Result<()> {
        self.set_progress(seat, progress)?;
        // There may be no viewer.
        let _ = self.moves.send(seat);
        Ok(())
    }

    /// Has the cluster of a seat begin again, with the same token.
    ///
    /// # Errors
    /// When there is none, or its files cannot be used.
    pub fn renew(&self, seat: SeatId) -> Result<()> {
        let gone = || Error::message(Code::NotInClass, "the class has not begun");
        let renewed = self.server().ok_or_else(gone)?.reset(&seat.to_string());
        renewed.map_err(|status| Error::message(Code::ClassFault, status.message))
    }

    /// A client of a seat's cluster, for the runtime that it is made in.
    ///
    /// # Errors
    /// When there is no such cluster.
    pub fn client_of(&self, seat: SeatId) -> Result<kube::Client> {
        let api = self.server().and_then(|server| server.api(&seat.to_string()));
        let gone = || Error::message(Code::NotInClass, format!("seat {seat} has no cluster"));
        Ok(api.ok_or_else(gone)?.client())
    }

    fn progresses(&self) -> MutexGuard<'_, BTreeMap<SeatId, Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path of what people call a host, without a slash at the end.
pub(super) fn path_of(url: &str) -> &str {
    let after = url.split_once("://").map_or("", |(_, after)| after);
    after.find('/').map_or("", |at| &after[at..])
}

/// Makes a seat, where there is none yet.
pub(super) fn make_seat(server: &Server, seat: SeatId, lab: &str) -> Result<(), Refusal> {
    let copy = NewCopy::named(seat.to_string());
    let made = server.copy(lab, &[copy]).and_then(|made| made.into_iter().collect::<Result<Vec<_>, _>>());
    made.map(drop).map_err(|status| {
        tracing::error!(%seat, "the seat could not be made: {}", status.message);
        Refusal::internal("the seat could not be made: the host's log says why")
    })
}
