//! A cluster made by kind, and nothing kind says about it trusted.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::config;
use super::docker::Container;
use super::failure;
use super::images::{self, load_balancer};
use super::record::ClusterRecord;
use super::session::{Session, remove_file};
use super::version::KindVersion;
use crate::environment;
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::exec;
use crate::provider::Work;
use crate::state::home::state_error;
use klab_cluster::deadline;
use klab_lab::spec::Lab;
use klab_lab::words::plural;
use klab_server::files::{create_private_folder, write_private};

/// The network that all clusters of kind share.
const NETWORK: &str = "kind";
/// The repository of kind's own node images.
const NODE_IMAGES: &str = "kindest/node";
/// How long containers may appear after a failed or killed kind: calls of it are still under way.
const LATE: Duration = Duration::from_secs(3);

/// Makes the cluster with the workers of all pools.
pub(super) fn create(session: &Session, lab: &Lab, kind: KindVersion, work: &mut Work<'_>) -> Result<ClusterRecord> {
    let names = &session.names;
    let there = session.containers()?;
    if let Some(record) = adopt(session, lab, &there)? {
        work.events.about(About::Cluster, &names.cluster).note(
            Verb::FindCluster,
            format!("cluster {} complete, although klab was interrupted making it", names.cluster),
        );
        return Ok(record);
    }
    let host = session.runtime.host(&session.info);
    let record = ClusterRecord::new(names, lab, session.runtime.program(), host);
    work.intend("create-cluster", &names.cluster)?;
    let was_begun = session.record()?.is_some_and(|record| !record.complete);
    end_leftover_kinds(session);
    sweep(session, was_begun || !there.is_empty())?;
    session.make_folder()?;
    session.save(&record)?;
    let lab = &*with_image_at_hand(session, lab, kind, work)?;
    let config = write_files(session, lab, &record, kind)?;
    release_kubeconfig_lock(session, work)?;
    remove_file(&names.kubeconfig())?;

    let what = format!("cluster {} (kind {kind}, {})", names.cluster, nodes_in_words(lab, &record));
    let activity = work.events.about(About::Cluster, &names.cluster).start(Verb::CreateCluster, what.clone());
    activity.progress("kind makes the nodes");
    let made = {
        let _alone = first_network(session);
        session.kind.create(&names.cluster, &config, &names.kubeconfig())
    };
    if let Err(error) = made {
        return Err(failed(session, error));
    }
    let missing = missing_containers(lab, &record, session)?;
    if !missing.is_empty() {
        let words = format!("kind says that the cluster is made, but {} not there", are(&missing));
        work.events.about(About::Cluster, &names.cluster).warn(Code::NodesMissing, words);
    }
    activity.finish(what);
    Ok(record)
}

/// A cluster that an interrupted klab left whole: all containers that kind makes are there and run.
fn adopt(session: &Session, lab: &Lab, there: &[Container]) -> Result<Option<ClusterRecord>> {
    let Some(record) = session.record()?.filter(|_| !there.is_empty()) else { return Ok(None) };
    let wanted = made_by_kind(lab, &record, session);
    let whole = wanted.iter().all(|name| there.iter().any(|container| container.name == *name && container.running));
    if !whole || !record.settings.differences(&super::record::Settings::of(lab)).is_empty() {
        return Ok(None);
    }
    // kind works on after klab was killed; while it does, what it makes is not whole.
    let quiet = leftover_kinds(session).is_empty();
    remove_file(&session.names.kubeconfig())?;
    let answers = quiet && session.live().and_then(|live| live.nodes()).is_ok_and(|nodes| nodes.len() >= wanted.len());
    Ok(answers.then_some(record))
}

fn made_by_kind(lab: &Lab, record: &ClusterRecord, session: &Session) -> Vec<String> {
    let mut wanted = session.names.control_planes(lab.kind.control_planes);
    wanted.extend(record.roster.made_by_kind().cloned());
    wanted
}

/// Nodes that kind should have made and did not.
fn missing_containers(lab: &Lab, record: &ClusterRecord, session: &Session) -> Result<Vec<String>> {
    let there = session.containers()?;
    let mut missing = made_by_kind(lab, record, session);
    missing.retain(|name| !there.iter().any(|container| container.name == *name));
    Ok(missing)
}

