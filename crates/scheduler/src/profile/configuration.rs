//! A KubeSchedulerConfiguration, read into the profiles of a scheduler.

// upstream: pkg/scheduler/apis/config/validation/validation.go (v1.36)
// upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go KubeSchedulerConfiguration (v1.36)

use std::collections::BTreeMap;

use serde_json::Value;

use super::arguments::Arguments;
use super::document::{ConfigurationError, Fields, Problems};
use super::plugin_arguments;
use super::plugins::{self, PluginSet, Point, Sets};
use super::profiles::{DEFAULT_SCHEDULER, Profile, Profiles};

const VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// The keys of a configuration.
const KEYS: [&str; 13] = [
    "apiVersion",
    "kind",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
];

/// Plugins that a configuration may not name any more.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

impl Profiles {
    /// Reads a `KubeSchedulerConfiguration` of version `kubescheduler.config.k8s.io/v1`, as a tree of JSON or YAML.
    ///
    /// `percentageOfNodesToScore` is checked and changes nothing: every node that takes a pod is scored, as with 100.
    ///
    /// # Errors
    /// What kube-scheduler says before it ends, and what klab does not do as kube-scheduler does it.
    pub fn from_configuration(configuration: &Value) -> Result<Self, ConfigurationError> {
        let problems = Problems::default();
        let profiles = document(configuration, &problems);
        problems.none_or(Self(profiles))
    }
}

fn document(configuration: &Value, problems: &Problems) -> Vec<Profile> {
    let Some(fields) = Fields::of(configuration, "", &KEYS, problems) else { return Vec::new() };
    let (version, kind) = (fields.text("apiVersion").unwrap_or_default(), fields.text("kind").unwrap_or_default());
    if let Some((key, _)) = [("Kind", kind), ("apiVersion", version)].iter().find(|(_, value)| value.is_empty()) {
        problems.add(format!("Object '{key}' is missing in '{configuration}'"));
        return Vec::new();
    }
    if (version, kind) != (VERSION, KIND) {
        problems.add(format!("no kind {kind:?} is registered for version {version:?}: klab reads {KIND} of {VERSION}"));
        return Vec::new();
    }
    of_scheduler(&fields);
    let entries = fields.objects("profiles", &["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"]);
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut profiles = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let alone = if entries.len() == 1 { DEFAULT_SCHEDULER } else { "" };
        let name = entry.text("schedulerName").unwrap_or(alone);
        if name.is_empty() {
            entry.required("schedulerName", "");
        }
        if let Some(first) = known.insert(name, index) {
            problems
                .add(format!("{}: Duplicate value: \"profiles[{first}].schedulerName\"", entry.at("schedulerName")));
        }
        profiles.extend(profile(entry, name).map(|profile| Profile { place: index, ..profile }));
    }
    let sort =
        |entry: &Fields<'_>| entry.value("plugins").map(|plugins| plugins["queueSort"].clone()).unwrap_or_default();
    for entry in entries.iter().skip(1).filter(|entry| entries.first().map(sort) != Some(sort(entry))) {
        problems.add(format!(
            "{}: Invalid value: {}: must be the same for all profiles",
            entry.at("plugins.queueSort"),
            in_go(&sort(entry))
        ));
    }
    if entries.is_empty() {
        profiles.push(plugins::default_profile().clone());
    }
    profiles
}

/// A set of plugins as Go prints it.
fn in_go(set: &Value) -> String {
    let list = |key: &str| {
        let plugin =
            |it: &Value| format!("{{\"Name\":{},\"Weight\":{}}}", it["name"], it["weight"].as_i64().unwrap_or(0));
        let plugins = set[key].as_array().map(|plugins| plugins.iter().map(plugin).collect::<Vec<_>>().join(","));
        plugins.map_or_else(|| "null".to_owned(), |plugins| format!("[{plugins}]"))
    };
    format!("{{\"Enabled\":{},\"Disabled\":{}}}", list("enabled"), list("disabled"))
}

/// What is the same for all profiles.
fn of_scheduler(fields: &Fields<'_>) {
    if let Some(workers) = fields.number("parallelism").filter(|workers| *workers <= 0) {
        fields.invalid("parallelism", workers, "should be an integer value greater than zero");
    }
    fields.within("percentageOfNodesToScore", 0, 100, "not in valid range [0-100]");
    for key in ["enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"] {
        fields.flag(key);
    }
    backoff(fields);
    leader_election(fields);
    let connection = ["kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"];
    if let Some(connection) = fields.below("clientConnection", &connection) {
        connection.within("burst", 0, i64::from(i32::MAX), "must be non-negative");
    }
    if !fields.list("extenders").is_empty() {
        let why = "klab calls no extenders, which are servers of their own: remove them, or use a provider with a real \
                   kube-scheduler";
        fields.problem(format!("extenders: {why}"));
    }
}

