//! `az aks create`: a lab of one system pool, under the names that were typed.

use std::collections::BTreeMap;

use klab_lab::spec::{DEFAULT_LOCATION, LoadOptions, Provider};
use serde_json::Value;
use toml::{Table, Value as Key};

use super::cluster::changed;
use super::lab_file::{file_of, forget, make};
use super::session::Session;
use klab_az::cluster::autoscaler;
use klab_az::commands::Answer;
use klab_az::format::capital_first;
use klab_az::grammar::Arguments;
use klab_az::names::{Site, lab_name, region};
use klab_az::notes::ClusterNote;
use klab_az::refusal::Refusal;
use klab_az::{checks, messages, versions};
use klab_operations::az::{Clusters, NewPool, is_later};
use klab_operations::background;
use klab_operations::environment;
use klab_operations::render;
use klab_operations::state::azure;
use klab_operations::state::home::state_error;
use klab_operations::state::operation::{Operation, OperationKind, Task};
use klab_server::files::{create_private_folder, write_private};

/// `create`.
pub(super) fn create(session: &Session<'_>, given: &Arguments) -> Answer {
    let (group, cluster) = (given.needed("--resource-group"), given.needed("--name"));
    checks::cluster_name(cluster)?;
    let made = session.group(group)?;
    let location = match (given.word("--location"), &made) {
        (Some(typed), _) => region(typed),
        (None, Some(group)) => group.location.clone(),
        (None, None) => DEFAULT_LOCATION.to_owned(),
    };
    let site = Site { group: group.to_owned(), cluster: cluster.to_owned(), location };
    let text = lab_file(given, &site)?;
    let group = made.ok_or_else(|| messages::no_group(group))?.name;
    if session.clusters()?.iter().any(|known| known.is(&group, cluster)) {
        let message = format!(
            "The cluster '{cluster}' under resource group '{group}' already exists. Please use command 'az aks update' to update the existing cluster, or select a different cluster name to create a new cluster."
        );
        return Err(Refusal::new(message));
    }
    let lab = free_name(session, cluster)?;
    let note = ClusterNote {
        group: Some(group),
        cluster: Some(cluster.to_owned()),
        tags: given.words("--tags").map(checks::tags).filter(|tags| !tags.is_empty()),
        tier: given.word("--tier").map(capital_first),
        pools: BTreeMap::new(),
    };
    let text = format!("# Made by az aks create.\nlab = \"{lab}\"\n{text}");
    write(session, &lab, &text, &note)?;
    if is_later(given) {
        let operation = Operation { pool: None, doing: OperationKind::Creating, tasks: vec![Task::Make], failed: None };
        background::begin(&session.context.home, &lab, operation)?;
        return Ok(Value::Null);
    }
    make(&session.context, &lab)?;
    let known = session.cluster(given, "--name")?;
    changed(session, &known, given)
}

/// What of the lab file follows its name.
fn lab_file(given: &Arguments, site: &Site) -> Result<String, Refusal> {
    let name = given.needed("--nodepool-name");
    checks::pool_name(name)?;
    let pool = NewPool::read(given, true, "--nodepool-labels", "--nodepool-taints")?.keys(given, &site.location)?;
    let mut aks = Table::from_iter([("location".to_owned(), site.location.clone().into())]);
    if given.word("--network-plugin") == Some("kubenet") {
        aks.insert("network".to_owned(), "kubenet".into());
    }
    let mut whole = Table::new();
    if let Some(text) = given.word("--kubernetes-version").filter(|text| !text.is_empty()) {
        let text = checks::version(text)?;
        let version = text
            .parse()
            .ok()
            .filter(|version: &klab_lab::spec::KubernetesVersion| versions::minors().contains(&version.minor));
        let version = version.ok_or_else(|| messages::no_version(site, text, &versions::offered()))?;
        whole.insert("kubernetes".to_owned(), version.to_string().into());
    }
    if let Some(provider) = environment::KLAB_PROVIDER.text() {
        match provider.parse::<Provider>() {
            Ok(provider) if provider.profile().stands_in_for_azure() => {
                whole.insert("provider".to_owned(), provider.as_str().into());
            }
            _ => {
                let message = format!("klab's az makes no cluster on `{provider}`, which KLAB_PROVIDER names.");
                return Err(Refusal::new(message)
                    .advise("Without KLAB_PROVIDER it makes an embedded one; `kind` does as well."));
            }
        }
    }
    let words = given.words("--cluster-autoscaler-profile").unwrap_or_default();
    let settings = autoscaler(words, &BTreeMap::new())?;
    if !settings.is_empty() {
        let settings: Table = settings.into_iter().map(|(name, value)| (name, value.into())).collect();
        whole.insert("autoscaler".to_owned(), settings.into());
    }
    whole.insert("aks".to_owned(), aks.into());
    whole.insert("pool".to_owned(), Table::from_iter([(name.to_owned(), Key::from(pool))]).into());
    toml::to_string(&whole).map_err(|error| Refusal::new(error.to_string()))
}

/// A name that no lab has.
fn free_name(session: &Session<'_>, cluster: &str) -> Result<String, Refusal> {
    let home = &session.context.home;
    let labs = home.labs().map_err(|error| state_error(error, "read", home.root()))?;
    let name = lab_name(cluster);
    let others = (2u32..100).map(|number| format!("{}-{number}", name.chars().take(27).collect::<String>()));
    let mut names = std::iter::once(name.clone()).chain(others);
    names
        .find(|name| !labs.contains(name))
        .ok_or_else(|| Refusal::new(format!("there are too many labs like `{name}`")))
}

/// Writes the lab file and what is remembered of the cluster, once it is known that a lab can be made of them.
fn write(session: &Session<'_>, lab: &str, text: &str, note: &ClusterNote) -> Result<(), Refusal> {
    let context = &session.context;
    let folder = context.home.lab(lab);
    let path = file_of(context, lab);
    let written = (|| {
        create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        write_private(&path, text.as_bytes()).map_err(|error| state_error(error, "write", &path))?;
        let read = context.load(&path, &LoadOptions::default())?;
        render::render(&read).map_err(|problems| super::super::invalid(&path, &problems))?;
        azure::write(note, &folder)
    })();
    written.map_err(|error| {
        forget(&folder);
        error.into()
    })
}
