//! `az aks upgrade`, `scale`, `update`, `stop`, `start`, `delete`: clusters, which are labs.

use klab_lab::spec::KubernetesVersion;
use serde_json::Value;

use super::dispatch::refuse_busy;
use super::session::Session;
use klab_az::cluster::autoscaler;
use klab_az::commands::{Answer, Executor};
use klab_az::format::capital_first;
use klab_az::grammar::Arguments;
use klab_az::refusal::{Code, Refusal};
use klab_az::versions::Step;
use klab_az::{checks, messages, versions};
use klab_operations::az::{
    Clusters, Known, is_later, labels_and_taints, look, scale_pool, shown_document, update_pool, version,
};
use klab_operations::state::operation::{OperationKind, Task};

const NAME: &str = "--name";

/// What a command that changed a cluster answers.
pub(super) fn changed(session: &Session<'_>, known: &Known, given: &Arguments) -> Answer {
    if is_later(given) { Ok(Value::Null) } else { shown_document(session, known) }
}

/// `upgrade`.
pub(super) fn upgrade(session: &Session<'_>, given: &Arguments) -> Answer {
    let question =
        "Kubernetes may be unavailable during cluster upgrades.\n Are you sure you want to perform this operation?";
    if session.declines(given, question) {
        return Ok(Value::Null);
    }
    let asked = given.word("--kubernetes-version").filter(|text| !text.is_empty()).map(checks::version).transpose()?;
    let known = session.cluster(given, NAME)?;
    if given.has("--node-image-only") {
        if asked.is_some() {
            return Err(Refusal::new(
                "Conflicting flags. Upgrading the Kubernetes version will also upgrade node image version. If you only want to upgrade the node version please use the \"--node-image-only\" option only.",
            ));
        }
        let pools = session.change(&known, given, None, OperationKind::Upgrading)?;
        let mut tasks = Vec::new();
        for name in pools.live().names() {
            let mut keys = pools.live().keys(name)?.clone();
            if keys.remove("node_image").is_some() {
                tasks.push(Task::Put { pool: name.to_owned(), keys });
            }
        }
        drop(pools);
        session.perform(&known, given, OperationKind::Upgrading, tasks)?;
        return changed(session, &known, given);
    }
    if !known.provider.profile().is_embedded {
        let message = format!(
            "klab's az cannot upgrade cluster '{}': the version of its control plane is that of the image it was made of.",
            known.cluster
        );
        return Err(Refusal::new(message)
            .advise("'az aks nodepool upgrade' brings the nodes of a pool to another version.")
            .advise("Another version in the lab file, and 'klab up FILE --recreate', makes the cluster again."));
    }
    let pools = session.change(&known, given, None, OperationKind::Upgrading)?;
    let now = version(pools.live());
    let target = asked.and_then(|text| text.parse::<KubernetesVersion>().ok());
    let Some(target) = target.filter(|target| versions::step(now, *target) != Step::Nothing) else {
        if let Some(text) = asked.filter(|text| text.parse::<KubernetesVersion>().is_err()) {
            return Err(messages::no_version(&known.site(pools.live()), text, &versions::offered()));
        }
        session.warn(&format!(
            "The cluster is already on version {now} and is not in a failed state. No operations will occur when upgrading to the same version if the cluster is not in a failed state."
        ));
        drop(pools);
        return changed(session, &known, given);
    };
    if !versions::minors().contains(&target.minor) {
        return Err(messages::no_version(&known.site(pools.live()), &target.to_string(), &versions::offered()));
    }
    if versions::step(now, target) == Step::Refused {
        let (from, to) = (versions::patched(now), versions::patched(target));
        return Err(messages::no_upgrade(&from, &to, &versions::upgrades(now)));
    }
    let is_control_plane_only = given.has("--control-plane-only");
    let question = if is_control_plane_only {
        format!(
            "Since --control-plane-only parameter is specified, this will upgrade only the kubernetes version of the control plane to {target}. Kubernetes versions of the node pools will remain unchanged, but node image version may be upgraded if there has been cluster config change that requires VM reimage. Continue?"
        )
    } else {
        format!(
            "Since --control-plane-only parameter is not specified, this will upgrade the control plane AND all nodepools to version {target}. Continue?"
        )
    };
    if session.declines(given, &question) {
        return Ok(Value::Null);
    }
    let mut tasks = vec![Task::UpgradeControlPlane { from: now.to_string(), to: target.to_string() }];
    for name in pools.live().names().into_iter().filter(|_| !is_control_plane_only) {
        let mut keys = pools.live().keys(name)?.clone();
        // It is the cluster's from now on, and comes with its image.
        keys.remove("kubernetes");
        keys.remove("node_image");
        tasks.push(Task::Put { pool: name.to_owned(), keys });
    }
    drop(pools);
    session.perform(&known, given, OperationKind::Upgrading, tasks)?;
    changed(session, &known, given)
}

