//! Configurations: what they are read as, what is refused, and where pods go by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::profiles::Profiles;
use crate::{Attempt, Cluster, Outcome, PluginName, TieBreak, admission};

fn configuration(profiles: Value) -> Value {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles})
}

/// One profile with the name of the default scheduler.
fn profile(profile: Value) -> Profiles {
    Profiles::from_configuration(&configuration(json!([profile]))).unwrap()
}

fn with_arguments(plugin: &str, args: Value) -> Profiles {
    profile(json!({"pluginConfig": [{"name": plugin, "args": args}]}))
}

/// What is wrong with a configuration of these profiles.
fn problems(profiles: Value) -> Vec<String> {
    Profiles::from_configuration(&configuration(profiles)).unwrap_err().problems
}

/// What is wrong with the arguments of a plugin, without the path to them.
fn wrong(plugin: &str, args: Value) -> Vec<String> {
    let all = problems(json!([{"pluginConfig": [{"name": plugin, "args": args}]}]));
    all.into_iter().map(|problem| problem.replace("profiles[0].pluginConfig[0].args.", "")).collect()
}

fn pod(name: &str, requests: Value, extra: Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": spec});
    let mut pod = serde_json::from_value(object).unwrap();
    admission::admit(&mut pod).unwrap();
    pod
}

fn add_node(cluster: &mut Cluster, name: &str, labels: Value, allocatable: Value) {
    let mut whole = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    whole.as_object_mut().unwrap().extend(allocatable.as_object().unwrap().clone());
    let node = json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": whole}});
    cluster.set_node(&serde_json::from_value(node).unwrap()).unwrap();
}

fn cluster(profiles: Profiles, nodes: &[(&str, Value)]) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    cluster.set_profiles(Arc::new(profiles));
    for (name, allocatable) in nodes {
        add_node(&mut cluster, name, json!({"kubernetes.io/hostname": name}), allocatable.clone());
    }
    cluster
}

/// The attempt, which must agree with the fast path.
fn attempt(cluster: &mut Cluster, pod: &Pod) -> Attempt {
    let attempt = cluster.attempt(pod).unwrap();
    assert_eq!(attempt.decision, cluster.schedule(pod).unwrap());
    attempt
}

fn raw_scores(attempt: &Attempt, plugin: PluginName) -> BTreeMap<String, i64> {
    let table = attempt.scores.as_ref().unwrap();
    let at = table.plugins.iter().position(|(name, _)| *name == plugin).unwrap();
    table.rows.iter().map(|row| (row.node.to_string(), row.scores[at].raw)).collect()
}

fn scores_of(expected: &[(&str, i64)]) -> BTreeMap<String, i64> {
    expected.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect()
}

#[test]
fn a_configuration_that_says_nothing_is_the_default() {
    assert_eq!(Profiles::from_configuration(&configuration(Value::Null)).unwrap(), Profiles::default());
    assert_eq!(profile(json!({})), Profiles::default());
    let explicit = json!({"resources": [{"name": "cpu", "weight": 1}, {"name": "memory"}], "type": "LeastAllocated"});
    let explicit = with_arguments("NodeResourcesFit", json!({"scoringStrategy": explicit}));
    let balanced = json!({"resources": [{"name": "cpu"}, {"name": "memory", "weight": 1}]});
    let balanced = with_arguments("NodeResourcesBalancedAllocation", balanced);
    for profiles in [explicit, balanced] {
        let mut one =
            cluster(profiles, &[("a", json!({})), ("b", json!({"cpu": "3"})), ("c", json!({"memory": "5Gi"}))]);
        let mut other = one.clone();
        other.set_profiles(Arc::default());
        for requests in [json!({"cpu": "1100m", "memory": "1Gi"}), json!({"cpu": "1"}), json!({})] {
            let pod = pod("p", requests, json!({}));
            assert_eq!(attempt(&mut one, &pod), attempt(&mut other, &pod));
        }
    }
}