fn are(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn nodes_in_words(lab: &Lab, record: &ClusterRecord) -> String {
    let control_planes = plural(lab.kind.control_planes.max(1) as usize, "control plane");
    format!("{control_planes}, {}", plural(record.roster.made_by_kind().count(), "worker"))
}

/// Everything that is mounted or read while the cluster is made.
fn write_files(session: &Session, lab: &Lab, record: &ClusterRecord, kind: KindVersion) -> Result<PathBuf> {
    let names = &session.names;
    for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
        session.write_machine(lab, pool, record)?;
    }
    for (name, text) in config::mirror_files(lab) {
        let path = names.mirrors().join(name);
        let folder = path.parent().map(std::path::Path::to_owned).unwrap_or_default();
        create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        write_private(&path, text.as_bytes()).map_err(|error| state_error(error, "write", &path))?;
    }
    if let Some(text) = config::scheduler_file(lab) {
        let path = names.scheduler();
        write_private(&path, text.as_bytes()).map_err(|error| state_error(error, "write", &path))?;
    }
    let text = config::render(lab, &record.roster, &session.around(&record.host, kind))?;
    let path = names.config();
    write_private(&path, text.as_bytes()).map_err(|error| state_error(error, "write", &path))?;
    Ok(path)
}

/// A lock that a killed kind left would block every later one for ever. The lab is locked, so no other klab writes there;
/// a kind that is at work holds the lock for milliseconds.
pub(super) fn release_kubeconfig_lock(session: &Session, work: &Work<'_>) -> Result<()> {
    let path = session.names.kubeconfig_lock();
    let until = deadline::within(Duration::from_millis(500));
    while path.exists() {
        if Instant::now() > until {
            work.events.warn(Code::LockRemoved, format!("removed `{}`, which a killed kind had left", path.display()));
            return remove_file(&path);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Fetches what is not here yet, so that it fails here, where nothing has been made, and by its name. Gives the lab, with
/// another node image of its version that is on this machine where the one it would have cannot be fetched.
fn with_image_at_hand<'a>(
    session: &Session,
    lab: &'a Lab,
    kind: KindVersion,
    work: &mut Work<'_>,
) -> Result<Cow<'a, Lab>> {
    let mut lab = Cow::Borrowed(lab);
    for reference in needed_images(&lab, kind) {
        if session.runtime.image_id(&reference)?.is_some() {
            continue;
        }
        work.intend("pull-image", &reference)?;
        let short = reference.split('@').next().unwrap_or(&reference).to_owned();
        let activity = work.events.about(About::Image, &short).start(Verb::PullImage, format!("image {short}"));
        let Err(error) = session.runtime.pull(&reference) else {
            activity.finish(format!("image {short}"));
            continue;
        };
        activity.end();
        let is_clusters = lab.kind.image.is_none() && reference == config::cluster_image(&lab, kind).reference;
        let wanted = lab.kubernetes.as_ref().map(|version| version.value);
        let there = if is_clusters { session.runtime.images_of(NODE_IMAGES)? } else { Vec::new() };
        let Some(other) = images::at_hand(wanted, kind, &there) else { return Err(error) };
        let words =
            format!("{short} could not be pulled; {}, which is on this machine, takes its place", other.reference);
        work.events.about(About::Image, &other.reference).warn(Code::ImageReplaced, words);
        lab.to_mut().kind.image = Some(other.reference);
    }
    Ok(lab)
}

/// The images that containers of the cluster are made from.
pub(super) fn needed_images(lab: &Lab, kind: KindVersion) -> Vec<String> {
    let mut images = vec![config::cluster_image(lab, kind).reference];
    for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
        let image = config::pool_image(lab, pool, kind).reference;
        if !images.contains(&image) {
            images.push(image);
        }
    }
    if lab.kind.control_planes > 1 {
        images.push(load_balancer(kind).to_owned());
    }
    images
}

/// The right to make the first network of a machine; ended when it is dropped.
struct FirstNetwork {
    path: PathBuf,
    _lock: File,
}

impl Drop for FirstNetwork {
    fn drop(&mut self) {
        // Still locked: who waits for it finds that it is not the file of that name any more. Another user's stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Several kinds that find no network at the same time each make one of the same name. The first cluster of a machine is
/// therefore made alone, among all klabs; a lock that cannot be had must not stop the work.
fn first_network(session: &Session) -> Option<FirstNetwork> {
    let path = std::env::temp_dir().join("klab-kind-network.lock");
    loop {
        if session.runtime.has_network(NETWORK).unwrap_or(true) {
            return None;
        }
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = open.or_else(|_| OpenOptions::new().read(true).open(&path)).ok()?;
        file.lock().ok()?;
        let is_current =
            std::fs::metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()));
        if is_current {
            return Some(FirstNetwork { path, _lock: file });
        }
    }
}

