//! The gallery of lessons: each lab that comes with klab with its picture, its steps, and what it is good for.

use std::path::Path;
use std::time::Duration;

use klab_lab::board::{Step, StepState, svg};
use klab_lab::spec::{Lab, LoadOptions, Provider, load};
use klab_operations::lesson_test::{EmbeddedTestCluster, Patience, run};

use crate::written::is_written;

/// What a lab file does not say of its lesson.
struct Row {
    lab: &'static str,
    level: &'static str,
    outcome: &'static str,
    /// Of the curriculum of the Certified Kubernetes Administrator.
    cka: &'static str,
    aks: &'static str,
    /// The step after which the picture is taken; none: the set-up.
    picture: Option<&'static str>,
}

/// In the order in which to take them.
#[rustfmt::skip]
const GALLERY: &[Row] = &[
    Row {
        lab: "scheduling", level: "beginner", picture: Some("taint"),
        outcome: "You place pods by labels, selectors, affinity, taints and tolerations, drain a node, and choose node pools for general, compute and spot work.",
        cka: "Workloads and scheduling: node selectors, affinity, taints, DaemonSets. Troubleshooting: Pending pods, resource usage. Cluster maintenance: cordon and drain.",
        aks: "Node pools with labels and taints; adding and deleting a pool; spot pools; the label `agentpool`.",
    },
    Row {
        lab: "scheduler", level: "beginner", picture: Some("full"),
        outcome: "You predict where a pod goes: which nodes the filters leave, and which of them scores best. You solve one placement in three ways.",
        cka: "Workloads and scheduling: requests, nodeName, affinity, anti-affinity, topology spread. Troubleshooting: why no node takes a pod.",
        aks: "Pools of different VM sizes.",
    },
    Row {
        lab: "affinity", level: "intermediate", picture: Some("apart"),
        outcome: "You write node and pod affinity with all operators, evict pods with taints, and bound a namespace with LimitRange and ResourceQuota.",
        cka: "Workloads and scheduling: affinity, anti-affinity, taints, limits and quotas. Troubleshooting: refused and evicted pods.",
        aks: "Availability zones; disks of nodes as labels; taints that Kubernetes sets itself.",
    },
    Row {
        lab: "nodepools", level: "intermediate", picture: Some("full"),
        outcome: "You run a cluster's node pools: system and user pools, pod limits, the cluster autoscaler, an upgrade without interruption, Windows and GPU nodes.",
        cka: "Cluster maintenance: version upgrades, drain. Workloads and scheduling: autoscaling, pod limits of nodes.",
        aks: "System and user pools; `CriticalAddonsOnly`; autoscaler bounds; control-plane and pool upgrades, blue/green; scale to zero; Windows; GPU.",
    },
    Row {
        lab: "anatomy", level: "beginner", picture: None,
        outcome: "You know what makes a machine a node, watch controllers mend what is lost, and see what happens when the API server or a node fails.",
        cka: "Cluster architecture: kubelet, kube-proxy, control plane, controllers. Troubleshooting: a node that is NotReady, an API server that does not answer.",
        aks: "What Azure runs for you: the control plane is no node of the cluster.",
    },
    Row {
        lab: "pending", level: "beginner", picture: None,
        outcome: "You find out in a minute why a pod does not run, for ten faults that look alike, and mend each with the smallest change.",
        cka: "Troubleshooting: Pending pods, workloads without pods, images that cannot be pulled.",
        aks: "Pools with taints; what one VM size can hold.",
    },
    Row {
        lab: "priority", level: "beginner", picture: None,
        outcome: "You give pods priorities, say whom the scheduler removes, and keep a class from removing others.",
        cka: "Workloads and scheduling: PriorityClasses, preemption.",
        aks: "A pool that is full.",
    },
    Row {
        lab: "drain", level: "beginner", picture: None,
        outcome: "You empty a node without an outage, read what a budget allows, and find out why a drain or an upgrade hangs.",
        cka: "Cluster architecture: cordon, drain, uncordon, PodDisruptionBudgets.",
        aks: "What an upgrade of a pool does to your pods.",
    },
    Row {
        lab: "share", level: "beginner", picture: None,
        outcome: "You give each pod its share of a node: requests, limits, init containers, defaults of a LimitRange, and a quota for the namespace.",
        cka: "Workloads and scheduling: requests, limits, LimitRange, ResourceQuota. Troubleshooting: pods that are refused or wait for room.",
        aks: "What a node of AKS leaves to pods: reservations of the system pool.",
    },
    Row {
        lab: "spread", level: "intermediate", picture: None,
        outcome: "You spread pods over zones and nodes, and know the five ways in which a topology spread constraint goes wrong.",
        cka: "Workloads and scheduling: topology spread constraints. Troubleshooting: pods that wait for an empty domain.",
        aks: "Availability zones of pools.",
    },
    Row {
        lab: "volumes", level: "intermediate", picture: None,
        outcome: "You see when a claim chooses a zone, why its pod cannot leave it, and how a volume that is Released serves again.",
        cka: "Storage: storage classes, dynamic provisioning, reclaim policies. Troubleshooting: a pod whose claim is in another zone.",
        aks: "Azure disks in several zones.",
    },
    Row {
        lab: "noexecute", level: "intermediate", picture: None,
        outcome: "You decide how long a pod stays on a node that fails: NoExecute taints, tolerationSeconds, and what is evicted from a silent node.",
        cka: "Workloads and scheduling: taints and tolerations. Troubleshooting: a node that is NotReady, pods that are Terminating.",
        aks: "Taints of pools; a node that Azure takes away.",
    },
    Row {
        lab: "placeholders", level: "intermediate", picture: None,
        outcome: "You keep room ahead of demand: placeholder pods of a low priority, which make way at once while the autoscaler fetches the next node.",
        cka: "Workloads and scheduling: PriorityClasses, preemption, autoscaling.",
        aks: "The cluster autoscaler of a pool, its bounds and its profile.",
    },
    Row {
        lab: "hpa", level: "intermediate", picture: None,
        outcome: "You follow a HorizontalPodAutoscaler from its target to Pending pods and to the nodes that come for them.",
        cka: "Workloads and scheduling: workload autoscaling. Troubleshooting: an autoscaler without metrics.",
        aks: "HPA and cluster autoscaler together.",
    },
    Row {
        lab: "devices", level: "intermediate", picture: None,
        outcome: "You claim devices by dynamic resource allocation: classes, slices, claims with CEL, templates, and a device that is tainted.",
        cka: "Beyond the curriculum: dynamic resource allocation.",
        aks: "GPU nodes whose driver publishes ResourceSlices.",
    },
    Row {
        lab: "taints", level: "beginner", picture: None,
        outcome: "A set-up without steps: three workloads meet one taint. Try tolerations and selectors on it.",
        cka: "Workloads and scheduling: taints and tolerations.",
        aks: "A pool with a taint.",
    },
    Row {
        lab: "experiments", level: "any", picture: None,
        outcome: "A set-up without steps, whose nodes have the names that books and courses use: `controlplane`, `worker1`, `node01`. Try what they say on it.",
        cka: "Any text about scheduling that you follow.",
        aks: "None.",
    },
];