#[test]
fn plugins_are_merged_as_in_kube_scheduler() {
    let names = |profiles: &Profiles| -> Vec<String> {
        profiles.all()[0].scores.iter().map(|(name, weight)| format!("{name}={weight}")).collect()
    };
    let plugins = |plugins: Value| profile(json!({ "plugins": plugins }));
    let default = [
        "TaintToleration=3",
        "NodeAffinity=2",
        "NodeResourcesFit=1",
        "PodTopologySpread=2",
        "InterPodAffinity=2",
        "DynamicResources=2",
        "NodeResourcesBalancedAllocation=1",
        "ImageLocality=1",
    ];
    assert_eq!(names(&plugins(json!({}))), default);
    // One that is enabled at its point comes first; without a weight it has 1.
    let own =
        plugins(json!({"score": {"enabled": [{"name": "ImageLocality", "weight": 5}, {"name": "TaintToleration"}]}}));
    assert_eq!(names(&own)[..3], ["ImageLocality=5", "TaintToleration=1", "NodeAffinity=2"]);
    // At multiPoint it keeps its place.
    let everywhere = plugins(json!({"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 7}]}}));
    assert_eq!(names(&everywhere)[2], "NodeResourcesFit=7");
    assert_eq!(everywhere.all()[0].filters, Profiles::default().all()[0].filters);
    // A weight at the point counts before that of multiPoint.
    let both = plugins(json!({
        "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 7}]},
        "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}]},
    }));
    assert_eq!(names(&both)[0], "NodeAffinity=4");
    let only = plugins(json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}));
    assert_eq!(names(&only), ["NodeResourcesFit=1"]);
    let without =
        plugins(json!({"multiPoint": {"disabled": [{"name": "PodTopologySpread"}, {"name": "NoSuchPlugin"}]}}));
    assert!(!names(&without).iter().any(|name| name.starts_with("PodTopologySpread")));
    assert!(!without.all()[0].filters.contains(&PluginName::PodTopologySpread));
    assert!(!plugins(json!({"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}})).all()[0].preempts);
}

#[test]
fn what_kube_scheduler_refuses_is_refused_in_its_words() {
    let plugins = |plugins: Value| problems(json!([{ "plugins": plugins }])).join("\n");
    let enabled = |point: &str, name: &str| plugins(json!({point: {"enabled": [{"name": name}]}}));
    for (said, wanted) in [
        (enabled("filter", "Mine"), "profiles[0]: FilterPlugin \"Mine\" does not exist"),
        (enabled("multiPoint", "Mine"), "profiles[0]: PreFilterPlugin \"Mine\" does not exist"),
        (
            enabled("filter", "ImageLocality"),
            "profiles[0]: plugin \"ImageLocality\" does not extend FilterPlugin plugin",
        ),
        (
            plugins(json!({"filter": {"enabled": [{"name": "NodeName"}, {"name": "NodeName"}]}})),
            "profiles[0]: plugin \"NodeName\" already registered as \"FilterPlugin\"",
        ),
        (
            plugins(json!({"multiPoint": {"enabled": [{"name": "NodeName"}, {"name": "NodeName"}]}})),
            "profiles[0]: plugin \"NodeName\" already registered as \"FilterPlugin\"",
        ),
        (
            plugins(json!({"queueSort": {"disabled": [{"name": "*"}]}})),
            "profiles[0]: only one queue sort plugin required for profile with scheduler name \"default-scheduler\", but \
             got 0",
        ),
        (
            plugins(json!({"bind": {"disabled": [{"name": "*"}]}})),
            "profiles[0]: at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
        ),
        (plugins(json!({"filters": {}})), "strict decoding error: unknown field \"profiles[0].plugins.filters\""),
    ] {
        assert_eq!(said, wanted);
    }
    let unnamed =
        problems(json!([{}, {"schedulerName": "b"}, {"schedulerName": "b", "percentageOfNodesToScore": 101}]));
    assert_eq!(
        unnamed,
        [
            "profiles[0].schedulerName: Required value",
            "profiles[2].schedulerName: Duplicate value: \"profiles[1].schedulerName\"",
            "profiles[2].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ]
    );
    let twice = json!([{"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}]);
    assert_eq!(problems(twice), ["profiles[0].pluginConfig[1]: Duplicate value: \"NodeAffinity\""]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn arguments_are_checked_in_the_words_of_kube_scheduler() {
    let shape = |points: Value| {
        json!({"scoringStrategy": {"type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": points}}})
    };
    let cases: Vec<(&str, Value, &[&str])> = vec![
        (
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "Most"}}),
            &[
                "scoringStrategy.type: Unsupported value: \"Most\": supported values: \"LeastAllocated\", \"MostAllocated\", \
             \"RequestedToCapacityRatio\"",
            ],
        ),
        (
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
            &["scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is \
             RequestedToCapacityRatio"],
        ),
        (
            "NodeResourcesFit",
            shape(json!([])),
            &["scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
        ),
        (
            "NodeResourcesFit",
            shape(json!([{"utilization": 50, "score": 11}, {"utilization": 50, "score": 0}])),
            &[
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: values must be sorted in \
             increasing order",
                "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            ],
        ),
        (
            "NodeResourcesFit",
            json!({"ignoredResourceGroups": ["a/b"]}),
            &["ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"],
        ),
        (
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}),
            &[
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
            ],
        ),
        (
            "InterPodAffinity",
            json!({"hardPodAffinityWeight": -1}),
            &["hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]"],
        ),
        (
            "DefaultPreemption",
            json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}),
            &[
                "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
                "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
        (
            "PodTopologySpread",
            json!({"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}),
            &["defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty"],
        ),
        (
            "PodTopologySpread",
            json!({"defaultingType": "List", "defaultConstraints": [{"topologyKey": "zone", "labelSelector": {}}]}),
            &[
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
                "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced \
                 for each pod",
            ],
        ),
        (
            "VolumeBinding",
            json!({"bindTimeoutSeconds": -1}),
            &["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"],
        ),
        (
            "NodeResourcesBalancedAllocation",
            json!({"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]}),
            &["resources[1].name: Duplicate value: \"cpu\"", "resources[1].weight: Invalid value: 2: must be 1"],
        ),
        (
            "NodeAffinity",
            json!({"addedAffinity": {"podAffinity": {}}}),
            &["strict decoding error: unknown field \"addedAffinity.podAffinity\""],
        ),
    ];
    for (plugin, args, wanted) in cases {
        assert_eq!(wrong(plugin, args), wanted);
    }
}

#[test]
fn what_klab_does_not_do_is_refused_with_the_reason() {
    let refused = |profiles: Value| problems(profiles).join("\n");
    let disabled = |point: &str, name: &str| refused(json!([{"plugins": {point: {"disabled": [{"name": name}]}}}]));
    assert!(disabled("multiPoint", "DynamicResources").contains("\"DynamicResources\" is disabled at preFilter"));
    assert!(disabled("preFilter", "PodTopologySpread").contains("its filter would fail for every pod"));
    assert!(disabled("preScore", "*").contains("its score would fail for every pod"));
    let first = json!([{"plugins": {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}}]);
    assert!(refused(first).contains("before \"DefaultPreemption\" only"));
    let gang = json!([{"plugins": {"permit": {"enabled": [{"name": "GangScheduling"}]}}}]);
    assert!(refused(gang).contains("needs the feature gate GangScheduling"));
    let mut whole = configuration(json!([{}]));
    whole["extenders"] = json!([{"urlPrefix": "http://127.0.0.1"}]);
    whole["podMaxBackoffSeconds"] = json!(60);
    let error = Profiles::from_configuration(&whole).unwrap_err().to_string();
    assert!(error.contains("klab tries pods again after 1 to 10 seconds") && error.contains("klab calls no extenders"));
    let old = Profiles::from_configuration(&json!({"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "X"}));
    assert!(old.unwrap_err().to_string().starts_with("no kind \"X\" is registered for version"));
}

#[test]
fn a_pods_scheduler_name_picks_its_profile() {
    let packing = json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]});
    let profiles = configuration(json!([
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "packing", "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": packing}}],
         "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}}},
    ]));
    let mut cluster = cluster(Profiles::from_configuration(&profiles).unwrap(), &[("a", json!({})), ("b", json!({}))]);
    let first = pod("first", json!({"cpu": "1"}), json!({}));
    cluster.bind(&first, "b").unwrap();
    for (scheduler, node) in [("default-scheduler", Some("a")), ("packing", Some("b")), ("other", None)] {
        let pod = pod("p", json!({"cpu": "1"}), json!({ "schedulerName": scheduler }));
        let decision = attempt(&mut cluster, &pod).decision;
        assert_eq!(decision.outcome.node().map(|node| &**node), node, "{scheduler}");
        assert_eq!(matches!(decision.outcome, Outcome::Ignored { .. }), node.is_none());
    }
}

/// The figures follow from the formulas of `mostRequestedScore`, `leastRequestedScore` and `BuildBrokenLinearFunction`.
#[test]
fn strategies_score_as_in_kube_scheduler() {
    let scored = |strategy: Value, requests: Value| {
        let profiles = with_arguments("NodeResourcesFit", json!({ "scoringStrategy": strategy }));
        let gpu = json!({"cpu": "10", "memory": "10Gi", "example.com/gpu": "8", "ephemeral-storage": "100Gi"});
        let mut cluster =
            cluster(profiles, &[("a", gpu), ("b", json!({"cpu": "4", "memory": "4Gi"})), ("c", json!({}))]);
        cluster
            .bind(&pod("there", json!({"cpu": "2", "memory": "1Gi", "example.com/gpu": "2"}), json!({})), "a")
            .unwrap();
        raw_scores(&attempt(&mut cluster, &pod("p", requests, json!({}))), PluginName::NodeResourcesFit)
    };
    let resources = json!([{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]);
    let plain = json!({"cpu": "1", "memory": "2Gi"});
    // a: cpu 30, memory 30; b: cpu 25, memory 50; c: cpu 25, memory 25.
    let most = scored(json!({"type": "MostAllocated", "resources": resources}), plain.clone());
    assert_eq!(most, scores_of(&[("a", 30), ("b", 31), ("c", 25)]));
    let least = scored(json!({"type": "LeastAllocated", "resources": resources}), plain.clone());
    assert_eq!(least, scores_of(&[("a", 70), ("b", 68), ("c", 75)]));
    let shape = json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 40, "score": 10}, {"utilization": 100, "score": 4}]});
    let ratio = json!({"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": shape});
    // a: 75, 75; b: cpu 62, memory 100 − 60·10/60 = 90, (3·62 + 90)/4 = 69; c: 62, 62.
    assert_eq!(scored(ratio, plain), scores_of(&[("a", 75), ("b", 69), ("c", 62)]));
    // Only a node that has a resource is scored by it, and only for a pod that asks for it.
    let gpus = json!([{"name": "example.com/gpu", "weight": 5}, {"name": "ephemeral-storage"}, {"name": "pods"}]);
    let most = |requests: Value| scored(json!({"type": "MostAllocated", "resources": gpus}), requests);
    assert_eq!(most(json!({"cpu": "1"})), scores_of(&[("a", 0), ("b", 0), ("c", 0)]));
    let rounded = json!({"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu"}, {"name": "memory"}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}});
    // a: cpu 30, memory 12, half of 42; b: cpu 25, no memory beside the 200 Mi that are counted: 4; (25 + 4)/2 rounds up.
    assert_eq!(scored(rounded, json!({"cpu": "1"})), scores_of(&[("a", 21), ("b", 15), ("c", 14)]));
}

#[test]
fn extended_resources_can_be_ignored_and_balanced() {
    let ignoring = with_arguments(
        "NodeResourcesFit",
        json!({"ignoredResources": ["example.com/license"], "ignoredResourceGroups": ["acme.io"]}),
    );
    let mut ignoring = cluster(ignoring, &[("a", json!({}))]);
    let placed = |cluster: &mut Cluster, resource: &str| {
        attempt(cluster, &pod("p", json!({resource: "1"}), json!({}))).decision.outcome.node().is_some()
    };
    let taken = ["example.com/license", "acme.io/token", "example.com/other"].map(|name| placed(&mut ignoring, name));
    assert_eq!(taken, [true, true, false]);

    let resources = json!({"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}]});
    let balanced = with_arguments("NodeResourcesBalancedAllocation", resources);
    let mut balanced =
        cluster(balanced, &[("a", json!({"example.com/gpu": "4"})), ("b", json!({"example.com/gpu": "8"}))]);
    let attempt = attempt(&mut balanced, &pod("p", json!({"cpu": "2", "example.com/gpu": "2"}), json!({})));
    // a: 0.5, 0, 0.5: a deviation of √(1/18); b: 0.5, 0, 0.25: of √(1/24). Without the pod both are even.
    let raw = raw_scores(&attempt, PluginName::NodeResourcesBalancedAllocation);
    assert_eq!(raw, scores_of(&[("a", 50 + (50 + 76 - 100) / 2), ("b", 50 + (50 + 79 - 100) / 2)]));
}

#[test]
fn added_affinity_keeps_pods_off_and_draws_them() {
    let added = json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x", "y"]}]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["y"]}]}}],
    }});
    let mut cluster = cluster(with_arguments("NodeAffinity", added), &[]);
    for (name, pool) in [("a", "x"), ("b", "y"), ("c", "z")] {
        add_node(&mut cluster, name, json!({ "pool": pool }), json!({}));
    }
    let drawn = attempt(&mut cluster, &pod("p", json!({"cpu": "1"}), json!({})));
    assert_eq!(raw_scores(&drawn, PluginName::NodeAffinity), scores_of(&[("a", 0), ("b", 10)]));
    assert_eq!(drawn.decision.outcome.node().map(|node| &**node), Some("b"));
    let large = attempt(&mut cluster, &pod("p", json!({"cpu": "5"}), json!({})));
    let message =
        "0/3 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity, 2 Insufficient cpu.";
    assert!(large.decision.message.starts_with(message), "{}", large.decision.message);
}

#[test]
fn default_constraints_spread_pods_of_a_service() {
    let zone = "topology.kubernetes.io/zone";
    let constraint = |action: &str| {
        let list = json!([{"maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": action}]);
        with_arguments("PodTopologySpread", json!({"defaultingType": "List", "defaultConstraints": list}))
    };
    let spread = |profiles: Profiles| {
        let mut cluster = cluster(profiles, &[]);
        add_node(&mut cluster, "a", json!({ zone: "1" }), json!({"cpu": "64", "memory": "512Gi"}));
        add_node(&mut cluster, "b", json!({ zone: "2" }), json!({}));
        add_node(&mut cluster, "c", json!({}), json!({"cpu": "64", "memory": "512Gi"}));
        let service =
            json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}});
        cluster.set_service(&serde_json::from_value(service).unwrap());
        cluster.bind(&pod("there", json!({"cpu": "1"}), json!({})), "a").unwrap();
        attempt(&mut cluster, &pod("p", json!({"cpu": "1"}), json!({})))
    };
    let soft = spread(constraint("ScheduleAnyway"));
    // Without the label a node is left out, as with constraints of the pod's own.
    let raw = raw_scores(&soft, PluginName::PodTopologySpread);
    assert_eq!((raw["a"] > 0, raw["b"], raw["c"]), (true, 0, 0));
    assert_eq!(soft.scores.unwrap().rows.len(), 3);
    let hard = spread(constraint("DoNotSchedule"));
    assert_eq!(hard.decision.outcome.node().map(|node| &**node), Some("b"));
    let refused: Vec<_> = hard.nodes.iter().filter_map(|node| node.rejection.as_ref()).map(|it| it.plugin).collect();
    assert_eq!(refused, [Some(PluginName::PodTopologySpread); 2]);
    let none = with_arguments("PodTopologySpread", json!({"defaultingType": "List"}));
    assert!(spread(none).scores.unwrap().plugins.iter().all(|(name, _)| *name != PluginName::PodTopologySpread));
}