/// A failed create: the journals tell why, then everything goes that is left of it.
fn failed(session: &Session, error: exec::Error) -> Error {
    let nodes = session.containers().unwrap_or_default();
    let causes: Vec<String> = nodes
        .iter()
        .filter(|node| node.running)
        .filter_map(|node| session.cause(&node.name, &node.hostname))
        .take(3)
        .collect();
    let mut error = failure::of_kind(error);
    if !causes.is_empty() {
        error.source = error.source.context(causes.join("\n"));
    }
    error.source = error.source.context(format!("could not create the cluster `{}`", session.names.cluster));
    match sweep(session, true) {
        Ok(()) => error.hint(format!("all that kind said is in `{}`", session.names.transcript().display())),
        Err(left) => error.left_behind(format!("containers of cluster {}: {left}", session.names.cluster)),
    }
}

/// Removes all containers of the cluster; with `late` also those that appear seconds after a failure.
pub(super) fn sweep(session: &Session, late: bool) -> Result<()> {
    let late_for = environment::KLAB_KIND_LATE.parsed().map_or(LATE, Duration::from_millis);
    let mut quiet_since = None;
    loop {
        let containers = session.own_containers()?;
        // A first look that took long is no wait.
        let since: &mut Instant = quiet_since.get_or_insert_with(Instant::now);
        if containers.is_empty() {
            if !late || since.elapsed() >= late_for {
                return Ok(());
            }
        } else {
            let volumes: Vec<String> = containers.iter().flat_map(|container| container.volumes.clone()).collect();
            let names: Vec<String> = containers.into_iter().map(|container| container.name).collect();
            session.runtime.remove(&names)?;
            session.runtime.remove_volumes(&session.runtime.volumes_of(&volumes)?)?;
            *since = Instant::now();
            if !late {
                continue;
            }
        }
        std::thread::sleep(Duration::from_millis(300).min(late_for));
    }
}

/// Ends kinds that still work on this cluster for a klab that was killed, with the calls of the runtime that they have begun: what
/// they make would appear in the middle of this one's work.
pub(super) fn end_leftover_kinds(session: &Session) {
    leftover_kinds(session).into_iter().for_each(exec::end_group);
}

fn leftover_kinds(session: &Session) -> Vec<u32> {
    // Without `ps` they cannot be found; the sweep still removes what they make.
    let list = exec::Command::new("ps").args(["-A", "-o", "pid=", "-o", "args="]).output(Duration::from_secs(10));
    let config = session.names.config().display().to_string();
    kinds_in(&list.unwrap_or_default(), &session.names.cluster, &config)
}

/// The processes in the output of `ps` that are a kind making this cluster, of this configuration: another home may have a lab of
/// the same name.
fn kinds_in(list: &str, cluster: &str, config: &str) -> Vec<u32> {
    let config: Vec<&str> = ["--config"].into_iter().chain(config.split_whitespace()).collect();
    let making = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_kind = |at: usize| words.get(at).is_some_and(|program| program.rsplit('/').next() == Some("kind"));
        // A script is the second word of its interpreter.
        let is_making = |at: usize| {
            words.get(at + 1..at + 5) == Some(&["create", "cluster", "--name", cluster])
                && words.get(at + 5..).is_some_and(|rest| rest.starts_with(&config))
        };
        [1, 2].into_iter().any(|at| is_kind(at) && is_making(at))
    };
    list.lines().filter(making).filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_make_this_cluster_are_ended() {
        let list = "    1 /sbin/init\n  812 kind create cluster --name klab-x --config /s a/cluster.yaml --retain\n  \
                    813 kind create cluster --name klab-x2 --config /s a/cluster.yaml\n  \
                    814 /usr/bin/kind create cluster --name klab-x --config /s a/cluster.yaml\n  \
                    817 /bin/sh /opt/kind create cluster --name klab-x --config /s a/cluster.yaml\n  \
                    818 kind create cluster --name klab-x --config /another/cluster.yaml\n  \
                    815 echo a kind create cluster --name klab-x --config /s a/cluster.yaml\n  816 kind delete cluster --name klab-x\n";
        assert_eq!(kinds_in(list, "klab-x", "/s a/cluster.yaml"), [812, 814, 817]);
    }
}