/// The lab on a provider; none where it cannot be made there.
fn lab(row: &Row, provider: Provider) -> Option<Lab> {
    let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
    load(&Path::new("labs").join(format!("{}.toml", row.lab)), &options).ok()
}

/// The board of a lab at the step of its picture, on the first seed.
fn picture(row: &Row) -> String {
    let mut lab = lab(row, Provider::Sim).unwrap();
    let steps = row.picture.map_or(0, |name| lab.steps.iter().position(|step| step.name.value == name).unwrap() + 1);
    let ahead = lab.steps.split_off(steps);
    let seed = lab.sim.seed.unwrap_or_default();
    let world = EmbeddedTestCluster::new(seed).unwrap();
    let patience = Patience { set_up: Duration::from_mins(10), step: Duration::from_mins(10) };
    let trial = run(&world, &lab, seed, patience, true);
    assert!(trial.ok(), "{}: {:?}", row.lab, trial.failure);
    let mut board = (*trial.pictures.last().unwrap().after).clone();
    board.steps.extend(ahead.into_iter().map(|step| Step {
        name: step.name.value,
        title: step.title,
        state: StepState::Ahead,
    }));
    svg(&board)
}

/// A row for each step, with the providers that leave it out.
fn steps(lab: &Lab, others: &[(Provider, Lab)]) -> String {
    let mut text = "\n## The steps\n\n".to_owned();
    if !others.iter().any(|(provider, _)| *provider == Provider::Existing) {
        text.push_str("The lesson changes node pools, so it cannot run on a cluster that klab did not make.\n\n");
    }
    text.push_str("| step | about | left out on |\n|---|---|---|\n");
    for step in &lab.steps {
        let name = &step.name.value;
        let skipped = others.iter().filter_map(|(provider, other)| {
            let skipped = other.skipped_steps.iter().find(|skipped| skipped.step.name.value == *name)?;
            Some(format!("{provider}: {}", skipped.reason.value))
        });
        let skipped = skipped.collect::<Vec<_>>().join("; ");
        text.push_str(
            &format!("| `{name}` | {} | {skipped} |\n", step.title.as_deref().unwrap_or_default())
                .replace("|  |", "| |"),
        );
    }
    text
}

