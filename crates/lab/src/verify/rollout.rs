//! What the owners of pods are about to do: pods still to be made, pods still to go, changes not yet seen.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;

use super::creation::{is_over, is_suspended, refusal};
use super::pod::PodState;
use super::snapshot::Snapshot;
use super::view::{Owner, PodView, View};
use crate::spec::{Selector, Subject};

/// The pods a check is about, and what their owners are about to do with them.
pub(crate) struct Group<'v, 'a> {
    /// The workload that makes them, where the check names one.
    pub(crate) workload: Option<&'v str>,
    /// All pods of the subject that are there.
    pub(crate) pods: Vec<&'v PodView<'a>>,
    /// Pods that conditions count: of the present template, not being deleted.
    pub(crate) counted: Vec<&'v PodView<'a>>,
    /// Pods of earlier templates that still have to go.
    pub(crate) old: Vec<&'v PodView<'a>>,
    /// Pods that are being deleted.
    pub(crate) terminating: Vec<&'v PodView<'a>>,
    /// An owner has not seen its latest change: `deployment/web`.
    pub(crate) stale: Option<String>,
    /// Pods that owners have still to make.
    pub(crate) missing: u32,
    /// Pods that owners have still to delete.
    pub(crate) surplus: u32,
    /// Why owners do not make the missing pods.
    pub(crate) hindered: Option<String>,
    /// The owner is there and wants no pods.
    pub(crate) wants_none: bool,
}

/// What one owner wants.
pub(crate) struct Desired {
    /// It has not seen its latest change.
    pub(crate) stale: bool,
    /// How many pods, where that is known.
    pub(crate) pods: Option<u32>,
    /// Why it does not make them.
    hindered: Option<String>,
}

impl<'v, 'a> Group<'v, 'a> {
    /// The pods of a subject; none for subjects that are not about pods.
    pub(crate) fn of(view: &'v View<'a>, subject: &'v Subject) -> Option<Self> {
        match subject {
            Subject::Workload(name) => {
                let pods = view.pods_of_workload(name).collect();
                Some(Self { workload: Some(name), ..Self::new(view, pods, view.owner_of_workload(name)) })
            }
            Subject::Pods { selector, namespace } => Some(Self::new(view, labelled(view, selector, namespace), None)),
            Subject::Nodes(_) | Subject::Object(_) => None,
        }
    }

    fn new(view: &View<'a>, pods: Vec<&'v PodView<'a>>, root: Option<Owner<'a>>) -> Self {
        let mut owners: Vec<Owner<'a>> = root.into_iter().collect();
        for pod in &pods {
            if pod.owner.meta().is_some() && !owners.iter().any(|owner| owner.is(&pod.owner)) {
                owners.push(pod.owner);
            }
        }
        let mut group = Self {
            workload: None,
            counted: pods.iter().copied().filter(|pod| pod.counts()).collect(),
            old: pods.iter().copied().filter(|pod| pod.is_old()).collect(),
            terminating: pods.iter().copied().filter(|pod| pod.state == PodState::Terminating).collect(),
            stale: None,
            missing: 0,
            surplus: 0,
            hindered: None,
            wants_none: false,
            pods,
        };
        for owner in &owners {
            let mine: Vec<&PodView<'_>> = group.counted.iter().copied().filter(|pod| pod.owner.is(owner)).collect();
            let wish = wish(owner, &mine, view.snapshot);
            if wish.stale {
                group.stale = Some(format!("{}/{}", owner.kind().to_lowercase(), owner.name()));
            }
            if let Some(wanted) = wish.pods {
                let have = u32::try_from(mine.len()).unwrap_or(u32::MAX);
                group.missing += wanted.saturating_sub(have);
                group.surplus += have.saturating_sub(wanted);
                group.wants_none |= wanted == 0 && !wish.stale;
                if wanted > have {
                    let has_old = group.old.iter().any(|pod| pod.owner.is(owner));
                    let deletion = || on_delete(owner).filter(|_| has_old);
                    group.hindered = group.hindered.take().or(wish.hindered).or_else(deletion);
                }
            }
        }
        group
    }

    /// Pods that may still come into being by themselves.
    pub(crate) fn to_come(&self) -> u32 {
        if self.hindered.is_some() { 0 } else { self.missing }
    }
}

