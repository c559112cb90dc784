//! What az's own files say without az being started: who is logged in (`az account show`), and how old az is (`az version`).
//!
//! Whether the login is still good is not to be seen there; every question to Azure shows it.

use crate::environment;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::account::{Account, User};
use super::answer::ToolVersion;

/// The file in az's folder with the subscriptions of the login.
const PROFILE: &str = "azureProfile.json";
/// The file in az's folder with the versions of its parts: az compares it with itself whenever it starts, and empties it
/// where it was replaced.
const VERSIONS: &str = "versionCheck.json";

#[derive(Deserialize)]
struct Profile {
    subscriptions: Vec<Subscription>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    id: String,
    name: String,
    user: User,
    is_default: bool,
    environment_name: String,
}

#[derive(Deserialize)]
struct VersionCheck {
    versions: BTreeMap<String, PartVersion>,
}

#[derive(Deserialize)]
struct PartVersion {
    local: String,
}

/// The folder of the az that klab runs, as far as klab can know it.
///
/// A program named by `KLAB_AZ` may be a script with a login of its own; then only a folder that is named too is believed.
pub(super) fn folder() -> Option<PathBuf> {
    match (environment::AZURE_CONFIG_DIR.path(), environment::KLAB_AZ.path()) {
        (Some(folder), _) => Some(folder),
        (None, Some(_)) => None,
        (None, None) => Some(environment::HOME.path()?.join(".azure")),
    }
}

/// The account of a subscription, by id or name, else of the one az has selected.
///
/// `None` where the file leaves a doubt: az is to be asked then.
pub(super) fn account(folder: &Path, subscription: Option<&str>) -> Option<Account> {
    let profile: Profile = read(&folder.join(PROFILE))?;
    // Each cloud has a selected subscription, and which cloud is meant is decided elsewhere.
    let cloud = &profile.subscriptions.first()?.environment_name;
    if profile.subscriptions.iter().any(|subscription| subscription.environment_name != *cloud) {
        return None;
    }
    let is_meant = |found: &&Subscription| match subscription {
        Some(wanted) => found.id.eq_ignore_ascii_case(wanted) || found.name.eq_ignore_ascii_case(wanted),
        None => found.is_default,
    };
    let mut meant = profile.subscriptions.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(found), None) => Some(Account { id: found.id.clone(), user: found.user.clone() }),
        _ => None,
    }
}

/// The version of az, where one of it was started with this folder before.
pub(super) fn version(folder: &Path) -> Option<ToolVersion> {
    let VersionCheck { mut versions } = read(&folder.join(VERSIONS))?;
    versions.remove("azure-cli").map(|part| ToolVersion { cli: part.local })
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = std::fs::read_to_string(path).ok()?;
    // az writes a byte order mark.
    serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(id: &str, name: &str, selected: bool, cloud: &str) -> Value {
        json!({ "id": id, "name": name, "state": "Enabled", "user": { "name": format!("{id}@example.com"), "type": "user" },
            "isDefault": selected, "tenantId": "t", "environmentName": cloud, "managedByTenants": null })
    }

    fn found(rows: &[Value], subscription: Option<&str>) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("\u{feff}{}", json!({ "installationId": "i", "subscriptions": rows }));
        std::fs::write(folder.path().join(PROFILE), text).unwrap();
        account(folder.path(), subscription).map(|account| format!("{} {}", account.id, account.user.name))
    }

    #[test]
    fn account_is_the_selected_one_or_the_one_that_is_named() {
        let rows = [row("a", "Work", false, "AzureCloud"), row("b", "Play", true, "AzureCloud")];
        assert_eq!(found(&rows, None).as_deref(), Some("b b@example.com"));
        assert_eq!(found(&rows, Some("A")).as_deref(), Some("a a@example.com"));
        assert_eq!(found(&rows, Some("work")).as_deref(), Some("a a@example.com"));
    }

    #[test]
    fn az_is_asked_where_the_file_leaves_a_doubt() {
        let twice = [row("a", "Same", false, "AzureCloud"), row("b", "Same", false, "AzureCloud")];
        let clouds = [row("a", "Work", true, "AzureCloud"), row("b", "Play", true, "AzureChinaCloud")];
        assert_eq!(found(&twice, None), None, "none is selected");
        assert_eq!(found(&twice, Some("Same")), None, "two have that name");
        assert_eq!(found(&twice, Some("Other")), None, "none has that name");
        assert_eq!(found(&clouds, None), None, "two clouds");
        assert_eq!(found(&[], None), None, "nobody is logged in");
        assert!(account(Path::new("/nowhere"), None).is_none());
    }

    #[test]
    fn version_of_az_is_what_it_noted_at_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let noted = |text: &str| {
            std::fs::write(folder.path().join(VERSIONS), text).unwrap();
            version(folder.path()).map(|version| version.cli)
        };
        let row = r#"{ "local": "2.91.0", "pypi": "2.92.0" }"#;
        let full =
            format!("\u{feff}{{ \"versions\": {{ \"core\": {row}, \"azure-cli\": {row} }}, \"update_time\": \"\" }}");
        assert_eq!(noted(&full).as_deref(), Some("2.91.0"));
        assert_eq!(noted("\u{feff}{\"versions\": {}, \"update_time\": \"\"}"), None, "az was replaced");
        assert_eq!(noted("\u{feff}{}"), None);
        assert_eq!(noted("no JSON"), None);
        assert!(version(Path::new("/nowhere")).is_none());
    }
}
