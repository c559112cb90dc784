//! Rules about upgrades of pools.

use super::context::Context;
use crate::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::exchange::exchange_refusal;
use crate::spec::machine::Machine;
use crate::spec::pool::PoolMode;
use crate::spec::step::{Action, UpgradeTarget};
use crate::spec::upgrade::UpgradeSettings;

pub(super) fn upgrade(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    for pool in &lab.pools {
        if let Some(why) = pool.upgrade.refusal(pool.mode == PoolMode::System) {
            let message = format!("pool `{}` cannot be upgraded like this", pool.name);
            found.push(Diagnostic::error(Code::Upgrade, message).at(&pool.name.at, why));
        }
    }
    for action in lab.steps.iter().flat_map(|step| &step.actions) {
        let Action::UpgradePool { pool: name, to, settings, no_wait } = action.value.tried() else { continue };
        let Some(pool) = lab.pool(name) else { continue };
        let message = format!("pool `{name}` cannot be upgraded like this");
        let is_version = matches!(to, UpgradeTarget::Kubernetes(_));
        let is_plain = *settings == UpgradeSettings::default() && !no_wait && is_version;
        let mut after = pool.clone();
        after.upgrade = settings.or(pool.upgrade);
        if let UpgradeTarget::Size(size) = to {
            after.machine = Machine::of_size(size);
        }
        let is_refused = matches!(action.value, Action::Refused { .. });
        if !is_plain && !lab.is_like_aks() {
            let title = lab.provider.profile().title;
            found.push(
                Diagnostic::error(Code::Upgrade, message)
                    .at(
                        &action.at,
                        format!("{title} replaces nodes at once: there is no surge and no drain to configure"),
                    )
                    .help(format!(
                        "leave the step out there: `skip = {{ {} = \"it replaces workers\" }}`",
                        lab.provider
                    )),
            );
        } else if *to == UpgradeTarget::NodeImage && *settings != UpgradeSettings::default() {
            found.push(
                Diagnostic::error(Code::Upgrade, message)
                    .at(&action.at, "az takes no settings beside `--node-image-only`")
                    .help("write them in the table of the pool: `upgrade = { max_surge = 2 }`"),
            );
        } else if let UpgradeTarget::Size(_) = to
            && !is_refused
            && let Some(why) = exchange_refusal(pool, &after)
        {
            found.push(Diagnostic::error(Code::Upgrade, message).at(&action.at, why));
        } else if let Some(why) = after.upgrade.refusal(pool.mode == PoolMode::System) {
            found.push(Diagnostic::error(Code::Upgrade, message).at(&action.at, why));
        }
    }
}