/// Pods by label in one namespace.
fn labelled<'v, 'a>(view: &'v View<'a>, selector: &Selector, namespace: &str) -> Vec<&'v PodView<'a>> {
    use kube_core::ResourceExt;
    view.pods.iter().filter(|pod| pod.namespace == namespace && selector.matches(pod.pod.labels())).collect()
}

/// What an owner wants that has these pods of its present template.
pub(crate) fn wish(owner: &Owner<'_>, pods: &[&PodView<'_>], snapshot: &Snapshot) -> Desired {
    let behind = |observed: Option<i64>| {
        let generation = owner.meta().and_then(|meta| meta.generation);
        generation.is_some_and(|generation| observed.is_none_or(|observed| observed < generation))
    };
    let refused = || refusal(snapshot, owner, pods).map(str::to_owned);
    match owner {
        Owner::Deployment(deployment) => Desired {
            stale: behind(deployment.status.as_ref().and_then(|status| status.observed_generation)),
            pods: Some(count(deployment.spec.as_ref().and_then(|spec| spec.replicas))),
            hindered: refused().or_else(|| paused(deployment)),
        },
        Owner::ReplicaSet(set) => Desired {
            stale: behind(set.status.as_ref().and_then(|status| status.observed_generation)),
            pods: Some(count(set.spec.as_ref().and_then(|spec| spec.replicas))),
            hindered: refused(),
        },
        Owner::DaemonSet(set) => {
            let status = set.status.as_ref();
            let stale = behind(status.and_then(|status| status.observed_generation));
            let desired = status.map(|status| status.desired_number_scheduled);
            let pods = desired.filter(|_| !stale).and_then(|pods| pods.try_into().ok());
            Desired { stale, pods, hindered: refused() }
        }
        Owner::StatefulSet(set) => Desired {
            stale: behind(set.status.as_ref().and_then(|status| status.observed_generation)),
            pods: Some(count(set.spec.as_ref().and_then(|spec| spec.replicas))),
            hindered: refused().or_else(|| ordered_hindrance(set, pods)),
        },
        Owner::Job(job) => {
            let wish = job_wish(job);
            Desired { hindered: wish.hindered.or_else(refused), ..wish }
        }
        Owner::None | Owner::Other(_) => Desired { stale: false, pods: None, hindered: None },
    }
}

fn count(replicas: Option<i32>) -> u32 {
    replicas.map_or(1, |replicas| replicas.try_into().unwrap_or(0))
}

fn paused(deployment: &Deployment) -> Option<String> {
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    paused.then(|| "the rollout is paused".to_owned())
}

/// Why an owner leaves pods of an earlier template alone.
fn on_delete(owner: &Owner<'_>) -> Option<String> {
    let strategy = match owner {
        Owner::DaemonSet(set) => set.spec.as_ref()?.update_strategy.as_ref()?.type_.as_deref(),
        Owner::StatefulSet(set) => set.spec.as_ref()?.update_strategy.as_ref()?.type_.as_deref(),
        _ => None,
    };
    (strategy == Some("OnDelete"))
        .then(|| "its update strategy is OnDelete: you delete the pods of the previous template".to_owned())
}

/// A StatefulSet that starts its pods in order waits for each to be ready.
fn ordered_hindrance(set: &StatefulSet, pods: &[&PodView<'_>]) -> Option<String> {
    let policy = set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref());
    let stuck = pods.iter().find(|pod| !pod.state.is_ready() && !pod.state.is_moving())?;
    (policy != Some("Parallel")).then(|| format!("the next pod is made only after {} is ready", stuck.name))
}

fn job_wish(job: &Job) -> Desired {
    let status = job.status.as_ref();
    let spec = job.spec.as_ref();
    if is_over(job) {
        return Desired { stale: false, pods: None, hindered: None };
    }
    let parallelism = count(spec.and_then(|spec| spec.parallelism));
    // Without completions, any number of pods up to the parallelism makes the job; with them, pods come until enough
    // succeeded. Pods that are over stay and count among the job's pods.
    let wanted = match spec.and_then(|spec| spec.completions) {
        Some(completions) => count(Some(completions)),
        None => parallelism,
    };
    let suspended = is_suspended(job);
    let active = status.and_then(|status| status.active).unwrap_or(0);
    let hindered = suspended.then(|| "the job is suspended".to_owned());
    Desired { stale: status.is_none() && !suspended, pods: Some(wanted.max(count(Some(active)))), hindered }
}
