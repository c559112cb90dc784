//! `az account`, `az login`, `az version`, `az provider`, `az vm list-sizes`, `az aks get-versions`: what does not depend on a lab.

#![expect(clippy::unnecessary_wraps, reason = "all rows of the table do what they do in one form")]

use klab_lab::spec::{VmSize, machine};
use serde_json::{Value, json};

use super::session::{Answer, Session};
use crate::az::grammar::Given;
use crate::az::names::{SUBSCRIPTION, SUBSCRIPTION_NAME, TENANT, USER};
use crate::az::refusal::Refusal;
use crate::az::versions;
use crate::environment;

/// The az that klab answers as.
pub(super) const VERSION: &str = "2.91.0";

/// The only subscription, with its cloud under the name that `show` or `list` has for it.
fn subscription(cloud: &str) -> Value {
    json!({
        (cloud): "AzureCloud",
        "homeTenantId": TENANT,
        "id": SUBSCRIPTION,
        "isDefault": true,
        "managedByTenants": [],
        "name": SUBSCRIPTION_NAME,
        "state": "Enabled",
        "tenantId": TENANT,
        "user": { "name": USER, "type": "user" },
    })
}

/// Whether a word means the only subscription.
pub(super) fn is_subscription(word: &str) -> bool {
    word.eq_ignore_ascii_case(SUBSCRIPTION) || word.eq_ignore_ascii_case(SUBSCRIPTION_NAME)
}

/// `account show`.
pub(super) fn show(_: &Session<'_>, given: &Given) -> Answer {
    match given.word("--subscription").filter(|word| !is_subscription(word)) {
        Some(other) => Err(unknown(&format!("The subscription of '{other}' doesn't exist in cloud 'AzureCloud'."))),
        None => Ok(subscription("environmentName")),
    }
}

/// `account list`, and what `login` answers.
pub(super) fn list(_: &Session<'_>, _: &Given) -> Answer {
    Ok(json!([subscription("cloudName")]))
}

/// `account set`.
pub(super) fn set(_: &Session<'_>, given: &Given) -> Answer {
    let named = given.needed("--subscription");
    if is_subscription(named) {
        return Ok(Value::Null);
    }
    Err(unknown(&format!("The subscription of '{named}' doesn't exist in cloud 'AzureCloud'.")))
}

/// `login`: nobody has to, and nobody is asked anything.
pub(super) fn login(session: &Session<'_>, given: &Given) -> Answer {
    session.warn("This is klab's az: nobody logs in, and nothing here is in Azure.");
    list(session, given)
}

/// `logout`.
pub(super) fn nothing(_: &Session<'_>, _: &Given) -> Answer {
    Ok(Value::Null)
}

/// `version`.
pub(super) fn version(_: &Session<'_>, _: &Given) -> Answer {
    Ok(json!({
        "azure-cli": VERSION,
        "azure-cli-core": VERSION,
        "azure-cli-telemetry": "1.1.0",
        "extensions": {},
        "klab": env!("CARGO_PKG_VERSION"),
    }))
}

/// `provider show`.
pub(super) fn provider(_: &Session<'_>, given: &Given) -> Answer {
    let namespace = given.needed("--namespace");
    Ok(json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/providers/{namespace}"),
        "namespace": namespace,
        "registrationPolicy": "RegistrationRequired",
        "registrationState": "Registered",
    }))
}

/// `aks install-cli`.
pub(super) fn install_cli(session: &Session<'_>, _: &Given) -> Answer {
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
pub(super) fn extension(session: &Session<'_>, given: &Given) -> Answer {
    session.warn(&format!("klab's az has no extensions; '{}' was not added.", given.needed("--name")));
    Ok(Value::Null)
}

/// `extension list`.
pub(super) fn no_extensions(_: &Session<'_>, _: &Given) -> Answer {
    Ok(json!([]))
}

/// `vm list-sizes`: those that labs can have.
pub(super) fn sizes(session: &Session<'_>, _: &Given) -> Answer {
    session.warn(
        "This command has been deprecated and will be removed in a future release. Use 'az vm list-skus' instead.",
    );
    let size = |size: &VmSize| {
        json!({
            "maxDataDiskCount": size.cpus.saturating_mul(2).clamp(2, 64),
            "memoryInMB": size.memory_mib,
            "name": size.name,
            "numberOfCores": size.cpus,
            "osDiskSizeInMB": 1_047_552,
            "resourceDiskSizeInMB": 0,
        })
    };
    Ok(machine::VmSize::all().iter().map(size).collect())
}

/// `aks get-versions`.
pub(super) fn get_versions(_: &Session<'_>, _: &Given) -> Answer {
    Ok(versions::document())
}

fn unknown(message: &str) -> Refusal {
    Refusal::new(message).advise(format!("klab's only subscription is '{SUBSCRIPTION_NAME}', {SUBSCRIPTION}."))
}
