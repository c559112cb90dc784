//! `az account`, `az login`, `az version`, `az provider`, `az vm list-sizes`, `az aks get-versions`: what does not depend on a lab.

#![expect(clippy::unnecessary_wraps, reason = "all rows of the table do what they do in one form")]

use serde_json::{Value, json};

use super::session::Session;
use klab_az::account;
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;
use klab_az::versions;
use klab_operations::environment;

/// `account show`.
pub(super) fn show(_: &Session<'_>, given: &Arguments) -> Answer {
    given.word("--subscription").map_or(Ok(()), account::refuse_other)?;
    Ok(account::subscription("environmentName"))
}

/// `account list`, and what `login` answers.
pub(super) fn list(_: &Session<'_>, _: &Arguments) -> Answer {
    Ok(json!([account::subscription("cloudName")]))
}

/// `account set`.
pub(super) fn set(_: &Session<'_>, given: &Arguments) -> Answer {
    account::refuse_other(given.needed("--subscription"))?;
    Ok(Value::Null)
}

/// `login`: not needed, so it asks nothing.
pub(super) fn login(session: &Session<'_>, given: &Arguments) -> Answer {
    session.warn("This is klab's az: it needs no login, and nothing here is in Azure.");
    list(session, given)
}

/// `logout`.
pub(super) fn nothing(_: &Session<'_>, _: &Arguments) -> Answer {
    Ok(Value::Null)
}

/// `version`.
pub(super) fn version(_: &Session<'_>, _: &Arguments) -> Answer {
    Ok(account::versions(env!("CARGO_PKG_VERSION")))
}

/// `provider show`.
pub(super) fn provider(_: &Session<'_>, given: &Arguments) -> Answer {
    Ok(account::provider(given.needed("--namespace")))
}

/// `aks install-cli`.
pub(super) fn install_cli(session: &Session<'_>, _: &Arguments) -> Answer {
    let path = environment::PATH.value().unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|program| program.is_file());
    let Some(kubectl) = found else {
        return Err(Refusal::new("kubectl is not on PATH, and klab's az installs nothing.")
            .advise("https://kubernetes.io/docs/tasks/tools/ says how it is installed."));
    };
    session.warn(&format!("klab's az installs nothing. kubectl is there already: {}", kubectl.display()));
    Ok(Value::Null)
}

/// `extension add` and `extension update`: what extensions bring, klab's az does not have.
pub(super) fn extension(session: &Session<'_>, given: &Arguments) -> Answer {
    session.warn(&format!("klab's az has no extensions; '{}' was not added.", given.needed("--name")));
    Ok(Value::Null)
}

/// `extension list`.
pub(super) fn no_extensions(_: &Session<'_>, _: &Arguments) -> Answer {
    Ok(json!([]))
}

/// `vm list-sizes`: those that labs can have.
pub(super) fn sizes(session: &Session<'_>, _: &Arguments) -> Answer {
    session.warn(
        "This command has been deprecated and will be removed in a future release. Use 'az vm list-skus' instead.",
    );
    Ok(account::sizes())
}

/// `aks get-versions`.
pub(super) fn get_versions(_: &Session<'_>, _: &Arguments) -> Answer {
    Ok(versions::document())
}