/// upstream: staging/src/k8s.io/component-base/config/validation/validation.go ValidateLeaderElectionConfiguration (v1.36)
fn leader_election(fields: &Fields<'_>) {
    const KEYS: [&str; 7] = [
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
    ];
    let Some(election) = fields.below("leaderElection", &KEYS) else { return };
    let given = |key: &str, default: &'static str, length: i64| {
        election.duration(key).filter(|(_, length)| *length != 0).unwrap_or((default, length))
    };
    let durations = [("leaseDuration", "15s", 15_000), ("renewDeadline", "10s", 10_000), ("retryPeriod", "2s", 2_000)];
    let durations = durations.map(|(key, default, length)| (key, given(key, default, length)));
    if election.flag("leaderElect") == Some(false) {
        return;
    }
    for (key, (text, _)) in durations.iter().filter(|(_, (_, length))| *length < 0) {
        election.invalid(key, format_args!("{text:?}"), "must be greater than zero");
    }
    let [(key, (_, lease)), (_, (text, renewal)), _] = durations;
    if lease <= renewal {
        election.invalid(key, format_args!("{text:?}"), "must be greater than `RenewDeadline`");
    }
    if let Some(lock) = election.text("resourceLock").filter(|lock| !lock.is_empty() && *lock != "leases") {
        election.invalid("resourceLock", format_args!("{lock:?}"), "resourceLock value must be \"leases\"");
    }
}

/// How long pods wait that could not be placed.
fn backoff(fields: &Fields<'_>) {
    let first = fields.number("podInitialBackoffSeconds").unwrap_or(1);
    let most = fields.number("podMaxBackoffSeconds").unwrap_or(10);
    if first <= 0 {
        fields.invalid("podInitialBackoffSeconds", first, "must be greater than 0");
    }
    if most < first {
        fields.invalid("podMaxBackoffSeconds", most, "must be greater than or equal to PodInitialBackoffSeconds");
    }
    if first > 0 && most >= first && (first, most) != (1, 10) {
        fields.problem(format!(
            "podInitialBackoffSeconds: {first}, podMaxBackoffSeconds: {most}: klab tries pods again after 1 to 10 seconds"
        ));
    }
}

fn profile(entry: &Fields<'_>, name: &str) -> Option<Profile> {
    entry.within("percentageOfNodesToScore", 0, 100, "not in valid range [0-100]");
    let mut arguments = Arguments::default();
    let mut seen: Vec<&str> = Vec::new();
    for config in entry.objects("pluginConfig", &["name", "args"]) {
        let plugin = config.text("name").unwrap_or_default();
        if seen.contains(&plugin) {
            config.problem(format!("{}: Duplicate value: {plugin:?}", config.path));
            continue;
        }
        seen.push(plugin);
        removed(&config.path, plugin, &config);
        plugin_arguments::read(&config, plugin, &mut arguments);
    }
    let noted = entry.noted();
    let sets = entry.value("plugins").map_or_else(Sets::default, |_| sets(entry));
    if entry.noted() > noted {
        return None;
    }
    plugins::profile(name, &sets, arguments).inspect_err(|why| entry.problem(format!("{}: {why}", entry.path))).ok()
}

fn removed(path: &str, plugin: &str, fields: &Fields<'_>) {
    if REMOVED.contains(&plugin) {
        fields.problem(format!(
            "{path}: Invalid value: {plugin:?}: was invalid in version \"v1\" (KubeSchedulerConfiguration is version \
             {VERSION:?})"
        ));
    }
}

fn sets(entry: &Fields<'_>) -> Sets {
    let keys: Vec<_> = Point::ALL.iter().map(|(_, key, _)| *key).chain(["multiPoint"]).collect();
    let Some(fields) = entry.below("plugins", &keys) else { return Sets::default() };
    let read = |key: &str| {
        let set = fields.below(key, &["enabled", "disabled"])?;
        let mut read = PluginSet::default();
        for plugin in set.objects("enabled", &["name", "weight"]) {
            let name = plugin.text("name").unwrap_or_default();
            // kube-scheduler does not look for them here.
            if key != "multiPoint" {
                removed(&plugin.path, name, &plugin);
            }
            read.enabled.push((name.to_owned(), plugin.number("weight").unwrap_or(0)));
        }
        for plugin in set.objects("disabled", &["name", "weight"]) {
            plugin.number("weight");
            read.disabled.push(plugin.text("name").unwrap_or_default().to_owned());
        }
        if key == "queueSort" && read.enabled.len() > 1 {
            fields.invalid("queueSort.Enabled", read.enabled.len(), "only one queue sort plugin can be enabled");
        }
        Some(read)
    };
    Sets {
        multi_point: read("multiPoint").unwrap_or_default(),
        points: Point::ALL.iter().filter_map(|(point, key, _)| Some((*point, read(key)?))).collect(),
    }
}