fn facts(row: &Row, lab: &Lab) -> String {
    format!(
        "| time | about {} minutes |\n|---|---|\n| level | {} |\n| steps | {} |\n| afterwards | {} |\n| CKA | {} |\n| AKS | {} |\n| start | `klab up {}` |\n",
        lab.catalogue.minutes.unwrap(),
        row.level,
        lab.steps.len(),
        row.outcome,
        row.cka,
        row.aks,
        row.lab
    )
}

#[test]
fn every_lesson_is_in_the_gallery() {
    let folder = Path::new("docs/learn/lessons");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let (intro, _) = index.split_once("by a test. -->\n").unwrap();
    let mut wanted = format!("{intro}by a test. -->\n\n| lesson | time | level | steps |\n|---|---|---|---|\n");
    let labs: Vec<(&Row, Lab)> = GALLERY.iter().map(|row| (row, lab(row, Provider::Sim).unwrap())).collect();
    for (row, lab) in &labs {
        let title = lab.title.as_deref().unwrap();
        wanted.push_str(&format!(
            "| [{title}]({0}.md) | {1} min | {2} | {3} |\n",
            row.lab,
            lab.catalogue.minutes.unwrap(),
            row.level,
            lab.steps.len()
        ));
    }
    let pictures = std::thread::scope(|scope| {
        let drawn: Vec<_> = GALLERY.iter().map(|row| scope.spawn(|| picture(row))).collect();
        drawn.into_iter().map(|drawn| drawn.join().unwrap()).collect::<Vec<_>>()
    });
    for ((row, lab), picture) in labs.iter().zip(pictures) {
        let title = lab.title.as_deref().unwrap();
        let shown = format!(
            "![{title}: {}]({}.svg)",
            row.picture.map_or("the set-up".to_owned(), |step| format!("after step `{step}`")),
            row.lab
        );
        wanted.push_str(&format!("\n## {title}\n\n[{shown}]({}.md)\n\n{}", row.lab, facts(row, lab)));
        is_written(&folder.join(format!("{}.svg", row.lab)), &picture);
        let providers = [Provider::Kind, Provider::Aks, Provider::Existing].into_iter();
        let others: Vec<(Provider, Lab)> =
            providers.filter_map(|provider| Some((provider, self::lab(row, provider)?))).collect();
        let steps = if lab.steps.is_empty() { String::new() } else { steps(lab, &others) };
        let about = lab
            .description
            .as_deref()
            .map(|text| format!("\n## What it is about\n\n{}\n", text.trim()))
            .unwrap_or_default();
        is_written(
            &folder.join(format!("{}.md", row.lab)),
            &format!("# {title}\n\n{}\n{shown}\n\n{}{about}{steps}", row.outcome, facts(row, lab)),
        );
    }
    is_written(&folder.join("README.md"), &wanted);
    let files = std::fs::read_dir("labs").unwrap().map(|entry| entry.unwrap().path());
    let shipped = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).count();
    assert_eq!(GALLERY.len(), shipped, "a lab is not in the gallery");
}

/// The numbers of labs, lessons and steps that pages speak of.
#[test]
fn pages_count_the_lessons() {
    let labs: Vec<Lab> = GALLERY.iter().map(|row| lab(row, Provider::Sim).unwrap()).collect();
    let lessons = labs.iter().filter(|lab| !lab.steps.is_empty()).count();
    let steps: usize = labs.iter().map(|lab| lab.steps.len()).sum();
    let said =
        format!("{} labs come with klab; {lessons} of them are lessons, with {steps} steps together", labs.len());
    for page in ["README.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(page).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&said), "{page} does not say: {said}");
    }
}
