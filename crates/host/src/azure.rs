//! az at a seat of a class: the seat's cluster is the one that it knows, and it answers as `klab az` does at home.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toml::Table;

use super::event_stream::EventStream;
use super::state::{Host, Learner};
use super::steps::{SeatPools, abort_upgrade, live_pools};
use crate::console::Piece;
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::messages;
use klab_az::refusal::Refusal;
use klab_operations::az::{self, Clusters, Known, PoolChanges};
use klab_operations::error::{Code, Error};
use klab_operations::pool::{LivePools, Wanted};
use klab_operations::state::azure;
use klab_operations::state::operation::OperationKind;

/// What az says to a line at a seat, with its end. Not to be called from within a runtime.
pub(super) fn said(host: &Arc<Host>, learner: &Learner, words: &[String]) -> Vec<Piece> {
    let settings = BTreeMap::from([("defaults.group".to_owned(), name(learner))]);
    let session = Session { host, learner, settings, warnings: RefCell::default() };
    let answer = klab_az::commands::answer(&session, words);
    let mut pieces: Vec<Piece> =
        session.warnings.into_inner().into_iter().map(|text| Piece::Talk(format!("WARNING: {text}\n"))).collect();
    let code = match answer {
        Ok(text) => {
            if !text.is_empty() {
                pieces.push(Piece::Output(format!("{}\n", text.trim_end())));
            }
            0
        }
        Err(refusal) => {
            let lines = [format!("ERROR: {}", refusal.message)].into_iter().chain(refusal.advice);
            pieces.push(Piece::Talk(lines.map(|line| line + "\n").collect()));
            refusal.exit_code
        }
    };
    pieces.push(Piece::End { code: code.into(), note: None });
    pieces
}

/// What a seat's cluster and its resource group are called.
fn name(learner: &Learner) -> String {
    format!("klab-{}", learner.lab)
}

/// One line of az at work.
struct Session<'h> {
    host: &'h Arc<Host>,
    learner: &'h Learner,
    settings: BTreeMap<String, String>,
    /// What az warns of, once each.
    warnings: RefCell<Vec<String>>,
}

impl Session<'_> {
    fn known(&self) -> Result<Known, Refusal> {
        let absent = || Error::message(Code::NotInClass, "the lab is not in this class");
        let course = self.host.course(&self.learner.lab).ok_or_else(absent)?;
        Ok(Known {
            lab: self.learner.lab.clone(),
            group: name(self.learner),
            cluster: name(self.learner),
            note: azure::read(&self.host.seat_folder(self.learner.seat))?,
            provider: course.lab().provider,
            operations: Vec::new(),
        })
    }
}

impl Executor for Session<'_> {
    fn has(&self, command: &str) -> bool {
        az::act(command).is_some()
    }

    fn settings(&self) -> Result<&BTreeMap<String, String>, Refusal> {
        Ok(&self.settings)
    }

    fn warn(&self, message: &str) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.iter().any(|said| said == message) {
            warnings.push(message.to_owned());
        }
    }

    fn perform(&self, command: &str, given: &Arguments) -> Answer {
        let act = az::act(command).ok_or_else(|| Refusal::new(format!("klab's az has no '{command}' at a seat.")))?;
        act(self, given)
    }
}

impl Clusters for Session<'_> {
    fn clusters(&self) -> Result<Vec<Known>, Refusal> {
        Ok(vec![self.known()?])
    }

    fn cluster(&self, given: &Arguments, flag: &str) -> Result<Known, Refusal> {
        let known = self.known()?;
        let (group, cluster) = (given.needed("--resource-group"), given.needed(flag));
        if known.is(group, cluster) {
            return Ok(known);
        }
        let is_in = known.is_in(group);
        let refusal = if is_in { messages::no_cluster(group, cluster) } else { messages::no_group(group) };
        Err(refusal.advise(format!("Your cluster is {} in resource group {}.", known.cluster, known.group)))
    }

    fn has_made(&self, _: &str) -> Result<bool, Refusal> {
        Ok(false)
    }

    fn look_even_stopped(&self, _: &Known) -> Result<LivePools, Refusal> {
        Ok(live_pools(self.host, self.learner)?)
    }

    fn pools<'s>(
        &'s self,
        _: &Known,
        _: &Arguments,
        _: &str,
        doing: OperationKind,
    ) -> Result<Box<dyn PoolChanges + 's>, Refusal> {
        self.host.refuse_late(self.learner.person).map_err(|refusal| Refusal::new(refusal.message))?;
        self.host.audit.seat(&format!("az {}", doing.as_str().to_lowercase()), self.learner.seat, "learner");
        // az says nothing of what is being done.
        Ok(Box::new(Change(SeatPools::of(self.host, self.learner, &EventStream::nowhere())?)))
    }

    fn abort_upgrade(&self, _: &Known, pool: &str) -> Result<(), Refusal> {
        self.host.refuse_late(self.learner.person).map_err(|refusal| Refusal::new(refusal.message))?;
        self.host.audit.seat("az operation-abort", self.learner.seat, "learner");
        Ok(abort_upgrade(self.host, self.learner, pool, &EventStream::nowhere())?)
    }

    fn note(&self, known: &Known) -> Result<(), Refusal> {
        Ok(azure::write(&known.note, &self.host.seat_folder(self.learner.seat))?)
    }

    fn forget_failed(&self, _: &Known, _: &str) -> Result<bool, Refusal> {
        Ok(false)
    }

    fn wait_until_gone(&self, _: &Known) -> Answer {
        Ok(Value::Null)
    }

    fn agrees(&self, _: &str) -> bool {
        self.warn("Unable to prompt for confirmation as no tty available. Use --yes.");
        false
    }
}

/// A change of a seat's pools: at once, also with `--no-wait`.
struct Change<'h>(SeatPools<'h>);

impl PoolChanges for Change<'_> {
    fn live(&self) -> &LivePools {
        &self.0.live
    }

    fn put(&mut self, pool: &str, keys: Table) -> Result<(), Refusal> {
        let wanted = Wanted::put(&self.0.live, pool, keys)?;
        self.0.bring_about(&wanted)?;
        Ok(())
    }

    fn remove(&mut self, pool: &str) -> Result<(), Refusal> {
        let wanted = Wanted::without(&self.0.live, pool)?;
        self.0.bring_about(&wanted)?;
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), Refusal> {
        Ok(())
    }
}
