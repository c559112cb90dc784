//! Clusters that klab did not make: the embedded cluster of one klab plays that of somebody else for another.

mod az;
mod capture;
mod explain;
mod lab;

use std::path::PathBuf;
use std::process::Output;

use crate::environment::Environment;

/// Somebody's cluster: two pools, pods that find no room, and a learner with rights in one namespace alone.
const SOMEBODYS: &str = r#"
lab = "theirs"

[pool.system]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[pool.extra]
nodes = 1
size = "Standard_B2ms"
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]

[workload.web]
image = "nginx:1.27"
node_selector = { workload = "extra" }

[workload.away]
namespace = "team"
image = "nginx:1.27"
tolerations = ["dedicated=special:NoSchedule"]
node_selector = { workload = "extra" }

[[manifest]]
path = "rights.yaml"

[[check]]
workload = "web"
pending = 1

[[check]]
workload = "away"
running = 1
"#;

/// A learner may read pods and what makes them in `default`; an observer the nodes, too. A maker may do what labs need, and
/// see nothing else.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: reader, namespace: default }
rules:
- { apiGroups: ["", apps], resources: [pods, deployments, replicasets], verbs: [get, list] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: reader, namespace: default }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader }
subjects:
- { apiGroup: rbac.authorization.k8s.io, kind: User, name: learner }
- { apiGroup: rbac.authorization.k8s.io, kind: User, name: observer }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: nodes }
rules:
- { apiGroups: [""], resources: [nodes], verbs: [get, list] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: nodes }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes }
subjects:
- { apiGroup: rbac.authorization.k8s.io, kind: User, name: observer }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: maker }
rules:
- apiGroups: ["", apps, batch, policy, scheduling.k8s.io, storage.k8s.io]
  resources: [nodes, namespaces, pods, services, configmaps, replicationcontrollers, persistentvolumes, persistentvolumeclaims,
    deployments, replicasets, daemonsets, statefulsets, jobs, poddisruptionbudgets, priorityclasses, storageclasses, csinodes]
  verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: maker }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: maker }
subjects:
- { apiGroup: rbac.authorization.k8s.io, kind: User, name: maker }
"#;

/// A cluster that somebody else made, and a klab that knows nothing of it but a kubeconfig.
struct Somebodys {
    /// The klab that plays the cluster.
    theirs: Environment,
    /// The user's.
    own: Environment,
}

impl Somebodys {
    fn new() -> Self {
        let (theirs, own) = (Environment::new(), Environment::new());
        theirs.write("rights.yaml", RIGHTS);
        theirs.write("theirs.toml", SOMEBODYS);
        theirs.succeeds(&["up", "theirs.toml"]);
        let it = Self { theirs, own };
        it.own.write(".kube/config", it.kubeconfig());
        it
    }

    /// The kubeconfig of the cluster's owner.
    fn kubeconfig(&self) -> String {
        self.theirs.succeeds(&["kubeconfig"])
    }

    /// A kubeconfig of somebody else; its context is in a namespace.
    fn kubeconfig_of(&self, user: &str, namespace: &str) -> PathBuf {
        let text = self.kubeconfig().replace("  user:\n", &format!("  user:\n    as: {user}\n"));
        let text = text.replace("  context:\n", &format!("  context:\n    namespace: {namespace}\n"));
        self.own.write(&format!("{user}.kubeconfig"), text)
    }

    /// What the user's klab says, with what varies made even.
    fn klab(&self, arguments: &[&str]) -> String {
        self.shown(&self.own.run(arguments))
    }

    fn shown(&self, output: &Output) -> String {
        let text = self.own.shown(output);
        let pods = regex::Regex::new(r"\b(web|away)-[0-9a-f]+-[a-z0-9]{5}").unwrap();
        let ages = regex::Regex::new(r"for \d+(\.\d+)? m?s").unwrap();
        let nodes = regex::Regex::new(r"aks-([a-z]+)-\d+-vmss00000(\d)").unwrap();
        let text = pods.replace_all(&text, "$1-POD");
        let text = ages.replace_all(&text, "for AGE");
        nodes.replace_all(&text, "$1-$2").into_owned()
    }
}
