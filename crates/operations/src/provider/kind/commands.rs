//! The commands with which a live cluster is changed, as `plan` tells them. Nothing is run.

use std::collections::BTreeSet;

use super::config::worker_mounts;
use super::docker::{Container, NewWorker};
use super::joining::worker_image;
use super::kubelet::{FLAGS_FILE, KUBEADM_FILE};
use super::record::ClusterRecord;
use super::session::Session;
use super::version::KindVersion;
use crate::error::Result;
use klab_lab::plan::{Action, Declared};
use klab_lab::spec::{Lab, Pool};

/// What would be run for these actions. Work that klab does through the API, without a tool, is a comment: the lines can be
/// pasted into a shell as they are.
pub(super) fn live(session: &Session, lab: &Lab, actions: &[Action], kind: KindVersion) -> Result<Vec<String>> {
    let containers = session.containers_seen()?;
    let Some(record) = session.record()? else { return Ok(Vec::new()) };
    let taken = containers.iter().map(|container| container.name.clone()).collect();
    let mut list = CommandList { session, lab, kind, record, containers: &containers, taken, lines: Vec::new() };
    list.wake();
    for action in actions {
        list.action(action);
    }
    Ok(list.lines)
}

struct CommandList<'a> {
    session: &'a Session,
    lab: &'a Lab,
    kind: KindVersion,
    /// As it would be after the output so far.
    record: ClusterRecord,
    containers: &'a [Container],
    /// Names of the containers there would be.
    taken: BTreeSet<String>,
    lines: Vec<String>,
}

impl CommandList<'_> {
    fn runtime(&mut self, arguments: &[&str]) {
        self.lines.push(self.session.runtime.shown(arguments));
    }

    fn wake(&mut self) {
        let stopped = self.containers.iter().filter(|container| !container.running);
        let stopped: Vec<&str> = stopped.map(|container| container.name.as_str()).collect();
        if !stopped.is_empty() {
            self.runtime(&[&["start"], stopped.as_slice()].concat());
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::CreateCluster | Action::UpgradeCluster { .. } | Action::SetAutoscaler { .. } => {}
            Action::AddPool { pool, nodes, .. } => self.scale(pool, *nodes, false),
            Action::ScalePool { pool, to, .. } => self.scale(pool, *to, false),
            Action::ReplacePool { pool, nodes, .. } | Action::UpgradePool { pool, nodes, .. } => {
                self.scale(pool, *nodes, true);
            }
            Action::RemovePool { pool, .. } => self.scale(pool, 0, false),
            Action::UpdatePool { pool, .. } => self.update(pool),
        }
    }

    fn scale(&mut self, pool: &str, wanted: u32, again: bool) {
        let workers: Vec<String> = self.record.roster.pool(pool).map(|(name, _)| name.clone()).collect();
        let kept = if again { 0 } else { workers.len().min(wanted as usize) };
        for worker in &workers[kept..] {
            let node = self.record.roster.node(worker);
            self.lines.push(format!("# node {node} is drained and deleted through the API"));
            self.runtime(&["rm", "--force", "--volumes", worker]);
            self.record.roster.remove(worker);
            self.taken.remove(worker);
        }
        if let Some(definition) = self.lab.pool(pool) {
            self.add(definition, (wanted as usize).saturating_sub(kept));
        }
    }

    fn add(&mut self, pool: &Pool, count: usize) {
        let Some(control_plane) = self.containers.iter().find(|container| container.is_control_plane()) else { return };
        if count == 0 {
            return;
        }
        self.runtime(&["exec", "--privileged", &control_plane.name, "kubeadm", "token", "create", "--ttl", "30m"]);
        let image = worker_image(self.lab, pool, control_plane, self.kind).reference;
        let names = &self.session.names;
        let mounts = worker_mounts(self.lab, &pool.name.value, names, &self.record.host);
        for _ in 0..count {
            let taken = |name: &str| self.taken.contains(name);
            let name = self.record.roster.add(names, &pool.name.value, &pool.names, taken);
            self.lines.push(self.session.runtime.shown_worker(&NewWorker {
                cluster: &names.cluster,
                name: &name,
                node: self.record.roster.node(&name),
                image: &image,
                network: &control_plane.network,
                mounts: &mounts,
                manner: &control_plane.manner,
            }));
            self.runtime(&["cp", &format!("{name}.copy"), &format!("{name}:{KUBEADM_FILE}")]);
            self.runtime(&["exec", "--privileged", &name, "kubeadm", "join", "--config", KUBEADM_FILE]);
        }
    }

    fn update(&mut self, pool: &str) {
        let workers: Vec<String> = self.record.roster.pool(pool).map(|(name, _)| name.clone()).collect();
        let nodes: Vec<&str> = workers.iter().map(|worker| self.record.roster.node(worker)).collect();
        self.lines
            .push(format!("# labels, taints and annotations of {} are changed through the API", nodes.join(", ")));
        let Some(definition) = self.lab.pool(pool) else { return };
        let wanted = Declared::of(definition);
        let resized =
            self.record.declared.get(pool).is_none_or(|had| had.size != wanted.size || had.max_pods != wanted.max_pods);
        for worker in workers.iter().filter(|_| resized) {
            self.runtime(&["cp", &format!("{worker}.copy"), &format!("{worker}:{FLAGS_FILE}")]);
            self.runtime(&["exec", "--privileged", worker, "systemctl", "restart", "kubelet"]);
        }
    }
}
