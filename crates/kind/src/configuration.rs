//! kind's configuration: the YAML of `kind create cluster --config`, decoded strictly, with kind's defaults.

use std::collections::BTreeMap;

use klab_scheduler::features::{Features, Settings};
use serde::Deserialize;
use serde_json::Value;

/// The name of a cluster that has no other.
pub const DEFAULT_NAME: &str = "kind";
/// The node image where none is named.
pub const DEFAULT_IMAGE: &str = "kindest/node:v1.36.2";
/// The API version that is read.
const API_VERSION: &str = "kind.x-k8s.io/v1alpha4";

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// `Cluster`.
    pub kind: String,
    /// The version of this schema.
    pub api_version: String,
    /// Its name; empty where the configuration has none.
    pub name: String,
    /// Its nodes, in order.
    pub nodes: Vec<Node>,
    /// Its network.
    pub networking: Networking,
    /// Kubernetes' feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// API groups and versions that are switched on or off.
    pub runtime_config: BTreeMap<String, String>,
    /// Patches of kubeadm's configuration, for all nodes.
    pub kubeadm_config_patches: Vec<String>,
    /// JSON patches of kubeadm's configuration.
    #[serde(rename = "kubeadmConfigPatchesJSON6902")]
    pub kubeadm_config_patches_json6902: Vec<Value>,
    /// Patches of containerd's configuration.
    pub containerd_config_patches: Vec<String>,
    /// JSON patches of containerd's configuration.
    #[serde(rename = "containerdConfigPatchesJSON6902")]
    pub containerd_config_patches_json6902: Vec<String>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    /// `control-plane` or `worker`.
    pub role: String,
    /// Its image.
    pub image: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Files and folders of the machine in it.
    pub extra_mounts: Vec<Mount>,
    /// Ports of the machine that lead to it.
    pub extra_port_mappings: Vec<PortMapping>,
    /// Patches of kubeadm's configuration.
    pub kubeadm_config_patches: Vec<String>,
    /// JSON patches of kubeadm's configuration.
    #[serde(rename = "kubeadmConfigPatchesJSON6902")]
    pub kubeadm_config_patches_json6902: Vec<Value>,
}

/// A file or folder of the machine in a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "kind's own words")]
pub struct Mount {
    pub container_path: String,
    pub host_path: String,
    pub read_only: bool,
    pub selinux_relabel: bool,
    pub propagation: String,
}

/// A port of the machine that leads to a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "kind's own words")]
pub struct PortMapping {
    pub container_port: i32,
    pub host_port: i32,
    pub listen_address: String,
    pub protocol: String,
}

/// The network of a cluster; empty texts where the configuration leaves it to kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "kind's own words")]
pub struct Networking {
    pub ip_family: String,
    pub api_server_port: i32,
    pub api_server_address: String,
    pub pod_subnet: String,
    pub service_subnet: String,
    #[serde(rename = "disableDefaultCNI")]
    pub disable_default_cni: bool,
    pub kube_proxy_mode: String,
    #[serde(rename = "dnsSearch")]
    pub dns_search: Option<Vec<String>>,
}

/// What of a document says how it is read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Form {
    kind: String,
    api_version: String,
}

