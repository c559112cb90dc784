//! The features that a cluster has: its feature gates, and the versions of the API that it does not serve.

// upstream: pkg/features/kube_features.go, staging/src/k8s.io/{apiserver,apiextensions-apiserver}/pkg/features/kube_features.go,
// staging/src/k8s.io/component-base/featuregate/feature_gate.go, pkg/controlplane/instance.go (v1.36.2)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Every feature gate of Kubernetes v1.36.2, one a line: name, default, stage, whether it is locked, and the gates that it needs.
static KNOWN: LazyLock<BTreeMap<&'static str, KnownGate>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        let (name, is_on, stage, lock) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some((name, KnownGate { is_on: is_on == "on", stage, is_locked: lock == "locked", needs: words.collect() }))
    };
    include_str!("features.txt").lines().filter_map(line).collect()
});

/// A feature gate of Kubernetes.
struct KnownGate {
    is_on: bool,
    stage: &'static str,
    is_locked: bool,
    needs: Vec<&'static str>,
}

macro_rules! gates {
    ($($name:ident $default:literal $effect:literal;)*) => {
        /// A feature gate that klab models.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate { $(#[doc = $effect] $name),* }

        impl Gate {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// Whether it is on unless somebody says otherwise.
            pub const fn is_on(self) -> bool {
                match self { $(Self::$name => $default),* }
            }

            /// What it does in a cluster of klab, as a phrase.
            pub const fn effect(self) -> &'static str {
                match self { $(Self::$name => $effect),* }
            }
        }
    };
}

gates! {
    ClearingNominatedNodeNameAfterBinding true "a pod that is bound loses its `nominatedNodeName`";
    ContainerRestartRules true "containers have `restartPolicy` and `restartPolicyRules` of their own";
    DRADeviceBindingConditions true "devices have `bindingConditions`, `bindingFailureConditions` and `bindsToNode`";
    DRADeviceTaints true "devices have `taints`, requests have `tolerations`";
    DRAExtendedResource true "an extended resource may be the devices of a DeviceClass";
    DRAPartitionableDevices true "slices have `sharedCounters` and `perDeviceNodeSelection`, devices `consumesCounters` and nodes of their own";
    DRAPrioritizedList true "requests of a claim have `firstAvailable`";
    DeploymentReplicaSetTerminatingReplicas true "Deployments and ReplicaSets count `terminatingReplicas` in their status";
    EnvFiles true "variables of containers have `fileKeyRef`";
    HPAConfigurableTolerance true "`behavior` of a HorizontalPodAutoscaler has `tolerance`";
    HostnameOverride true "pods have `hostnameOverride`";
    MatchLabelKeysInPodTopologySpread true "spread constraints have `matchLabelKeys`";
    MatchLabelKeysInPodTopologySpreadSelectorMerge true "the API server writes the `matchLabelKeys` of a spread constraint into its `labelSelector`";
    MaxUnavailableStatefulSet false "`rollingUpdate.maxUnavailable` of a StatefulSet counts, and is 1 where it is not given";
    MutablePVNodeAffinity false "`nodeAffinity` of a PersistentVolume can change";
    MutatingAdmissionPolicy true "MutatingAdmissionPolicies change objects";
    PodDeletionCost true "ReplicaSets heed `controller.kubernetes.io/pod-deletion-cost`, and the API server checks it";
    PodReadyToStartContainersCondition true "pods have the condition `PodReadyToStartContainers`";
    PodTopologyLabelsAdmission true "pods have the region and zone of their node as labels";
    ReduceDefaultCrashLoopBackOffDecay false "a container that fails waits from 1 second up to 1 minute, not from 10 seconds up to 5 minutes";
    RestartAllContainersOnContainerExits true "a rule of `restartPolicyRules` may have the action `RestartAllContainers`";
    StorageVersionHash true "discovery has `storageVersionHash`";
    TaintTolerationComparisonOperators false "tolerations have the operators `Lt` and `Gt`";
}

/// Versions of the API that a cluster does without when it is asked to.
pub const OPTIONAL_APIS: [&str; 3] = ["autoscaling/v1", "autoscaling/v2", "batch/v1"];

/// Versions that the control plane cannot do without, or does otherwise without.
const NEEDED_APIS: [&str; 16] = [
    "admissionregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
];