#[test]
fn weights_of_pod_affinity_are_the_profiles() {
    let affinity = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    let raw = |args: Value| {
        let nodes = [("a", json!({})), ("b", json!({}))];
        let mut cluster = cluster(with_arguments("InterPodAffinity", args), &nodes);
        cluster.bind(&pod("there", json!({}), affinity.clone()), "b").unwrap();
        let attempt = attempt(&mut cluster, &pod("p", json!({}), json!({})));
        let scored =
            attempt.scores.as_ref().unwrap().plugins.iter().any(|(name, _)| *name == PluginName::InterPodAffinity);
        scored.then(|| raw_scores(&attempt, PluginName::InterPodAffinity)["b"])
    };
    assert_eq!(raw(json!({})), Some(1));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 30})), Some(30));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 0})), None);
    assert_eq!(raw(json!({"hardPodAffinityWeight": 30, "ignorePreferredTermsOfExistingPods": true})), None);
}

#[test]
fn without_preemption_nothing_is_evicted() {
    let without = profile(json!({"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}));
    let mut cluster = cluster(without, &[("a", json!({})), ("b", json!({}))]);
    for node in ["a", "b"] {
        cluster.bind(&pod(node, json!({"cpu": "3"}), json!({})), node).unwrap();
    }
    let important = pod("p", json!({"cpu": "2"}), json!({"priority": 100}));
    let decision = attempt(&mut cluster, &important).decision;
    assert_eq!(decision.outcome, Outcome::Unschedulable { withdraw_nomination: false });
    assert_eq!(decision.message, "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate");
    assert_eq!(crate::message::without_preemption(&decision.message), "0/2 nodes are available: 2 Insufficient cpu.");

    let one =
        with_arguments("DefaultPreemption", json!({"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}));
    cluster.set_profiles(Arc::new(one));
    let Outcome::Preempting(preemption) = attempt(&mut cluster, &important).decision.outcome else { panic!("evicts") };
    assert_eq!(preemption.candidates.len(), 1, "the search ends at the first");
    cluster.set_profiles(Arc::default());
    let Outcome::Preempting(preemption) = attempt(&mut cluster, &important).decision.outcome else { panic!("evicts") };
    assert_eq!(preemption.candidates.len(), 2);
}

#[test]
fn the_first_filter_of_a_profile_gives_the_reason() {
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "missing",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let first = profile(json!({"plugins": {"filter": {"enabled": [{"name": "PodTopologySpread"}]}}}));
    let both = pod("p", json!({"cpu": "5"}), spread);
    for (profiles, plugin) in
        [(Profiles::default(), PluginName::NodeResourcesFit), (first, PluginName::PodTopologySpread)]
    {
        let mut cluster = cluster(profiles, &[("a", json!({})), ("b", json!({}))]);
        assert_eq!(attempt(&mut cluster, &both).decision.refused_by, [plugin]);
    }
    let without = profile(json!({"plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}}));
    let placed = attempt(&mut cluster(without, &[("a", json!({}))]), &pod("p", json!({"cpu": "5"}), json!({})));
    assert!(placed.decision.outcome.node().is_some());
}

#[test]
fn each_plugin_is_at_the_place_of_its_name() {
    for (place, plugin) in crate::plugins::PLUGINS.iter().enumerate() {
        assert_eq!(plugin.name as usize, place);
    }
}