impl Cluster {
    /// Reads a configuration and fills in kind's defaults.
    ///
    /// # Errors
    /// In kind's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form: Form = serde_saphyr::from_str(text)
            .map_err(|error| format!("could not determine kind / apiVersion for config: {}", yaml_words(&error)))?;
        if form.api_version != API_VERSION {
            return Err(format!("unknown apiVersion: {}", form.api_version));
        }
        if form.kind != "Cluster" {
            return Err(format!("unknown kind {} for apiVersion: {API_VERSION}", form.kind));
        }
        let mut cluster: Self = serde_saphyr::from_str(text)
            .map_err(|error| format!("unable to decode config: yaml: unmarshal errors:\n  {}", yaml_words(&error)))?;
        cluster.fill();
        Ok(cluster)
    }

    /// The cluster of no configuration: one node.
    pub fn ordinary() -> Self {
        let mut cluster = Self::default();
        cluster.fill();
        cluster
    }

    /// Fills in what kind takes where the configuration says nothing.
    fn fill(&mut self) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        for node in &mut self.nodes {
            or_else(&mut node.role, "control-plane");
            or_else(&mut node.image, DEFAULT_IMAGE);
            for port in &mut node.extra_port_mappings {
                or_else(&mut port.protocol, "TCP");
            }
        }
        let networking = &mut self.networking;
        or_else(&mut networking.ip_family, "ipv4");
        or_else(&mut networking.kube_proxy_mode, "iptables");
        let (pods, services) = match networking.ip_family.as_str() {
            "ipv6" => ("fd00:10:244::/56", "fd00:10:96::/112"),
            "dual" => ("10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/16,fd00:10:96::/112"),
            _ => (POD_SUBNET, SERVICE_SUBNET),
        };
        or_else(&mut networking.pod_subnet, pods);
        or_else(&mut networking.service_subnet, services);
    }

    /// What klab takes from a configuration and does nothing about, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let any = |has: fn(&Node) -> bool| self.nodes.iter().any(has);
        let networking = &self.networking;
        let rows = [
            (any(|node| !node.extra_port_mappings.is_empty()), "extraPortMappings: an embedded node opens no port"),
            (any(|node| !node.extra_mounts.is_empty()), "extraMounts: an embedded node has no files"),
            (
                !self.containerd_config_patches.is_empty() || !self.containerd_config_patches_json6902.is_empty(),
                "containerdConfigPatches: an embedded node has no containerd",
            ),
            (
                !self.kubeadm_config_patches_json6902.is_empty()
                    || any(|node| !node.kubeadm_config_patches_json6902.is_empty()),
                "kubeadmConfigPatchesJSON6902: klab reads kubeadmConfigPatches only",
            ),
            (networking.disable_default_cni, "disableDefaultCNI: embedded nodes are Ready without a network plugin"),
            (networking.pod_subnet != POD_SUBNET, "podSubnet: the embedded cluster has its own range"),
            (networking.service_subnet != SERVICE_SUBNET, "serviceSubnet: the embedded cluster has 10.96.0.0/16"),
            (
                networking.api_server_port > 0 || !networking.api_server_address.is_empty(),
                "apiServerAddress and apiServerPort: klab's server has one address for all clusters",
            ),
        ];
        rows.iter().filter(|(is_used, _)| *is_used).map(|(_, note)| (*note).to_owned()).collect()
    }

    /// The features of the cluster, with a sentence about each setting that klab does nothing about.
    ///
    /// # Errors
    /// In Kubernetes' words, where its API server would end because of a setting.
    pub fn features(&self) -> Result<(Features, Vec<String>), String> {
        let mut settings = Settings { feature_gates: self.feature_gates.clone(), ..Settings::default() };
        for (api, value) in &self.runtime_config {
            let is_on = match value.as_str() {
                "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => {
                    let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
                    return Err(format!("invalid value of {api}: {value}, err: {why}"));
                }
            };
            settings.runtime_config.insert(api.clone(), is_on);
        }
        let (features, errors) = Features::of(&settings);
        if let Some(fatal) = errors.iter().find(|error| error.is_fatal()) {
            return Err(format!("kube-apiserver would end because of featureGates or runtimeConfig: {fatal}"));
        }
        let field =
            |name: &str| if settings.feature_gates.contains_key(name) { "featureGates" } else { "runtimeConfig" };
        let notes = errors.iter().map(|error| format!("{} {}: {error}", field(&error.name), error.name)).collect();
        Ok((features, notes))
    }
}

/// The range of pods where the configuration has none.
const POD_SUBNET: &str = "10.244.0.0/16";
/// The range of Services where the configuration has none.
const SERVICE_SUBNET: &str = "10.96.0.0/16";

fn or_else(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}