/// `scale`.
pub(super) fn scale(session: &Session<'_>, given: &Arguments) -> Answer {
    let known = session.cluster(given, NAME)?;
    let live = look(session, &known)?;
    let names = live.names();
    let asked = given.word("--nodepool-name").unwrap_or_default();
    let name = match names.as_slice() {
        [only] if asked.is_empty() => *only,
        _ if asked.is_empty() => {
            return Err(Refusal::new(
                "There are more than one node pool in the cluster. Please specify nodepool name or use az aks nodepool command to scale node pool",
            ));
        }
        names => names
            .iter()
            .copied()
            .find(|name| *name == asked)
            .ok_or_else(|| Refusal::new(format!("The nodepool \"{asked}\" was not found.")))?,
    };
    scale_pool(session, &known, name, given)?;
    changed(session, &known, given)
}

/// `update`.
pub(super) fn update(session: &Session<'_>, given: &Arguments) -> Answer {
    let (enable, renew, disable) = (
        given.has("--enable-cluster-autoscaler"),
        given.has("--update-cluster-autoscaler"),
        given.has("--disable-cluster-autoscaler"),
    );
    let own = [
        "--cluster-autoscaler-profile",
        "--tags",
        "--tier",
        "--nodepool-labels",
        "--nodepool-taints",
        "--min-count",
        "--max-count",
    ];
    if !(enable || renew || disable) && given.has_none_of(&own) && given.warnings.is_empty() {
        return Err(Refusal::new("Please specify at least one of the parameters to update.")
            .advise("'az aks update --help' lists what klab's az can update."));
    }
    let (labels, taints) = labels_and_taints(given, "--nodepool-labels", "--nodepool-taints")?;
    let mut known = session.cluster(given, NAME)?;
    refuse_busy(&known, None, OperationKind::Updating)?;
    let mut tasks = Vec::new();
    if enable || renew || disable || !given.has_none_of(&["--min-count", "--max-count"]) {
        let live = look(session, &known)?;
        let names = live.names();
        let [only] = names.as_slice() else {
            return Err(Refusal::new(
                "There are more than one node pool in the cluster. Please use \"az aks nodepool\" command to update per node pool auto scaler settings",
            ));
        };
        let flags = [
            "--resource-group",
            "--enable-cluster-autoscaler",
            "--update-cluster-autoscaler",
            "--disable-cluster-autoscaler",
            "--min-count",
            "--max-count",
            "--no-wait",
        ];
        let of_pool = given.only(&flags, &[("--cluster-name", given.needed(NAME)), ("--nodepool-name", only)]);
        update_pool(session, &of_pool)?;
    }
    if let Some(words) = given.words("--cluster-autoscaler-profile") {
        let settings = autoscaler(words, &look(session, &known)?.observed.autoscaler)?;
        if known.provider.profile().has_autoscaler {
            tasks.push(Task::SetAutoscaler { settings });
        } else {
            session.warn("Nodes of this cluster are containers, and no autoscaler changes them; nothing was done about its profile.");
        }
    }
    if labels.is_some() || taints.is_some() {
        let live = look(session, &known)?;
        for name in live.names() {
            let mut keys = live.keys(name)?.clone();
            let said = [("labels", &labels), ("taints", &taints)].into_iter();
            keys.extend(said.filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))));
            live.with(name, keys.clone())?;
            tasks.push(Task::Put { pool: name.to_owned(), keys });
        }
    }
    session.perform(&known, given, OperationKind::Updating, tasks)?;
    if let Some(tags) = given.words("--tags") {
        let tags = checks::tags(tags);
        known.note.tags = (!tags.is_empty()).then_some(tags);
    }
    if let Some(tier) = given.word("--tier") {
        known.note.tier = Some(capital_first(tier));
    }
    session.note(&known)?;
    changed(session, &known, given)
}

/// `stop`.
pub(super) fn stop(session: &Session<'_>, given: &Arguments) -> Answer {
    switch(session, given, OperationKind::Stopping, Task::Stop)
}

/// `start`.
pub(super) fn start(session: &Session<'_>, given: &Arguments) -> Answer {
    switch(session, given, OperationKind::Starting, Task::Start)
}

fn switch(session: &Session<'_>, given: &Arguments, doing: OperationKind, task: Task) -> Answer {
    let known = session.cluster(given, NAME)?;
    if session.context.provider(known.provider)?.machines().is_none() {
        let message = format!(
            "Cluster '{}' has no machines that could be stopped or started: it is an embedded one.",
            known.cluster
        );
        return Err(Refusal::new(message)
            .advise("'az aks nodepool stop' takes the nodes of a pool away and keeps their number.")
            .advise("Labs on kind can be stopped."));
    }
    refuse_busy(&known, None, doing)?;
    session.perform(&known, given, doing, vec![task])?;
    Ok(Value::Null)
}

/// `delete`.
pub(super) fn delete(session: &Session<'_>, given: &Arguments) -> Answer {
    session.confirm(given, "Are you sure you want to perform this operation?")?;
    let known = match session.cluster(given, NAME) {
        // Azure takes what is not there for deleted.
        Err(refusal) if refusal.code == Some(Code::ResourceNotFound) => return Ok(Value::Null),
        known => known?,
    };
    // The group stays when the cluster goes, as in Azure.
    session.keep_group(&known)?;
    session.delete(&known, given)?;
    Ok(Value::Null)
}
