//! Rules about upgrades of pools.

use super::context::Context;
use crate::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::pool::PoolMode;
use crate::spec::step::Action;
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
        let Action::UpgradePool { pool: name, settings, no_wait, .. } = action.value.tried() else { continue };
        let Some(pool) = lab.pool(name) else { continue };
        let message = format!("pool `{name}` cannot be upgraded like this");
        let is_plain = *settings == UpgradeSettings::default() && !no_wait;
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
        } else if let Some(why) = settings.or(pool.upgrade).refusal(pool.mode == PoolMode::System) {
            found.push(Diagnostic::error(Code::Upgrade, message).at(&action.at, why));
        }
    }
}