/// Versions that Kubernetes does not serve unless it is asked to, and klab not at all.
const ABSENT_APIS: [&str; 19] = [
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "certificates.k8s.io/v1beta1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "internal.apiserver.k8s.io/v1alpha1",
    "networking.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "scheduling.k8s.io/v1alpha2",
    "storage.k8s.io/v1alpha1",
    "storage.k8s.io/v1beta1",
];

/// The features of a cluster. By default, those of Kubernetes v1.36.2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Settings", into = "Settings")]
pub struct Features {
    /// The gates that are not as by default: a bit each.
    changed: u64,
    /// The optional versions of the API that are off: a bit each.
    off: u8,
}

/// Features as they are written: what is not as by default.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Feature gates by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Versions of the API by group and version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runtime_config: BTreeMap<String, bool>,
}

impl Features {
    /// Those of a cluster that others made: what its API server has let in counts.
    pub const fn observed() -> Self {
        Self { changed: 1 << Gate::TaintTolerationComparisonOperators as u8, off: 0 }
    }

    /// Whether a gate is on.
    pub const fn has(self, gate: Gate) -> bool {
        gate.is_on() != (self.changed >> gate as u8 & 1 == 1)
    }

    /// Whether a version of the API is served, if the cluster knows it.
    pub fn serves(self, group: &str, version: &str) -> bool {
        let is = |api: &str| api.split_once('/') == Some((group, version));
        self.off == 0 || !OPTIONAL_APIS.iter().enumerate().any(|(at, api)| self.off >> at & 1 == 1 && is(api))
    }

    /// The features that settings ask for, and what of the settings klab does not do.
    pub fn of(settings: &Settings) -> (Self, Vec<FeatureError>) {
        let (mut features, mut errors) = (Self::default(), Vec::new());
        for (name, is_on) in &settings.feature_gates {
            match features.set_gate(name, *is_on) {
                Ok(()) => {}
                Err(why) => errors.push(FeatureError { name: name.clone(), why }),
            }
        }
        for (gate, known) in KNOWN.iter() {
            let is_on = |gate: &str| settings.feature_gates.get(gate).copied().or(KNOWN.get(gate).map(|it| it.is_on));
            let off: Vec<&str> = known.needs.iter().copied().filter(|needed| is_on(needed) == Some(false)).collect();
            if is_on(gate) == Some(true) && !off.is_empty() {
                errors.push(FeatureError { name: (*gate).to_owned(), why: Why::Needs(off.join(" ")) });
            }
        }
        if settings.runtime_config.len() == 1 && settings.runtime_config.get("api/all") == Some(&false) {
            errors.push(FeatureError { name: "api/all".to_owned(), why: Why::Nothing });
            return (features, errors);
        }
        for (name, is_on) in &settings.runtime_config {
            if let Err(why) = features.set_api(name, *is_on) {
                errors.push(FeatureError { name: name.clone(), why });
            }
        }
        (features, errors)
    }

    fn set_gate(&mut self, name: &str, is_on: bool) -> Result<(), Why> {
        if matches!(name, "AllAlpha" | "AllBeta") {
            return if is_on || name == "AllBeta" { Err(Why::UnmodelledGate) } else { Ok(()) };
        }
        let known = KNOWN.get(name).ok_or(Why::UnknownGate)?;
        match Gate::ALL.iter().find(|gate| gate.name() == name) {
            Some(gate) if gate.is_on() != is_on => self.changed |= 1 << *gate as u8,
            _ if known.is_on == is_on => {}
            _ if known.is_locked => return Err(Why::Locked(known.is_on)),
            _ => return Err(Why::UnmodelledGate),
        }
        Ok(())
    }

    fn set_api(&mut self, name: &str, is_on: bool) -> Result<(), Why> {
        let Some((group, _)) = name.split_once('/') else { return Err(Why::InvalidApi) };
        if let Some(at) = OPTIONAL_APIS.iter().position(|api| *api == name) {
            self.off |= u8::from(!is_on) << at;
            return Ok(());
        }
        let (needed, absent) = (NEEDED_APIS.contains(&name), ABSENT_APIS.contains(&name));
        match name {
            "api/all" => Err(if is_on { Why::AbsentApi } else { Why::NeededApi }),
            "api/alpha" | "api/beta" if is_on => Err(Why::AbsentApi),
            "api/ga" if !is_on => Err(Why::NeededApi),
            "api/alpha" | "api/beta" | "api/ga" => Ok(()),
            _ if needed == is_on && absent != is_on && (needed || absent) => Ok(()),
            _ if needed => Err(Why::NeededApi),
            _ if absent => Err(Why::AbsentApi),
            _ if name.split('/').count() > 2 => Err(Why::OneResource),
            _ if api_names().any(|api| api.split('/').next() == Some(group)) => Err(Why::UnknownVersion),
            _ => Err(Why::UnknownGroup),
        }
    }
}

