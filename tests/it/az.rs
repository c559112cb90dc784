//! `klab az`: the commands of az for labs that are not in Azure, through the binary.

mod beside;
mod later;
mod stopped;
mod upgrades;
mod virtual_machines;

use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::environment::Environment;

const LAB: &str = r#"lab = "small"
kubernetes = "1.35"

[pool.nodepool1]
mode = "system"
nodes = 2
size = "Standard_B2ms"
"#;

const OF_LAB: &str = "-g klab-small --cluster-name klab-small";

fn up() -> Environment {
    let environment = Environment::fast();
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    environment
}

/// The words of a command line, in which `''` is an empty word and `'…'` one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// What az says to a command line.
fn az(environment: &Environment, line: &str) -> String {
    let words = words(line);
    let words: Vec<&str> = std::iter::once("az").chain(words.iter().map(String::as_str)).collect();
    environment.klab(&words)
}

/// The same for several, each after its line.
fn session(environment: &Environment, lines: &[&str]) -> String {
    lines.iter().map(|line| format!("$ az {line}\n{}", az(environment, line))).collect()
}

/// The document of a command that must do what it is asked to.
fn document(environment: &Environment, line: &str) -> serde_json::Value {
    let words = words(line);
    let words: Vec<&str> = std::iter::once("az").chain(words.iter().map(String::as_str)).collect();
    serde_json::from_str(&environment.succeeds(&words)).unwrap()
}

