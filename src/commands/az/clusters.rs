//! The labs of a home as the clusters that az's commands work on.

use klab_lab::spec::LoadOptions;

use super::lab_file::file_of;
use super::session::Session;
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::messages;
use klab_az::refusal::Refusal;
use klab_operations::az::{Clusters, Known, PoolChanges};
use klab_operations::background;
use klab_operations::pool::LivePools;
use klab_operations::pool::locked_pools::{abort_at, look_even_stopped};
use klab_operations::state::azure;
use klab_operations::state::operation::{Operation, OperationKind, Task};

impl Clusters for Session<'_> {
    fn clusters(&self) -> Result<Vec<Known>, Refusal> {
        let mut all = self.everything()?;
        all.retain(|known| known.provider.profile().stands_in_for_azure());
        Ok(all)
    }

    fn cluster(&self, given: &Arguments, flag: &str) -> Result<Known, Refusal> {
        let (group, cluster) = (given.needed("--resource-group"), given.needed(flag));
        let mut all = self.everything()?;
        if let Some(at) = all.iter().position(|known| known.is(group, cluster)) {
            let known = all.swap_remove(at);
            if known.provider.profile().has_managed_pools {
                let message = format!("Cluster '{cluster}' is lab `{}`, which is on AKS itself.", known.lab);
                return Err(Refusal::new(message).advise("Ask the real az: type az without klab."));
            }
            return Ok(known);
        }
        let has_group = self.has_made(group)? || all.iter().any(|known| known.is_in(group));
        let refusal = if has_group { messages::no_cluster(group, cluster) } else { messages::no_group(group) };
        let known: Vec<String> = all
            .iter()
            .filter(|known| known.provider.profile().stands_in_for_azure())
            .map(|known| format!("{} in resource group {}", known.cluster, known.group))
            .collect();
        Err(match known.as_slice() {
            [] => refusal.advise("No lab is up; klab up or az aks create makes one."),
            known => refusal.advise(format!("klab's clusters are: {}.", known.join("; "))),
        })
    }

    fn has_made(&self, group: &str) -> Result<bool, Refusal> {
        Ok(self.account()?.groups.contains_key(&group.to_lowercase()))
    }

    fn look_even_stopped(&self, known: &Known) -> Result<LivePools, Refusal> {
        Ok(look_even_stopped(&self.context, &known.lab)?)
    }

    fn displayed(&self, known: &Known) -> Result<LivePools, Refusal> {
        if known.is_being_made() && self.context.record(&known.lab)?.is_none_or(|_| known.state(None) == "Creating") {
            let lab = self.context.load(&file_of(&self.context, &known.lab), &LoadOptions::default())?;
            return Ok(LivePools::planned(lab));
        }
        let mut live = self.look_even_stopped(known)?;
        let tasks = known.operations.iter().flat_map(|operation| &operation.tasks);
        let puts = tasks.filter_map(|task| match task {
            Task::Put { pool, keys } => Some((pool.as_str(), keys.clone())),
            _ => None,
        });
        // What breaks a rule by now is shown as it is.
        if let Ok(lab) = live.with_all(puts) {
            live.lab = lab;
        }
        Ok(live)
    }

    fn pools<'s>(
        &'s self,
        known: &Known,
        given: &Arguments,
        pool: &str,
        doing: OperationKind,
    ) -> Result<Box<dyn PoolChanges + 's>, Refusal> {
        self.change(known, given, Some(pool), doing)
    }

    fn abort_upgrade(&self, known: &Known, pool: &str) -> Result<(), Refusal> {
        Ok(abort_at(&self.context, &known.lab, pool)?)
    }

    fn note(&self, known: &Known) -> Result<(), Refusal> {
        Ok(azure::write(&known.note, &self.context.home.lab(&known.lab))?)
    }

    fn forget_failed(&self, known: &Known, pool: &str) -> Result<bool, Refusal> {
        Ok(Operation::forget_failed(&self.context.home.lab(&known.lab), Some(pool))?)
    }

    fn wait_until_gone(&self, known: &Known) -> Answer {
        background::wait(&self.context.home, &known.lab, || {})?;
        Ok(serde_json::Value::Null)
    }

    fn agrees(&self, question: &str) -> bool {
        self.ui.agrees(question).unwrap_or_else(|| {
            self.warn("Unable to prompt for confirmation as no tty available. Use --yes.");
            false
        })
    }
}
