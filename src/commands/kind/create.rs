//! `kind create cluster`: an embedded cluster from kind's configuration, and its context in the user's kubeconfig.

use std::collections::BTreeMap;
use std::io::Read;

use jiff::Timestamp;
use klab_kind::configuration::{Cluster, DEFAULT_NAME};
use klab_kind::scheduler::{self, SchedulerFile};
use klab_kind::{nodes, system, validation};
use klab_operations::provider::kind::kubelet_may_set;
use klab_scheduler::Profiles;
use klab_server::{Delays, Flavour, Seed};
use serde_json::Value;

use super::super::Context;
use super::meant::{Done, given_name, in_words, sim};
use super::stored::{Stored, exists};
use super::{kubeconfig, remove};
use klab_kind::command_line::Typed;

/// From how many characters on kind warns of a name.
const MAX_NAME: usize = 50;

/// Makes a cluster.
///
/// # Errors
/// In kind's words; nothing is left then, unless klab says so.
pub(super) fn cluster(context: &Context, typed: &Typed) -> Done {
    let mut cluster = configuration(typed.word("config"))?;
    let name = given_name(typed).or_else(|| Some(cluster.name.clone()).filter(|name| !name.is_empty()));
    let name = name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
    if let Some(image) = typed.word("image").filter(|image| !image.is_empty()) {
        cluster.nodes.iter_mut().for_each(|node| image.clone_into(&mut node.image));
    }
    let say = |text: &str| context.ui.say(text);
    if let Some(mistakes) = validation::mistakes(&cluster, &name).or_else(|| validation::beyond_klab(&cluster)) {
        return Err(mistakes);
    }
    if Stored::read(context, &name)?.is_some() {
        return Err(exists(&name));
    }
    if name.chars().count() > MAX_NAME {
        say(&format!(
            "WARNING: cluster name \"{name}\" is probably too long, this might not work properly on some systems"
        ));
    }
    let (manifests, mut notes) = nodes::manifests(&cluster, &name)?;
    refuse_labels(&manifests)?;
    let scheduler = scheduler_configuration(&cluster)?;
    let (features, unmodelled) = cluster.features()?;
    notes.extend(unmodelled);
    kubeconfig::check(context, typed.word("kubeconfig"))?;
    let has_use = |note: &String| scheduler.is_some() && note.starts_with("extraMounts");
    notes.extend(cluster.notes().into_iter().filter(|note| !has_use(note)));
    for note in notes {
        say(&format!("klab does nothing about {note}"));
    }

    say(&format!("Creating cluster \"{name}\" ..."));
    let of_cluster = nodes::named(&cluster, &name);
    let version = first_version(&cluster).unwrap_or(klab_lab::nodes::VERSION).to_owned();
    let (created, images, machines) = (Timestamp::now(), Vec::new(), BTreeMap::new());
    let stored = Stored { created, version, nodes: of_cluster, machines, images };
    // Written first: a klab that is killed leaves a cluster that `delete` finds, as kind leaves nodes.
    stored.begin(context, &name)?;
    let made = make(context, &cluster, &name, Seed { scheduler, features, ..seed(manifests) }).and_then(|()| {
        let config = kubeconfig::of(context, &name, false)?;
        kubeconfig::merge(context, &config, typed.word("kubeconfig"))
    });
    if let Err(why) = made {
        if !typed.has("retain") {
            remove::one(context, &name, typed.word("kubeconfig"))?;
        }
        return Err(why);
    }
    for step in steps(&cluster, !typed.wait().is_zero()) {
        say(&format!(" • {step}  ..."));
        say(&format!(" ✓ {step}"));
    }
    if !typed.wait().is_zero() {
        say(" • Ready after 0s 💚");
    }
    let key = klab_kind::kubeconfig::key(&name);
    say(&format!("Set kubectl context to \"{key}\""));
    let file = typed.word("kubeconfig").map(|file| format!(" --kubeconfig {}", klab_operations::exec::quoted(file)));
    let command = format!("kubectl cluster-info --context {key}{}", file.unwrap_or_default());
    say(&format!("You can now use your cluster with:\n\n{command}\n\nHave a nice day! 👋"));
    Ok(())
}