#[test]
fn workshop_about_scheduling_works_as_typed() {
    let environment = up();
    let shown = session(
        &environment,
        &[
            &format!(
                "aks nodepool add {OF_LAB} --name extra --node-count 1 --node-vm-size Standard_B2ms --labels workload=extra -o none"
            ),
            &format!("aks nodepool list {OF_LAB} -o table"),
            &format!("aks nodepool delete {OF_LAB} --name extra --no-wait"),
            &format!("aks nodepool wait {OF_LAB} --name extra --deleted"),
            &format!("aks nodepool list {OF_LAB} --query [].name -o tsv"),
        ],
    );
    assert_snapshot!(shown, @r"
    $ az aks nodepool add -g klab-small --cluster-name klab-small --name extra --node-count 1 --node-vm-size Standard_B2ms --labels workload=extra -o none
    --- status 0
    $ az aks nodepool list -g klab-small --cluster-name klab-small -o table
    --- stdout
    Name       OsType    KubernetesVersion    VmSize         OsDiskSizeGB    Count    MaxPods    ProvisioningState    Mode
    ---------  --------  -------------------  -------------  --------------  -------  ---------  -------------------  ------
    nodepool1  Linux     1.35                 Standard_B2ms  128             2        250        Succeeded            System
    extra      Linux     1.35                 Standard_B2ms  128             1        250        Succeeded            User
    --- status 0
    $ az aks nodepool delete -g klab-small --cluster-name klab-small --name extra --no-wait
    --- status 0
    $ az aks nodepool wait -g klab-small --cluster-name klab-small --name extra --deleted
    --- status 0
    $ az aks nodepool list -g klab-small --cluster-name klab-small --query [].name -o tsv
    --- stdout
    nodepool1
    --- status 0
    ");
}

#[test]
fn workshop_about_node_pools_works_as_typed() {
    let environment = Environment::new();
    let shown = session(
        &environment,
        &[
            "group create -n aks-cluster -l westeurope --query name",
            "aks create -n aks-cluster -g aks-cluster --query 'agentPoolProfiles[].[name, count, mode]' -o tsv",
            "aks nodepool add --resource-group aks-cluster --cluster-name aks-cluster --name appsnodepool --node-count 5 \
             --node-vm-size Standard_B2ms --kubernetes-version 1.20.7 --max-pods 30 --priority Regular --zones 3 --mode User -o none",
            "aks nodepool add --resource-group aks-cluster --cluster-name aks-cluster --name systempool --node-count 3 \
             --node-vm-size Standard_D2s_v4 --kubernetes-version 1.20.7 --max-pods 30 --priority Regular --zones 1, 2, 3 \
             --node-taints CriticalAddonsOnly=true:NoSchedule --mode System -o none",
            "aks nodepool list --cluster-name aks-cluster --resource-group aks-cluster -o table",
            "aks nodepool delete --cluster-name aks-cluster --resource-group aks-cluster --name agentpool",
            "aks nodepool delete --cluster-name aks-cluster --resource-group aks-cluster --name nodepool1",
            "aks upgrade –name aks-cluster --resource-group aks-cluster --control-plane-only --yes -o none",
            "aks nodepool list --cluster-name aks-cluster -g aks-cluster --query '[].{Zones:join(`,`, availabilityZones), Name:name}' -o table",
        ],
    );
    assert_snapshot!(shown, @r#"
    $ az group create -n aks-cluster -l westeurope --query name
    --- stdout
    "aks-cluster"
    --- status 0
    $ az aks create -n aks-cluster -g aks-cluster --query 'agentPoolProfiles[].[name, count, mode]' -o tsv
    --- stdout
    nodepool1	3	System
    --- status 0
    $ az aks nodepool add --resource-group aks-cluster --cluster-name aks-cluster --name appsnodepool --node-count 5 --node-vm-size Standard_B2ms --kubernetes-version 1.20.7 --max-pods 30 --priority Regular --zones 3 --mode User -o none
    --- stderr
    WARNING: Kubernetes 1.20.7 is not offered any more (oldest: 1.33). The pool gets the version of the cluster, 1.36.2; AKS would refuse it.
    --- status 0
    $ az aks nodepool add --resource-group aks-cluster --cluster-name aks-cluster --name systempool --node-count 3 --node-vm-size Standard_D2s_v4 --kubernetes-version 1.20.7 --max-pods 30 --priority Regular --zones 1, 2, 3 --node-taints CriticalAddonsOnly=true:NoSchedule --mode System -o none
    --- stderr
    WARNING: Kubernetes 1.20.7 is not offered any more (oldest: 1.33). The pool gets the version of the cluster, 1.36.2; AKS would refuse it.
    --- status 0
    $ az aks nodepool list --cluster-name aks-cluster --resource-group aks-cluster -o table
    --- stdout
    Name          OsType    KubernetesVersion    VmSize           OsDiskSizeGB    Count    MaxPods    ProvisioningState    Mode
    ------------  --------  -------------------  ---------------  --------------  -------  ---------  -------------------  ------
    nodepool1     Linux     1.36.2               Standard_DS2_v2  128             3        250        Succeeded            System
    appsnodepool  Linux     1.36.2               Standard_B2ms    128             5        30         Succeeded            User
    systempool    Linux     1.36.2               Standard_D2s_v4  128             3        30         Succeeded            System
    --- status 0
    $ az aks nodepool delete --cluster-name aks-cluster --resource-group aks-cluster --name agentpool
    --- stderr
    ERROR: Node pool agentpool doesnt exist, use 'aks nodepool list' to get current node pool list
    The cluster's pools are: nodepool1, appsnodepool, systempool.
    --- status 1
    $ az aks nodepool delete --cluster-name aks-cluster --resource-group aks-cluster --name nodepool1
    --- status 0
    $ az aks upgrade –name aks-cluster --resource-group aks-cluster --control-plane-only --yes -o none
    --- stderr
    WARNING: '–name' begins with a dash that no keyboard has; it was read as '--name'.
    WARNING: The cluster is already on version 1.36.2 and is not in a failed state. No operations will occur when upgrading to the same version if the cluster is not in a failed state.
    --- status 0
    $ az aks nodepool list --cluster-name aks-cluster -g aks-cluster --query '[].{Zones:join(`,`, availabilityZones), Name:name}' -o table
    --- stdout
    Zones    Name
    -------  ------------
    3        appsnodepool
    1,2,3    systempool
    --- status 0
    "#);
    let env = environment.succeeds(&["env", "aks-cluster"]);
    assert!(env.contains("RES_GROUP=aks-cluster\n") && env.contains("AKS_NAME=aks-cluster\n"), "{env}");
    assert_snapshot!(session(&environment, &["group delete -n aks-cluster", "group delete -n aks-cluster --yes", "group list"]), @r"
    $ az group delete -n aks-cluster
    --- stderr
    WARNING: Unable to prompt for confirmation as no tty available. Use --yes.
    ERROR: Operation cancelled.
    --- status 1
    $ az group delete -n aks-cluster --yes
    --- status 0
    $ az group list
    --- stdout
    []
    --- status 0
    ");
    environment.nothing_is_left();
}

#[test]
fn pools_are_changed_as_az_changes_them() {
    let environment = up();
    let pool = |flags: &str| format!("{flags} {OF_LAB} -n extra");
    document(
        &environment,
        &pool("aks nodepool add -c 2 --labels a=b --node-taints k=v:NoSchedule --max-surge 33% --tags team=one"),
    );
    for (flags, query, expected) in [
        ("scale -c 3", "count", "3"),
        ("update --labels c=d e=f", "nodeLabels", r#"{"c":"d","e":"f"}"#),
        ("update --node-taints ''", "nodeTaints", "null"),
        ("update -e --min-count 1 --max-count 5", "[enableAutoScaling, minCount, maxCount, count]", "[true,1,5,3]"),
        ("update -u --min-count 4 --max-count 6", "[minCount, maxCount, count]", "[4,6,4]"),
        ("update -d", "[enableAutoScaling, minCount, count]", "[false,null,4]"),
        ("update --mode System", "mode", r#""System""#),
        (
            "update --mode User --max-surge 50%",
            "[mode, upgradeSettings.maxSurge, tags.team]",
            r#"["User","50%","one"]"#,
        ),
        ("stop", "[count, powerState.code]", r#"[4,"Stopped"]"#),
        ("start", "[count, powerState.code]", r#"[4,"Running"]"#),
        ("upgrade -k 1.34 --yes", "currentOrchestratorVersion", ""),
        ("show", "[osType, osSku, vmSize, maxPods]", r#"["Linux","Ubuntu","Standard_DS2_v2",250]"#),
    ] {
        let shown = az(&environment, &format!("{} --query '{query}'", pool(&format!("aks nodepool {flags}"))));
        let plain: String =
            shown.replace("--- stdout\n", "").replace("--- status 0\n", "").split_whitespace().collect();
        if expected.is_empty() {
            assert!(
                shown.contains("(OperationNotAllowed) Upgrading Kubernetes version 1.35.0 to 1.34.0 is not allowed"),
                "{shown}"
            );
        } else {
            assert_eq!(plain, expected, "{flags}: {shown}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a row for each refusal")]
fn what_aks_would_refuse_is_refused_in_its_words() {
    let environment = up();
    let of = |flags: &str| format!("aks nodepool {flags} {OF_LAB}");
    let shown = session(
        &environment,
        &[
            &of("add -n nodepool1"),
            &of("add -n toolongpoolname"),
            &of("add -n Bad"),
            &of("add -n new --node-taints dedicated:NoSchedule"),
            &of("add -n new --labels kubernetes.azure.com/x=y"),
            &of("add -n new --zones 4"),
            &of("add -n new --max-pods 5"),
            &of("add -n new --mode System --max-pods 20"),
            &of("add -n new --mode System --priority Spot"),
            &of("add -n new -s Standard_B2mss"),
            &of("add -n new -k 1.36"),
            &of("add -n new -e --min-count 5 --max-count 9"),
            &of("add -n new --spot-max-price 0.1"),
            &of("delete -n nodepool1"),
            &of("delete -n nope"),
            &of("update -n nodepool1 --mode User"),
            &of("scale -n nodepool1 -c 2"),
            &of("scale -n nodepool1 -c 0"),
            &of("stop -n nodepool1"),
            &of("show -n nope"),
            "aks show -g klab-small -n nope",
            "aks show -g nope -n nope",
            "aks upgrade -g klab-small -n klab-small -k 1.37 --yes",
            "aks update -g klab-small -n klab-small --cluster-autoscaler-profile scan-interval=soon",
            "aks stop -g klab-small -n klab-small",
            "aks create -g klab-small -n klab-small",
            "group create -n klab-small -l eastus",
            "account set -s mine",
        ],
    );
    assert_snapshot!(shown, @r#"
    $ az aks nodepool add -n nodepool1 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: Node pool nodepool1 already exists, please try a different name, use 'aks nodepool list' to get current list of node pool
    --- status 1
    $ az aks nodepool add -n toolongpoolname -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: --nodepool-name can contain at most 12 characters
    --- status 1
    $ az aks nodepool add -n Bad -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (InvalidParameter) The value of parameter agentPoolProfile.name is invalid. Please see https://aka.ms/aks-naming-rules for more details.
    Code: InvalidParameter
    Message: The value of parameter agentPoolProfile.name is invalid. Please see https://aka.ms/aks-naming-rules for more details.
    A pool's name has lower-case letters and digits, and begins with a letter.
    --- status 1
    $ az aks nodepool add -n new --node-taints dedicated:NoSchedule -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: Invalid node taint: dedicated:NoSchedule
    A taint of az is KEY=VALUE:EFFECT; the effects are NoSchedule, PreferNoSchedule and NoExecute.
    --- status 1
    $ az aks nodepool add -n new --labels kubernetes.azure.com/x=y -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (InvalidParameter) Label kubernetes.azure.com/x is invalid: the prefix kubernetes.azure.com/ is reserved for use by AKS and cannot be used for any node label.
    Code: InvalidParameter
    Message: Label kubernetes.azure.com/x is invalid: the prefix kubernetes.azure.com/ is reserved for use by AKS and cannot be used for any node label.
    --- status 1
    $ az aks nodepool add -n new --zones 4 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (AvailabilityZoneNotSupported) The zone(s) '4' for resource 'agentPoolProfile' is not supported. The supported zones for location 'westeurope' are '1,2,3'
    Code: AvailabilityZoneNotSupported
    Message: The zone(s) '4' for resource 'agentPoolProfile' is not supported. The supported zones for location 'westeurope' are '1,2,3'
    --- status 1
    $ az aks nodepool add -n new --max-pods 5 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (InvalidParameter) The value of parameter agentPoolProfile.maxPods is invalid. It must be between 10 and 250, and is 5.
    Code: InvalidParameter
    Message: The value of parameter agentPoolProfile.maxPods is invalid. It must be between 10 and 250, and is 5.
    --- status 1
    $ az aks nodepool add -n new --mode System --max-pods 20 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (InvalidParameter) The value of parameter agentPoolProfile.maxPods is invalid. It must be between 30 and 250, and is 20.
    Code: InvalidParameter
    Message: The value of parameter agentPoolProfile.maxPods is invalid. It must be between 30 and 250, and is 20.
    --- status 1
    $ az aks nodepool add -n new --mode System --priority Spot -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (BadRequest) pool `new` cannot be a system pool: a system pool is never spot
    Code: BadRequest
    Message: pool `new` cannot be a system pool: a system pool is never spot
    --- status 1
    $ az aks nodepool add -n new -s Standard_B2mss -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (BadRequest) The VM size of Standard_B2mss is not allowed in your subscription in location 'westeurope'. The available VM sizes are 'Standard_B2ms,Standard_B2s,Standard_B20ms,Standard_B12ms,Standard_B1ms'
    Code: BadRequest
    Message: The VM size of Standard_B2mss is not allowed in your subscription in location 'westeurope'. The available VM sizes are 'Standard_B2ms,Standard_B2s,Standard_B20ms,Standard_B12ms,Standard_B1ms'
    az vm list-sizes -l westeurope -o table lists those that klab knows.
    --- status 1
    $ az aks nodepool add -n new -k 1.36 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (NodePoolMcVersionIncompatible) Node pool version 1.36.2 and control plane version 1.35.0 are incompatible. Minor version of node pool version 36 is bigger than control plane version 35. For more information, please check https://aka.ms/aks/UpgradeVersionRules
    Code: NodePoolMcVersionIncompatible
    Message: Node pool version 1.36.2 and control plane version 1.35.0 are incompatible. Minor version of node pool version 36 is bigger than control plane version 35. For more information, please check https://aka.ms/aks/UpgradeVersionRules
    --- status 1
    $ az aks nodepool add -n new -e --min-count 5 --max-count 9 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: node-count is not in the range of min-count and max-count
    --- status 1
    $ az aks nodepool add -n new --spot-max-price 0.1 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: --spot_max_price can only be set when --priority is Spot
    --- status 1
    $ az aks nodepool delete -n nodepool1 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (BadRequest) There has to be at least one system agent pool.
    Code: BadRequest
    Message: There has to be at least one system agent pool.
    Add another one first: az aks nodepool add … --mode System
    --- status 1
    $ az aks nodepool delete -n nope -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: Node pool nope doesnt exist, use 'aks nodepool list' to get current node pool list
    The cluster's pools are: nodepool1.
    --- status 1
    $ az aks nodepool update -n nodepool1 --mode User -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (BadRequest) There has to be at least one system agent pool.
    Code: BadRequest
    Message: There has to be at least one system agent pool.
    Add another one first: az aks nodepool add … --mode System
    --- status 1
    $ az aks nodepool scale -n nodepool1 -c 2 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: The new node count is the same as the current node count.
    --- status 1
    $ az aks nodepool scale -n nodepool1 -c 0 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (InvalidParameter) The value of parameter agentPoolProfile.count is invalid. A pool of mode System has from 1 to 1000 nodes.
    Code: InvalidParameter
    Message: The value of parameter agentPoolProfile.count is invalid. A pool of mode System has from 1 to 1000 nodes.
    --- status 1
    $ az aks nodepool stop -n nodepool1 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (OperationNotAllowed) System node pools can't be stopped.
    Code: OperationNotAllowed
    Message: System node pools can't be stopped.
    --- status 1
    $ az aks nodepool show -n nope -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (NotFound) Could not find the agent pool nope.
    Code: NotFound
    Message: Could not find the agent pool nope.
    --- status 3
    $ az aks show -g klab-small -n nope
    --- stderr
    ERROR: (ResourceNotFound) The Resource 'Microsoft.ContainerService/managedClusters/nope' under resource group 'klab-small' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix
    Code: ResourceNotFound
    Message: The Resource 'Microsoft.ContainerService/managedClusters/nope' under resource group 'klab-small' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix
    klab's clusters are: klab-small in resource group klab-small.
    --- status 3
    $ az aks show -g nope -n nope
    --- stderr
    ERROR: (ResourceGroupNotFound) Resource group 'nope' could not be found.
    Code: ResourceGroupNotFound
    Message: Resource group 'nope' could not be found.
    klab's clusters are: klab-small in resource group klab-small.
    --- status 3
    $ az aks upgrade -g klab-small -n klab-small -k 1.37 --yes
    --- stderr
    ERROR: (K8sVersionNotSupported) Managed cluster klab-small is on version 1.37, which is not supported in this region. Please use [az aks get-versions] command to get the supported version list in this region. For more information, please check https://aka.ms/supported-version-list
    Code: K8sVersionNotSupported
    Message: Managed cluster klab-small is on version 1.37, which is not supported in this region. Please use [az aks get-versions] command to get the supported version list in this region. For more information, please check https://aka.ms/supported-version-list
    klab offers 1.33.0, 1.34.0, 1.35.0, 1.36.2.
    --- status 1
    $ az aks update -g klab-small -n klab-small --cluster-autoscaler-profile scan-interval=soon
    --- stderr
    ERROR: (InvalidParameter) Value 'soon' of autoScalerProfile.scan-interval is invalid. Expected: a whole number of seconds, such as 10s.
    Code: InvalidParameter
    Message: Value 'soon' of autoScalerProfile.scan-interval is invalid. Expected: a whole number of seconds, such as 10s.
    --- status 1
    $ az aks stop -g klab-small -n klab-small
    --- stderr
    ERROR: Cluster 'klab-small' has no machines that could be stopped or started: it is an embedded one.
    'az aks nodepool stop' takes the nodes of a pool away and keeps their number.
    Labs on kind can be stopped.
    --- status 1
    $ az aks create -g klab-small -n klab-small
    --- stderr
    ERROR: The cluster 'klab-small' under resource group 'klab-small' already exists. Please use command 'az aks update' to update the existing cluster, or select a different cluster name to create a new cluster.
    --- status 1
    $ az group create -n klab-small -l eastus
    --- stderr
    ERROR: (InvalidResourceGroupLocation) Invalid resource group location 'eastus'. The Resource group already exists in location 'westeurope'.
    Code: InvalidResourceGroupLocation
    Message: Invalid resource group location 'eastus'. The Resource group already exists in location 'westeurope'.
    --- status 1
    $ az account set -s mine
    --- stderr
    ERROR: The subscription of 'mine' doesn't exist in cloud 'AzureCloud'.
    klab's only subscription is 'klab', 00000000-0000-0000-0000-000000000000.
    --- status 1
    "#);
    assert_eq!(document(&environment, &format!("aks nodepool list {OF_LAB}")).as_array().unwrap().len(), 1);
}

#[test]
fn what_az_cannot_read_it_says_and_klab_lists_what_it_knows() {
    let environment = Environment::new();
    let shown = session(
        &environment,
        &[
            "aks nodepool ad",
            "aks nodepool list -g x",
            "aks nodepool list -g x --cluster-name c -o tabel",
            "aks nodepool list -g x --cluster-name c --query [",
            "aks nodepool list -g x --cluster-name c --subscription other",
            "aks show --help",
        ],
    );
    assert_snapshot!(shown, @r"
    $ az aks nodepool ad
    --- stderr
    ERROR: 'ad' is misspelled or not recognized by the system.
    Did you mean 'add' ?
    klab's az, for labs that are not in Azure, knows: aks nodepool add, aks nodepool delete, aks nodepool get-rollback-versions, aks nodepool get-upgrades, aks nodepool list, aks nodepool manual-scale add, aks nodepool manual-scale delete, aks nodepool manual-scale update, aks nodepool operation-abort, aks nodepool rollback, aks nodepool scale, aks nodepool show, aks nodepool start, aks nodepool stop, aks nodepool update, aks nodepool upgrade, aks nodepool wait.
    --- status 2
    $ az aks nodepool list -g x
    --- stderr
    ERROR: the following arguments are required: --cluster-name
    --- status 2
    $ az aks nodepool list -g x --cluster-name c -o tabel
    --- stderr
    ERROR: az aks nodepool list: 'tabel' is not a valid value for '--output'. Allowed values: json, jsonc, yaml, yamlc, table, tsv, none.
    Did you mean 'table' ?
    --- status 2
    $ az aks nodepool list -g x --cluster-name c --query [
    --- stderr
    ERROR: argument --query: invalid jmespath_type value: '['
    To learn more about --query, please visit: 'https://learn.microsoft.com/cli/azure/query-azure-cli'
    --- status 2
    $ az aks nodepool list -g x --cluster-name c --subscription other
    --- stderr
    WARNING: Subscription 'other' not recognized.
    ERROR: Subscription 'other' not found. Check the spelling and casing and try again.
    --- status 1
    $ az aks show --help
    --- stdout

    Command
        az aks show : Show the details of a cluster.

    Arguments
        --name -n TEXT [Required]
        --resource-group -g TEXT [Required]

    Global Arguments
        --debug
        --help -h
        --only-show-errors
        --output -o TEXT : Allowed values: json, jsonc, yaml, yamlc, table, tsv, none.
        --query TEXT
        --subscription TEXT
        --verbose

    Flags of az that say nothing about a lab outside of Azure are taken, with a warning.
    --- status 0
    ");
}

#[test]
fn control_plane_goes_first_and_pools_follow() {
    let environment = up();
    let cluster = "-g klab-small -n klab-small";
    let versions = || {
        let cluster = document(&environment, &format!("aks show {cluster}"));
        let pool = cluster["agentPoolProfiles"][0]["currentOrchestratorVersion"].clone();
        let kubeconfig = environment.home().join("labs/small/kubeconfig");
        let answered =
            Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(["get", "--raw", "/version"]).output();
        let server: serde_json::Value =
            answered.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
        let current = cluster["currentKubernetesVersion"].as_str().unwrap();
        assert!(server.is_null() || server["gitVersion"] == format!("v{current}"), "{server}");
        format!("{current} {pool}").replace('"', "")
    };
    assert_eq!(versions(), "1.35.0 1.35.0");
    document(&environment, &format!("aks upgrade {cluster} -k 1.36 --control-plane-only --yes"));
    assert_eq!(versions(), "1.36.2 1.35.0");
    let blue = document(&environment, &format!("aks nodepool add {OF_LAB} -n blue -k 1.36 -c 1"));
    assert_eq!(blue["currentOrchestratorVersion"], "1.36.2");
    document(&environment, &format!("aks nodepool upgrade {OF_LAB} -n nodepool1 -k 1.36 --yes"));
    assert_eq!(versions(), "1.36.2 1.36.2");
    environment.succeeds(&["up", "small.toml", "--no-wait"]);
    assert_eq!(versions(), "1.35.0 1.35.0");
}

/// AKS's settings stay with the pool; a budget that can never allow an upgrade is refused, and one that is asked for later goes on.
#[test]
fn pools_are_upgraded_with_their_settings() {
    let environment = up();
    document(&environment, "aks upgrade -g klab-small -n klab-small -k 1.36 --control-plane-only --yes");
    let settings = "--max-surge 50% --drain-timeout 10 --undrainable-node-behavior Cordon";
    let updated = document(&environment, &format!("aks nodepool update {OF_LAB} -n nodepool1 {settings}"));
    assert_eq!(
        updated["upgradeSettings"],
        serde_json::json!({
            "drainTimeoutInMinutes": 10, "maxSurge": "50%", "maxUnavailable": "0", "nodeSoakDurationInMinutes": null,
            "undrainableNodeBehavior": "Cordon",
        })
    );
    let refused = az(&environment, &format!("aks nodepool update {OF_LAB} -n nodepool1 --max-surge 0"));
    assert!(refused.contains("(BadRequest)") && refused.contains("`max_unavailable` must be 1 or more"), "{refused}");
    let upgrade = format!("aks nodepool upgrade {OF_LAB} -n nodepool1 -k 1.36 --yes");
    let kubeconfig = environment.home().join("labs/small/kubeconfig");
    let kubectl = |arguments: &[&str]| {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .output()
            .is_ok_and(|it| it.status.success())
    };
    if kubectl(&["create", "poddisruptionbudget", "none", "--selector=app=none", "--max-unavailable=0"]) {
        let refused = az(&environment, &upgrade);
        let words = "ERROR: (UnsatisfiablePDB) Upgrade is blocked due to invalid Pod Disruption Budgets (PDBs).";
        let list = "* PDB default/none has maxunavailble == 0 can't proceed with put operation";
        assert!(
            refused.contains(words) && refused.contains(list) && refused.contains("Code: UnsatisfiablePDB"),
            "{refused}"
        );
        assert!(kubectl(&["delete", "poddisruptionbudget", "none"]));
    }
    document(&environment, &upgrade);
    let events = environment.succeeds(&[
        "az",
        "aks",
        "nodepool",
        "show",
        "-g",
        "klab-small",
        "--cluster-name",
        "klab-small",
        "-n",
        "nodepool1",
    ]);
    assert!(events.contains("\"provisioningState\": \"Succeeded\""), "{events}");
    az(&environment, &format!("aks nodepool add {OF_LAB} -n old -k 1.35 -c 1"));
    az(&environment, &format!("aks nodepool upgrade {OF_LAB} -n old -k 1.36 --yes --no-wait"));
    let state = document(&environment, &format!("aks nodepool show {OF_LAB} -n old"))["provisioningState"].clone();
    assert!(state == "Upgrading" || state == "Succeeded", "{state}");
    az(&environment, &format!("aks nodepool wait {OF_LAB} -n old --updated"));
    let upgraded = document(&environment, &format!("aks nodepool show {OF_LAB} -n old"));
    assert_eq!(upgraded["currentOrchestratorVersion"], "1.36.2");
}

#[test]
fn what_was_configured_stands_in_and_the_autoscaler_is_told() {
    let environment = up();
    let environment = &environment;
    az(environment, "config set defaults.group=klab-small core.output=tsv");
    assert_snapshot!(session(environment, &["aks show -n klab-small --query location", "config get defaults.group -o json"]), @r#"
    $ az aks show -n klab-small --query location
    --- stdout
    westeurope
    --- status 0
    $ az config get defaults.group -o json
    --- stdout
    {
      "name": "group",
      "source": "[FOLDER]/home/azure.json",
      "value": "klab-small"
    }
    --- status 0
    "#);
    az(environment, "config unset core.output");
    let profile = document(
        environment,
        "aks update -n klab-small --cluster-autoscaler-profile scan-interval=30s scale-down-unneeded-time=1m --query autoScalerProfile",
    );
    assert_eq!((&profile["scanInterval"], &profile["expander"]), (&"30s".into(), &"random".into()));
    let profile =
        document(environment, "aks update -n klab-small --ca-profile scan-interval= --query autoScalerProfile");
    assert_eq!((&profile["scanInterval"], &profile["scaleDownUnneededTime"]), (&"10s".into(), &"1m".into()));
    let profile = document(environment, "aks update -n klab-small --ca-profile '' --query autoScalerProfile");
    assert!(profile.is_null(), "{profile}");
}

#[test]
fn credentials_are_merged_where_kubectl_reads_them() {
    let environment = up();
    let cluster = "-g klab-small -n klab-small";
    assert_snapshot!(az(&environment, &format!("aks get-credentials {cluster}")), @r"
    --- stderr
    ERROR: KUBECONFIG is not set, and klab's az does not write into ~/.kube/config unasked.
    'klab shell small' opens a shell in which kubectl and az are the lab's.
    '--file ~/.kube/config' writes there all the same.
    --- status 1
    ");
    environment.write(
        "config",
        "apiVersion: v1\nkind: Config\nclusters: []\nusers: null\ncontexts: []\ncurrent-context: ''\n",
    );
    assert_snapshot!(az(&environment, &format!("aks get-credentials {cluster} -f config --context mine")), @r#"
    --- stderr
    WARNING: Merged "mine" as current context in config
    --- status 0
    "#);
    let text = std::fs::read_to_string(environment.folder().join("config")).unwrap();
    assert!(text.contains("current-context: mine") && text.contains("clusterUser_klab-small_klab-small"), "{text}");
    let own = environment.home().join("labs/small/kubeconfig");
    let before = std::fs::read_to_string(&own).unwrap();
    let output = environment
        .command(&["az", "aks", "get-credentials", "-g", "klab-small", "-n", "klab-small"])
        .env("KUBECONFIG", &own)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(std::fs::read_to_string(&own).unwrap(), before);
}

#[test]
fn az_of_the_labs_shell_is_klab() {
    let environment = up();
    let mut shell = environment
        .command(&["shell", "small"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let typed = b"az aks nodepool list -g $RES_GROUP --cluster-name $AKS_NAME --query [].name -o tsv\n";
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), typed).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "nodepool1\n");
    let link = environment.home().join("labs/small/shell/bin/az");
    let version =
        Command::new(link).arg("--version").env_clear().env("KLAB_HOME", environment.home()).output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("azure-cli 2.91.0 (klab"));
}