impl TryFrom<Settings> for Features {
    type Error = String;

    fn try_from(settings: Settings) -> Result<Self, String> {
        match Self::of(&settings) {
            (features, errors) if errors.is_empty() => Ok(features),
            (_, errors) => Err(errors.iter().map(FeatureError::to_string).collect::<Vec<_>>().join("; ")),
        }
    }
}

impl From<Features> for Settings {
    fn from(features: Features) -> Self {
        let changed = Gate::ALL.iter().filter(|gate| features.has(**gate) != gate.is_on());
        let off = OPTIONAL_APIS.iter().enumerate().filter(|(at, _)| features.off >> at & 1 == 1);
        Self {
            feature_gates: changed.map(|gate| (gate.name().to_owned(), !gate.is_on())).collect(),
            runtime_config: off.map(|(_, api)| ((*api).to_owned(), false)).collect(),
        }
    }
}

/// The gates as `kube-apiserver --feature-gates` takes them, and the versions as `--runtime-config` does.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { feature_gates, runtime_config } = (*self).into();
        let all: Vec<_> =
            feature_gates.iter().chain(&runtime_config).map(|(name, on)| format!("{name}={on}")).collect();
        f.write_str(&all.join(","))
    }
}

/// The names of all feature gates of Kubernetes v1.36.2.
pub fn gate_names() -> impl Iterator<Item = &'static str> {
    KNOWN.keys().copied()
}

/// How far a gate has come: `Alpha`, `Beta`, `GA` or `Deprecated`.
pub fn stage(gate: Gate) -> &'static str {
    KNOWN.get(gate.name()).map_or("", |known| known.stage)
}

/// The versions of the API of Kubernetes v1.36.2 by group and version, and the names for several of them.
pub fn api_names() -> impl Iterator<Item = &'static str> {
    let several = ["api/all", "api/alpha", "api/beta", "api/ga"];
    several.into_iter().chain(OPTIONAL_APIS).chain(NEEDED_APIS).chain(ABSENT_APIS)
}

/// A setting that klab does not carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureError {
    /// The gate or the version of the API.
    pub name: String,
    /// Why not.
    pub why: Why,
}

/// Why klab does not carry out a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Kubernetes has no such gate.
    UnknownGate,
    /// Kubernetes refuses every other value than this one.
    Locked(bool),
    /// klab does not model what depends on the gate.
    UnmodelledGate,
    /// The gate is on and needs these, which are off.
    Needs(String),
    /// The API server refuses to serve nothing at all.
    Nothing,
    /// It names no version of the API.
    InvalidApi,
    /// Kubernetes has no such group.
    UnknownGroup,
    /// The group has no such version.
    UnknownVersion,
    /// It names a single resource.
    OneResource,
    /// klab's control plane needs it.
    NeededApi,
    /// klab does not serve it.
    AbsentApi,
}

impl FeatureError {
    /// Whether Kubernetes itself would not start with it.
    pub fn is_fatal(&self) -> bool {
        use Why::{InvalidApi, Locked, Needs, Nothing, UnknownGroup, UnknownVersion};
        matches!(self.why, Locked(_) | Needs(_) | Nothing | InvalidApi | UnknownGroup | UnknownVersion)
    }
}