/// The configuration of a file, of stdin (`-`), or kind's ordinary one.
fn configuration(file: Option<&str>) -> Done<Cluster> {
    let text = match file {
        None | Some("") => return Ok(Cluster::ordinary()),
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| format!("error reading config from stdin: {error}"))?;
            text
        }
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("error reading file: open {file}: {error}"))?
        }
    };
    Cluster::parse(&text)
}

/// Refuses labels with which a kubelet does not start: kind notices after minutes.
fn refuse_labels(manifests: &[Value]) -> Done {
    for node in manifests {
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, _)| key);
        // kubeadm labels control planes through the API.
        let mut refused = labels.filter(|key| !kubelet_may_set(key) && *key != "node-role.kubernetes.io/control-plane");
        if let Some(key) = refused.next() {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            return Err(format!(
                "node {name}: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]; \
                 `kubectl label node {name} {key}=…` sets it afterwards"
            ));
        }
    }
    Ok(())
}

/// What the scheduler's file holds that the configuration names.
fn scheduler_configuration(cluster: &Cluster) -> Done<Option<Value>> {
    let Some(SchedulerFile { path, flag }) = scheduler::file(cluster)? else { return Ok(None) };
    let text = std::fs::read_to_string(&path).map_err(|error| format!("error reading {path}: {error}"))?;
    let read: Value = serde_saphyr::from_str(&text)
        .map_err(|error| format!("kube-scheduler cannot read {flag} ({path}): {}", error.without_snippet()))?;
    let judged = Profiles::from_configuration(&read);
    judged.map_err(|why| format!("kube-scheduler would end because of {flag} ({path}): {why}"))?;
    Ok(Some(read))
}

/// The version of the first control plane.
fn first_version(cluster: &Cluster) -> Option<&str> {
    let first = cluster.nodes.iter().find(|node| node.role == "control-plane")?;
    nodes::version_of(&first.image)
}

/// What an embedded cluster like kind's begins with.
fn seed(objects: Vec<Value>) -> Seed {
    Seed { flavour: Flavour::Kind, delays: Delays::in_real_time(), objects, ..Seed::default() }
}

/// Makes the embedded cluster.
fn make(context: &Context, cluster: &Cluster, name: &str, seed: Seed) -> Done {
    let version = first_version(cluster);
    let kubernetes = version.and_then(|version| version.parse().ok());
    let own = system::objects(cluster, name, version.unwrap_or(klab_lab::nodes::VERSION));
    let seed = Seed { objects: seed.objects.into_iter().chain(own).collect(), ..seed };
    let made = sim(context)?.add_standalone(&nodes::name_at_server(name), &seed, kubernetes);
    made.map(drop).map_err(in_words)
}

/// The lines of kind's progress.
fn steps(cluster: &Cluster, has_waited: bool) -> Vec<String> {
    let image = cluster.nodes.first().map_or("", |node| node.image.split('@').next().unwrap_or_default());
    let controls = cluster.nodes.iter().filter(|node| node.role == "control-plane").count();
    let rows = [
        (true, format!("Ensuring node image ({image}) 🖼")),
        (true, format!("Preparing nodes {}", "📦 ".repeat(cluster.nodes.len()))),
        (controls > 1, "Configuring the external load balancer ⚖️".to_owned()),
        (true, "Writing configuration 📜".to_owned()),
        (true, "Starting control-plane 🕹️".to_owned()),
        (!cluster.networking.disable_default_cni, "Installing CNI 🔌".to_owned()),
        (true, "Installing StorageClass 💾".to_owned()),
        (controls > 1, "Joining more control-plane nodes 🎮".to_owned()),
        (controls < cluster.nodes.len(), "Joining worker nodes 🚜".to_owned()),
        (has_waited, "Waiting for control-plane = Ready ⏳".to_owned()),
    ];
    rows.into_iter().filter(|(is_done, _)| *is_done).map(|(_, step)| step).collect()
}
