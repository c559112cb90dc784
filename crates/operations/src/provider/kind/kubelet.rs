//! The kubelet of a node: its flags, changed in place, and its configuration when it joins.

use serde_json::{Value, json};

/// The file with the flags kubeadm gave the kubelet.
pub(super) const FLAGS_FILE: &str = "/var/lib/kubelet/kubeadm-flags.env";
/// The file kind leaves on every node: several YAML documents, one of them how the node joins.
pub(super) const KUBEADM_FILE: &str = "/kind/kubeadm.conf";

const VARIABLE: &str = "KUBELET_KUBEADM_ARGS=";

/// The text of [`FLAGS_FILE`] with flags set to new values, added where they were not; none if it is not such a file.
pub(super) fn with_flags(text: &str, flags: &[(&str, String)]) -> Option<String> {
    let mut found = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some(arguments) = line.strip_prefix(VARIABLE) else {
            lines.push(line.to_owned());
            continue;
        };
        found = true;
        let mut arguments: Vec<String> =
            arguments.trim().trim_matches('"').split_whitespace().map(str::to_owned).collect();
        for (name, value) in flags {
            let flag = format!("--{name}=");
            arguments.retain(|argument| !argument.starts_with(&flag));
            arguments.push(format!("{flag}{value}"));
        }
        lines.push(format!("{VARIABLE}\"{}\"", arguments.join(" ")));
    }
    found.then(|| lines.join("\n") + "\n")
}

/// How a new node joins: what is different from the node whose configuration is copied.
#[derive(Debug, Clone)]
pub(super) struct Join<'a> {
    /// A bootstrap token that is valid now. It is a secret.
    pub(super) token: &'a str,
    /// The new node's container, part of its provider id. Its name is the container's host name.
    pub(super) container: &'a str,
    /// The cluster.
    pub(super) cluster: &'a str,
    /// Its address in the network of the nodes.
    pub(super) address: &'a str,
    /// The runtime's program, part of the node's provider id.
    pub(super) runtime: &'a str,
    /// Labels that the kubelet gives itself.
    pub(super) labels: Vec<(String, String)>,
    /// Taints it registers with.
    pub(super) taints: Vec<Value>,
    /// Further flags.
    pub(super) flags: Vec<(&'static str, String)>,
    /// Seconds that each step may take, where kubeadm has a setting for it (`v1beta4`).
    pub(super) patience: Option<usize>,
}

/// The configuration with which a new worker joins, made from that of a node that is in the cluster.
///
/// It keeps what kind wrote (API version, endpoint, CRI socket, phases to skip) in the form of the version: arguments are
/// a map before kubeadm's `v1beta4`, a list of names and values from then on.
pub(super) fn join_configuration(of_another: &str, join: &Join<'_>) -> Option<String> {
    let mut document = documents(of_another).into_iter().find(|document| document["kind"] == "JoinConfiguration")?;
    let object = document.as_object_mut()?;
    object.remove("controlPlane");
    object.remove("metadata");
    document["discovery"]["bootstrapToken"]["token"] = join.token.into();
    let labels: Vec<String> = join.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut flags = vec![
        ("node-ip", join.address.to_owned()),
        ("provider-id", format!("kind://{}/{}/{}", join.runtime, join.cluster, join.container)),
        ("node-labels", labels.join(",")),
    ];
    flags.extend(join.flags.iter().cloned());
    let registration = document["nodeRegistration"].as_object_mut()?;
    registration.remove("name");
    registration.insert("taints".to_owned(), join.taints.clone().into());
    let is_list = registration.get("kubeletExtraArgs").is_some_and(Value::is_array);
    let old = registration.remove("kubeletExtraArgs").unwrap_or_default();
    let arguments = if is_list { list_with(&old, &flags) } else { map_with(&old, &flags) };
    registration.insert("kubeletExtraArgs".to_owned(), arguments);
    if let Some(seconds) = join.patience.filter(|_| is_list) {
        for step in ["kubeletHealthCheck", "tlsBootstrap"] {
            document["timeouts"][step] = format!("{seconds}s").into();
        }
    }
    let text = serde_json::to_string_pretty(&document).ok()?;
    Some(text + "\n")
}

fn list_with(old: &Value, flags: &[(&str, String)]) -> Value {
    let named = |argument: &&Value| !flags.iter().any(|(name, _)| argument["name"] == *name);
    let kept = old.as_array().into_iter().flatten().filter(named).cloned();
    let added = flags.iter().map(|(name, value)| json!({ "name": name, "value": value }));
    Value::Array(kept.chain(added).collect())
}

fn map_with(old: &Value, flags: &[(&str, String)]) -> Value {
    let mut arguments = old.as_object().cloned().unwrap_or_default();
    arguments.extend(flags.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))));
    Value::Object(arguments)
}