impl fmt::Display for FeatureError {
    /// In Kubernetes' words, where Kubernetes refuses the setting, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.why {
            Why::UnknownGate => write!(f, "unrecognized feature gate: {name}"),
            Why::Locked(to) => write!(f, "cannot set feature gate {name} to {}, feature is locked to {to}", !to),
            Why::UnmodelledGate => write!(f, "klab does not model the feature gate {name}"),
            Why::Needs(off) => write!(f, "{name} is enabled, but depends on features that are disabled: [{off}]"),
            Why::Nothing => write!(f, "invalid runtime-config with only {name}=false"),
            Why::InvalidApi => write!(f, "runtime-config invalid key {name}"),
            Why::UnknownGroup => write!(f, "unknown api groups {name}"),
            Why::UnknownVersion => write!(f, "group version {name} that has not been registered"),
            Why::OneResource => {
                write!(f, "klab switches whole versions of the API, not single resources such as {name}")
            }
            Why::NeededApi => write!(f, "klab's control plane needs {name}"),
            Why::AbsentApi => write!(f, "klab does not serve {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(gates: &[(&str, bool)], apis: &[(&str, bool)]) -> Settings {
        let map = |all: &[(&str, bool)]| all.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        Settings { feature_gates: map(gates), runtime_config: map(apis) }
    }

    #[test]
    fn the_modelled_gates_are_those_of_kubernetes() {
        assert!(Gate::ALL.len() <= 64 && Gate::ALL.is_sorted_by_key(|gate| gate.name()) && KNOWN.len() == 225);
        for gate in Gate::ALL {
            let known = &KNOWN[gate.name()];
            assert_eq!((gate.is_on(), false), (known.is_on, known.is_locked), "{}", gate.name());
        }
        assert!(KNOWN.values().flat_map(|known| &known.needs).all(|needed| KNOWN.contains_key(needed)));
        assert!(Features::of(&Settings::default()).1.is_empty());
    }

    #[test]
    fn settings_come_back() {
        let given = settings(&[("EnvFiles", false), ("MutablePVNodeAffinity", true)], &[("batch/v1", false)]);
        let (features, errors) = Features::of(&given);
        assert_eq!(errors, []);
        assert!(!features.has(Gate::EnvFiles) && features.has(Gate::MutablePVNodeAffinity));
        assert!(features.has(Gate::HostnameOverride) && !features.has(Gate::MaxUnavailableStatefulSet));
        assert!(!features.serves("batch", "v1") && features.serves("autoscaling", "v1") && features.serves("", "v1"));
        assert_eq!(features.to_string(), "EnvFiles=false,MutablePVNodeAffinity=true,batch/v1=false");
        let text = serde_json::to_string(&features).unwrap();
        assert_eq!(serde_json::from_str::<Features>(&text).unwrap(), features);
        // What is as by default, whether klab models it or not, asks for nothing.
        let nothing =
            settings(&[("OpenAPIEnums", true), ("SidecarContainers", true)], &[("api/beta", false), ("apps/v1", true)]);
        assert_eq!(Features::of(&nothing), (Features::default(), vec![]));
    }

    #[test]
    fn what_klab_or_kubernetes_refuses_is_said() {
        for (gates, apis, wanted) in [
            (&[("EnvFile", false)][..], &[][..], "unrecognized feature gate: EnvFile"),
            (
                &[("SidecarContainers", false)],
                &[],
                "cannot set feature gate SidecarContainers to false, feature is locked to true",
            ),
            (&[("AllAlpha", true)], &[], "klab does not model the feature gate AllAlpha"),
            (&[("GenericWorkload", true)], &[], "klab does not model the feature gate GenericWorkload"),
            (
                &[("MatchLabelKeysInPodTopologySpread", false)],
                &[],
                "MatchLabelKeysInPodTopologySpreadSelectorMerge is enabled, but depends on features that are disabled: \
                 [MatchLabelKeysInPodTopologySpread]",
            ),
            (&[], &[("api/all", false)], "invalid runtime-config with only api/all=false"),
            (&[], &[("v1", false)], "runtime-config invalid key v1"),
            (&[], &[("apps/v1", false)], "klab's control plane needs apps/v1"),
            (&[], &[("resource.k8s.io/v1beta1", true)], "klab does not serve resource.k8s.io/v1beta1"),
            (&[], &[("api/alpha", true)], "klab does not serve api/alpha"),
            (&[], &[("example.com/v1", true)], "unknown api groups example.com/v1"),
            (&[], &[("batch/v1beta1", true)], "group version batch/v1beta1 that has not been registered"),
            (
                &[],
                &[("batch/v1/jobs", false)],
                "klab switches whole versions of the API, not single resources such as batch/v1/jobs",
            ),
        ] {
            let (_, errors) = Features::of(&settings(gates, apis));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
        }
    }
}
