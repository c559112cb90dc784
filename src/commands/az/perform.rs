//! What performs each command of az at a terminal.

use std::collections::BTreeMap;

use super::session::{CARE, Session};
use super::{account, cluster, config, create, credentials, group, wait};
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;

/// What performs the command of these words, where it is not one of those that show and change pools.
fn act(command: &str) -> Option<fn(&Session<'_>, &Arguments) -> Answer> {
    Some(match command {
        "account list" => account::list,
        "account set" => account::set,
        "account show" => account::show,
        "aks create" => create::create,
        "aks delete" => cluster::delete,
        "aks get-credentials" => credentials::get,
        "aks get-versions" => account::get_versions,
        "aks install-cli" => account::install_cli,
        "aks nodepool wait" => wait::for_pool,
        "aks scale" => cluster::scale,
        "aks start" => cluster::start,
        "aks stop" => cluster::stop,
        "aks update" => cluster::update,
        "aks upgrade" => cluster::upgrade,
        "aks wait" => wait::for_cluster,
        "config get" => config::get,
        "config set" => config::set,
        "config unset" => config::unset,
        "configure" => config::configure,
        "extension add" | "extension update" => account::extension,
        "extension list" => account::no_extensions,
        "group create" => group::create,
        "group delete" => group::delete,
        "group exists" => group::exists,
        "group list" => group::list,
        "group show" => group::show,
        "group wait" => wait::for_group,
        "login" => account::login,
        "logout" | "provider register" => account::nothing,
        "provider show" => account::provider,
        "version" => account::version,
        "vm list-sizes" => account::sizes,
        _ => return None,
    })
}

impl Executor for Session<'_> {
    fn settings(&self) -> Result<&BTreeMap<String, String>, Refusal> {
        Ok(&self.account()?.settings)
    }

    fn warn(&self, message: &str) {
        if !self.is_terse && self.said.borrow_mut().insert(message.to_owned()) {
            self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}"));
        }
    }

    fn perform(&self, command: &str, given: &Arguments) -> Answer {
        if let Some(act) = klab_operations::az::act(command) {
            return act(self, given);
        }
        let act = act(command).ok_or_else(|| Refusal::new(format!("klab's az has no '{command}'.")))?;
        act(self, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_az::rows::ROWS;

    #[test]
    fn every_command_is_performed_in_one_way() {
        for row in ROWS {
            let words = row.command.words;
            assert_ne!(act(words).is_some(), klab_operations::az::act(words).is_some(), "{words}");
        }
    }
}