/// The socket of a node's container runtime, as its joining configuration names it.
pub(super) fn runtime_socket(configuration: &str) -> String {
    let document = documents(configuration).into_iter().find(|document| document["kind"] == "JoinConfiguration");
    let socket = document.and_then(|document| Some(document["nodeRegistration"]["criSocket"].as_str()?.to_owned()));
    socket.map_or_else(
        || "/run/containerd/containerd.sock".to_owned(),
        |socket| socket.trim_start_matches("unix://").to_owned(),
    )
}

/// The documents of a YAML text; one that cannot be read is passed over, as kubeadm passes over kinds it does not know.
fn documents(text: &str) -> Vec<Value> {
    text.split("\n---").filter_map(|document| serde_saphyr::from_str(document).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_replaced_or_added_and_the_rest_is_kept() {
        let text = "KUBELET_KUBEADM_ARGS=\"--max-pods=110 --node-ip=172.18.0.3 --node-labels=a=b,c=d\"\n";
        let flags = [("max-pods", "30".to_owned()), ("system-reserved", "cpu=100m,memory=1Ki".to_owned())];
        assert_eq!(
            with_flags(text, &flags).unwrap(),
            "KUBELET_KUBEADM_ARGS=\"--node-ip=172.18.0.3 --node-labels=a=b,c=d --max-pods=30 \
             --system-reserved=cpu=100m,memory=1Ki\"\n"
        );
        let once = with_flags(text, &flags).unwrap();
        assert_eq!(with_flags(&once, &flags).unwrap(), once, "doing it again changes nothing");
        assert_eq!(with_flags("OTHER=1\n", &flags), None);
    }

    fn join() -> Join<'static> {
        Join {
            token: "new.token",
            container: "klab-x-worker4",
            cluster: "klab-x",
            address: "172.18.0.9",
            runtime: "docker",
            labels: vec![("agentpool".to_owned(), "extra".to_owned()), ("workload".to_owned(), "extra".to_owned())],
            taints: vec![json!({ "key": "dedicated", "value": "x", "effect": "NoSchedule" })],
            flags: vec![("max-pods", "30".to_owned())],
            patience: Some(25),
        }
    }

    const V1BETA4: &str = "# config generated by kind
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: \"klab-x\"
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
controlPlane:
  localAPIEndpoint:
    advertiseAddress: \"172.18.0.2\"
nodeRegistration:
  criSocket: \"unix:///run/containerd/containerd.sock\"
  taints:
  - key: old
    effect: NoSchedule
  kubeletExtraArgs:
  - name: node-ip
    value: \"172.18.0.2\"
  - name: v
    value: \"4\"
discovery:
  bootstrapToken:
    apiServerEndpoint: \"klab-x-control-plane:6443\"
    token: \"abcdef.0123456789abcdef\"
    unsafeSkipCAVerification: true
skipPhases:
  - \"preflight\"
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
";

    #[test]
    fn new_worker_joins_like_another_with_its_own_name_address_labels_and_taints() {
        let text = join_configuration(V1BETA4, &join()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["controlPlane"], Value::Null);
        assert_eq!(runtime_socket(V1BETA4), "/run/containerd/containerd.sock");
        assert_eq!(value["discovery"]["bootstrapToken"]["apiServerEndpoint"], "klab-x-control-plane:6443");
        assert_eq!(value["discovery"]["bootstrapToken"]["token"], "new.token");
        assert_eq!(value["skipPhases"], json!(["preflight"]));
        assert_eq!(value["timeouts"], json!({ "kubeletHealthCheck": "25s", "tlsBootstrap": "25s" }));
        assert_eq!(
            value["nodeRegistration"]["taints"],
            json!([{ "key": "dedicated", "value": "x", "effect": "NoSchedule" }])
        );
        assert_eq!(
            value["nodeRegistration"]["kubeletExtraArgs"],
            json!([
                { "name": "v", "value": "4" },
                { "name": "node-ip", "value": "172.18.0.9" },
                { "name": "provider-id", "value": "kind://docker/klab-x/klab-x-worker4" },
                { "name": "node-labels", "value": "agentpool=extra,workload=extra" },
                { "name": "max-pods", "value": "30" },
            ])
        );
    }

    #[test]
    fn older_kubeadm_gets_arguments_as_a_map_and_no_timeouts() {
        let older = V1BETA4
            .replace("v1beta4", "v1beta3")
            .replace("  - name: node-ip\n    value: \"172.18.0.2\"\n  - name: v\n    value: \"4\"\n", "    v: \"4\"\n");
        let value: Value = serde_json::from_str(&join_configuration(&older, &join()).unwrap()).unwrap();
        assert_eq!(value["nodeRegistration"]["kubeletExtraArgs"]["max-pods"], "30");
        assert_eq!(value["nodeRegistration"]["kubeletExtraArgs"]["v"], "4");
        assert_eq!(value["timeouts"], Value::Null);
        assert_eq!(join_configuration("kind: KubeletConfiguration\n", &join()), None);
    }
}