/// A mistake as kind's reader words it: line, and the field with the type that does not have it.
fn yaml_words(error: &serde_saphyr::Error) -> String {
    let error = error.without_snippet();
    let line = error.location().map_or(1, |at| at.line());
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message).lines().next().unwrap_or_default().to_owned();
    // The fields that a type has tell which type it is.
    let unknown = message.split_once("unknown field `").and_then(|(_, rest)| rest.split_once('`'));
    if let Some((field, expected)) = unknown {
        let types = [("apiVersion", "Cluster"), ("extraMounts", "Node"), ("ipFamily", "Networking")];
        let types = types.into_iter().chain([("hostPath", "Mount"), ("hostPort", "PortMapping")]);
        let of =
            types.filter(|(own, _)| expected.split([',', ' ']).any(|word| word == *own)).map(|(_, name)| name).next();
        if let Some(of) = of {
            return format!("line {line}: field {field} not found in type v1alpha4.{of}");
        }
    }
    format!("line {line}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n";

    fn parsed(rest: &str) -> Result<Cluster, String> {
        Cluster::parse(&format!("{HEAD}{rest}"))
    }

    #[test]
    fn defaults_are_those_of_kind() {
        let cluster = parsed("").unwrap();
        assert_eq!((cluster.nodes.len(), cluster.nodes[0].role.as_str()), (1, "control-plane"));
        assert_eq!(cluster.networking, Cluster::ordinary().networking);
        let labels =
            parsed("nodes: [{ role: worker, labels: { tier: 1, on: true } }]").unwrap().nodes[0].labels.clone();
        assert_eq!(labels, [("tier", "1"), ("on", "true")].map(|(key, value)| (key.into(), value.into())).into());
    }

    #[test]
    fn mistakes_are_worded_as_kind_words_them() {
        for (text, words) in [
            ("nodes:\n- role: worker\n  taints: []\n", "line 5: field taints not found in type v1alpha4.Node"),
            ("node: []\n", "line 3: field node not found in type v1alpha4.Cluster"),
            ("networking:\n  podCidr: x\n", "line 4: field podCidr not found in type v1alpha4.Networking"),
        ] {
            let expected = format!("unable to decode config: yaml: unmarshal errors:\n  {words}");
            assert_eq!(parsed(text).unwrap_err(), expected);
        }
        assert_eq!(Cluster::parse("kind: Cluster").unwrap_err(), "unknown apiVersion: ");
        let other = Cluster::parse(&HEAD.replace("Cluster", "Node")).unwrap_err();
        assert_eq!(other, "unknown kind Node for apiVersion: kind.x-k8s.io/v1alpha4");
        assert!(Cluster::parse("kind: [").unwrap_err().starts_with("could not determine kind / apiVersion"));
    }

    #[test]
    fn what_has_no_effect_is_said() {
        assert!(Cluster::ordinary().notes().is_empty());
        let cluster =
            parsed("nodes: [{ extraPortMappings: [{ containerPort: 80 }], extraMounts: [{ hostPath: /a }] }]");
        assert_eq!(cluster.unwrap().notes().len(), 2);
    }

    #[test]
    fn features_are_switched_as_far_as_klab_models_them() {
        let read = |text: &str| parsed(text).unwrap().features();
        let (features, notes) = read("featureGates: { EnvFiles: false, KubeletInUserNamespace: true, A: true }\nruntimeConfig: { batch/v1: 'false', api/alpha: 'true' }").unwrap();
        assert_eq!(features.to_string(), "EnvFiles=false,batch/v1=false");
        assert_eq!(
            notes,
            [
                "featureGates A: unrecognized feature gate: A",
                "featureGates KubeletInUserNamespace: klab does not model the feature gate KubeletInUserNamespace",
                "runtimeConfig api/alpha: klab does not serve api/alpha",
            ]
        );
        assert_eq!(
            read("featureGates: { NodeSwap: false }").unwrap_err(),
            "kube-apiserver would end because of featureGates or runtimeConfig: cannot set feature gate NodeSwap to false, \
             feature is locked to true"
        );
        let invalid = "invalid value of api/beta: on, err: strconv.ParseBool: parsing \"on\": invalid syntax";
        assert_eq!(read("runtimeConfig: { api/beta: 'on' }").unwrap_err(), invalid);
    }
}
