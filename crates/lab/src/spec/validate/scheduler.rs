//! The configuration of the scheduler.

use std::sync::Arc;

use klab_scheduler::Profiles;
use serde_json::Value;

use super::Reader;
use crate::code::Code;
use crate::spec::raw::{self, At};
use crate::spec::scheduler::Scheduler;
use crate::spec::source::Located;
use crate::spec::{Diagnostic, SimLike};

impl Reader<'_> {
    pub(super) fn scheduler(&mut self, raw: Option<&At<raw::Scheduler>>, like: SimLike) -> Option<Located<Scheduler>> {
        let raw = raw?;
        let at = self.at(raw.span());
        let mut configuration = raw.get().0.clone();
        if let Some(fields) = configuration.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| Value::from("kubescheduler.config.k8s.io/v1"));
            fields.entry("kind").or_insert_with(|| Value::from("KubeSchedulerConfiguration"));
        }
        let profile = self.provider.profile();
        if !profile.configures_scheduler {
            let message = format!("klab does not configure the scheduler of {}", profile.title);
            let help = "leave `[scheduler]` out there, or choose another provider with `--provider`";
            self.report(Diagnostic::error(Code::NoScheduler, message).at(&at, "its owner does").help(help));
        }
        let as_aks = profile.like.unwrap_or(like) == SimLike::Aks;
        let read = Profiles::from_configuration(&configuration);
        let is_good = read.is_ok();
        match if as_aks { read.and_then(|_| Profiles::for_aks(&configuration)) } else { read } {
            Ok(profiles) => Some(Located::new(Scheduler { configuration, profiles: Arc::new(profiles) }, at)),
            Err(error) => {
                for problem in error.problems {
                    let message = "the scheduler's configuration cannot be used".to_owned();
                    let mut report = Diagnostic::error(Code::SchedulerConfiguration, message).at(&at, problem);
                    if is_good {
                        report = report.help("kind takes it: `provider = \"kind\"`, or `sim.like = \"kind\"`");
                    }
                    self.report(report);
                }
                None
            }
        }
    }
}
