//! The one account: its subscription, the version of az, providers and sizes of machines.

use klab_lab::spec::VmSize;
use serde_json::{Value, json};

use crate::names::{SUBSCRIPTION, SUBSCRIPTION_NAME, TENANT, USER};
use crate::refusal::Refusal;

/// The version of the az that answers.
pub const VERSION: &str = "2.91.0";

/// The only subscription. Its cloud has the key `environmentName` in `az account show`, `cloudName` in `az account list`.
pub fn subscription(cloud: &str) -> Value {
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
pub fn is_subscription(word: &str) -> bool {
    word.eq_ignore_ascii_case(SUBSCRIPTION) || word.eq_ignore_ascii_case(SUBSCRIPTION_NAME)
}

/// Refuses every subscription but the only one.
///
/// # Errors
/// When it is another.
pub fn refuse_other(subscription: &str) -> Result<(), Refusal> {
    if is_subscription(subscription) {
        return Ok(());
    }
    let message = format!("The subscription of '{subscription}' doesn't exist in cloud 'AzureCloud'.");
    Err(Refusal::new(message).advise(format!("klab's only subscription is '{SUBSCRIPTION_NAME}', {SUBSCRIPTION}.")))
}

/// What `az version` answers.
pub fn versions(klab: &str) -> Value {
    json!({
        "azure-cli": VERSION,
        "azure-cli-core": VERSION,
        "azure-cli-telemetry": "1.1.0",
        "extensions": {},
        "klab": klab,
    })
}

/// A provider of resources, which is always registered.
pub fn provider(namespace: &str) -> Value {
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/providers/{namespace}"),
        "namespace": namespace,
        "registrationPolicy": "RegistrationRequired",
        "registrationState": "Registered",
    })
}

/// The sizes that nodes of labs can have.
pub fn sizes() -> Value {
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
    VmSize::all().iter().map(size).collect()
}
