//! The commands of az that klab answers: a row each, with its flags and its table.

use crate::flag::{Command, Flag, Moot};
use crate::format::Transformer;
use crate::tables;

/// A row of the table of commands.
#[derive(Debug)]
pub struct Row {
    /// The command.
    pub command: Command,
    /// How `-o table` shows its answer, where that is not column by column.
    pub table: Option<Transformer>,
}

const fn row(words: &'static str, about: &'static str, flags: &'static [&'static [Flag]]) -> Row {
    Row { command: Command::new(words, about, flags), table: None }
}

impl Row {
    const fn shown(self, table: Transformer) -> Self {
        Self { table: Some(table), ..self }
    }

    const fn with_moot(self, moot: Moot) -> Self {
        Self { command: self.command.with_moot(moot), ..self }
    }

    const fn with_operands(self, operands: &'static str) -> Self {
        Self { command: self.command.with_operands(operands), ..self }
    }
}

const GROUP: &[Flag] = &[Flag::word("--resource-group -g").required().configured("group")];
const ANY_GROUP: &[Flag] = &[Flag::word("--resource-group -g").configured("group")];
const OWN_NAME: &[Flag] = &[Flag::word("--name -n").required()];
const GROUP_NAME: &[Flag] = &[Flag::word("--name -n --resource-group -g").required().configured("group")];
const CLUSTER: &[Flag] = &[Flag::word("--cluster-name").required()];
const POOL: &[Flag] = &[Flag::word("--nodepool-name --name -n").required()];
const NO_WAIT: &[Flag] = &[Flag::switch("--no-wait")];
const YES: &[Flag] = &[Flag::switch("--yes -y")];
const VERSION: &[Flag] = &[Flag::word("--kubernetes-version -k")];
const COUNT: &[Flag] = &[Flag::number("--node-count -c").or("3")];
const TAGS: &[Flag] = &[Flag::any_words("--tags")];
const BOUNDS: &[Flag] =
    &[Flag::switch("--enable-cluster-autoscaler -e"), Flag::number("--min-count"), Flag::number("--max-count")];
const LESS_AUTOSCALER: &[Flag] =
    &[Flag::switch("--disable-cluster-autoscaler -d"), Flag::switch("--update-cluster-autoscaler -u")];
const AUTOSCALER_PROFILE: &[Flag] = &[Flag::words("--cluster-autoscaler-profile --ca-profile")];
const UPGRADE: &[Flag] = &[
    Flag::word("--max-surge"),
    Flag::word("--max-unavailable"),
    Flag::number("--drain-timeout"),
    Flag::number("--node-soak-duration"),
    Flag::word("--undrainable-node-behavior").one_of(&["Cordon", "Schedule"]),
    Flag::word("--upgrade-strategy").one_of(&["BlueGreen", "Rolling"]),
    Flag::word("--drain-batch-size"),
    Flag::number("--drain-timeout-bg"),
    Flag::number("--batch-soak-duration"),
    Flag::number("--final-soak-duration"),
    Flag::word("--max-blocked-nodes"),
];
const MACHINE: &[Flag] = &[
    Flag::word("--node-vm-size -s"),
    Flag::number("--max-pods -m"),
    Flag::words("--zones -z"),
    Flag::word("--vm-set-type"),
    Flag::word("--vm-sizes"),
    Flag::word("--os-sku").one_of(&[
        "AzureLinux",
        "AzureLinux3",
        "AzureContainerLinux",
        "Ubuntu",
        "CBLMariner",
        "Mariner",
        "Ubuntu2204",
        "Ubuntu2404",
        "Windows2019",
        "Windows2022",
        "Windows2025",
        "WindowsAnnual",
    ]),
];
const MODE: [&str; 3] = ["System", "User", "Gateway"];
const LOCATION: &[Flag] = &[Flag::word("--location -l").required().configured("location")];
const ANY_LOCATION: &[Flag] = &[Flag::word("--location -l").configured("location")];
const TIER: &[Flag] = &[Flag::word("--tier").one_of(&["free", "standard", "premium"])];
const WAIT: &[Flag] = &[
    Flag::switch("--created"),
    Flag::switch("--updated"),
    Flag::switch("--deleted"),
    Flag::switch("--exists"),
    Flag::word("--custom"),
    Flag::number("--interval").or("30"),
    Flag::number("--timeout").or("3600"),
];

/// What every guide types, and what asks for nothing that a lab could be without: no warning is due.
const UNTOLD: &[Flag] = &[
    Flag::switch("--generate-ssh-keys"),
    Flag::switch("--no-ssh-key -x"),
    Flag::word("--ssh-key-value"),
    Flag::switch("--enable-managed-identity"),
    Flag::word("--network-plugin-mode").one_of(&["overlay"]),
];

/// What a pool or a cluster of Azure has beyond nodes: networks, disks, security.
const MOOT_OF_POOLS: Moot = Moot {
    words: "--aks-custom-headers --crg-id --gateway-prefix-size --gpu-driver --gpu-instance-profile --host-group-id --if-match \
            --if-none-match --kubelet-config --linux-os-config --localdns-config --message-of-the-day \
            --node-osdisk-size --node-osdisk-type --node-public-ip-prefix-id --pod-ip-allocation-mode --pod-subnet-id --ppg \
            --scale-down-mode --snapshot-id --ssh-access --vnet-subnet-id --workload-runtime",
    switches: "--disable-artifact-streaming --disable-fips-image --disable-secure-boot --disable-vtpm --disable-windows-outbound-nat \
            --enable-artifact-streaming --enable-encryption-at-host --enable-fips-image --enable-managed-dranet \
            --enable-node-public-ip --enable-secure-boot --enable-ultra-ssd --enable-vtpm --skip-gpu-driver-install",
    lists: "--allowed-host-ports --asg-ids --node-public-ip-tags",
};

const MOOT_OF_CLUSTERS: Moot = Moot {
    words: "--aad-admin-group-object-ids --aad-tenant-id --admin-username --aks-custom-headers --api-server-authorized-ip-ranges \
            --appgw-name --appgw-subnet-cidr --assign-identity --assign-kubelet-identity --attach-acr --auto-upgrade-channel \
            --azure-keyvault-kms-key-id --azure-keyvault-kms-key-vault-network-access --azure-keyvault-kms-key-vault-resource-id \
            --azure-monitor-workspace-resource-id --bootstrap-artifact-source --bootstrap-container-registry-resource-id \
            --ca-certs --client-secret --crg-id --custom-ca-trust-certificates --data-collection-settings --defender-config \
            --detach-acr --disk-driver-version --dns-name-prefix --dns-service-ip --docker-bridge-address --edge-zone \
            --enable-addons --fqdn-subdomain --gpu-instance-profile --grafana-resource-id --host-group-id --http-proxy-config \
            --image-cleaner-interval-hours --ip-families --k8s-support-plan --ksm-metric-annotations-allow-list \
            --ksm-metric-labels-allow-list --kubelet-config --linux-os-config --load-balancer-backend-pool-type \
            --load-balancer-idle-timeout --load-balancer-managed-outbound-ip-count --load-balancer-outbound-ip-prefixes \
            --load-balancer-outbound-ips --load-balancer-outbound-ports --load-balancer-sku --message-of-the-day \
            --nat-gateway-idle-timeout --nat-gateway-managed-outbound-ip-count --network-dataplane --network-policy \
            --node-os-upgrade-channel --node-osdisk-size --node-osdisk-type --node-provisioning-default-pools \
            --node-provisioning-mode --node-public-ip-prefix-id --node-resource-group --nodepool-initialization-taints \
            --nrg-lockdown-restriction-level --outbound-type --pod-cidr --pod-cidrs --pod-ip-allocation-mode --pod-subnet-id --ppg \
            --private-dns-zone --revision --rotation-poll-interval --service-cidr --service-cidrs --service-principal --sku \
            --snapshot-id --ssh-access --vnet-subnet-id --windows-admin-password --windows-admin-username \
            --workload-runtime --workspace-resource-id",
    switches: "--disable-acns --disable-ahub --disable-azure-container-storage --disable-azure-monitor-metrics --disable-azure-rbac \
            --disable-blob-driver --disable-cost-analysis --disable-defender --disable-disk-driver --disable-file-driver \
            --disable-force-upgrade --disable-image-cleaner --disable-keda --disable-local-accounts --disable-public-fqdn \
            --disable-rbac --disable-run-command --disable-secret-rotation --disable-snapshot-controller \
            --disable-static-egress-gateway --disable-vpa --disable-workload-identity --enable-aad --enable-acns --enable-ahub \
            --enable-ai-toolchain-operator --enable-app-routing --enable-azure-container-storage --enable-azure-keyvault-kms \
            --enable-azure-monitor-metrics --enable-azure-rbac --enable-azure-service-mesh --enable-blob-driver \
            --enable-cost-analysis --enable-defender --enable-disk-driver --enable-encryption-at-host --enable-file-driver \
            --enable-fips-image --enable-force-upgrade --enable-high-log-scale-mode --enable-image-cleaner --enable-keda \
            --enable-local-accounts --enable-msi-auth-for-monitoring --enable-node-public-ip --enable-oidc-issuer \
            --enable-private-cluster --enable-public-fqdn --enable-secret-rotation --enable-secure-boot --enable-sgxquotehelper \
            --enable-snapshot-controller --enable-static-egress-gateway --enable-syslog --enable-ultra-ssd --enable-vpa \
            --enable-vtpm --enable-windows-gmsa --enable-windows-recording-rules --enable-workload-identity --no-uptime-sla \
            --skip-subnet-role-assignment --uptime-sla",
    lists: "--nodepool-tags",
};

/// All commands, in the order in which they are listed.
pub static ROWS: &[Row] = &[
    row("account list", "Get a list of subscriptions.", &[&[Flag::switch("--all"), Flag::switch("--refresh")]])
        .shown(tables::subscriptions),
    row(
        "account set",
        "Set a subscription to be the current active one.",
        &[&[Flag::word("--subscription --name -s -n").required()]],
    ),
    row("account show", "Get the details of a subscription.", &[&[Flag::word("--subscription --name -s -n")]]),
    row(
        "aks create",
        "Create a cluster: a lab of one system pool.",
        &[
            OWN_NAME,
            GROUP,
            ANY_LOCATION,
            COUNT,
            MACHINE,
            VERSION,
            BOUNDS,
            AUTOSCALER_PROFILE,
            TAGS,
            TIER,
            NO_WAIT,
            YES,
            &[
                Flag::word("--nodepool-name").or("nodepool1"),
                Flag::any_words("--nodepool-labels"),
                Flag::word("--nodepool-taints"),
                Flag::word("--network-plugin").one_of(&["kubenet", "azure", "none"]),
            ],
            UNTOLD,
        ],
    )
    .with_moot(MOOT_OF_CLUSTERS),
    row("aks delete", "Delete a cluster, and its lab.", &[OWN_NAME, GROUP, NO_WAIT, YES]),
    row(
        "aks get-credentials",
        "Get access credentials for a cluster.",
        &[
            OWN_NAME,
            GROUP,
            &[
                Flag::switch("--admin -a"),
                Flag::word("--context"),
                Flag::word("--file -f"),
                Flag::word("--format").one_of(&["azure", "exec"]),
                Flag::switch("--overwrite-existing"),
                Flag::switch("--public-fqdn"),
            ],
        ],
    ),
    row("aks get-upgrades", "Get the upgrade versions available for a cluster.", &[OWN_NAME, GROUP])
        .shown(tables::upgrades),
    row("aks get-versions", "Get the versions available for creating a cluster.", &[LOCATION]).shown(tables::versions),
    row("aks install-cli", "Look whether kubectl is there: klab's az installs nothing.", &[]).with_moot(Moot {
        words: "--client-version --install-location --base-src-url --kubelogin-version --kubelogin-install-location",
        ..Moot::NONE
    }),
    row("aks list", "List clusters: the labs that are up.", &[ANY_GROUP]).shown(tables::clusters),
    row(
        "aks nodepool add",
        "Add a node pool to the cluster.",
        &[
            CLUSTER,
            POOL,
            GROUP,
            COUNT,
            MACHINE,
            VERSION,
            BOUNDS,
            TAGS,
            UPGRADE,
            NO_WAIT,
            &[
                Flag::any_words("--labels"),
                Flag::word("--node-taints"),
                Flag::word("--mode").one_of(&MODE).or("User"),
                Flag::word("--priority").one_of(&["Regular", "Spot"]).or("Regular"),
                Flag::word("--eviction-policy").one_of(&["Delete", "Deallocate"]).or("Delete"),
                Flag::word("--spot-max-price"),
                Flag::word("--os-type"),
            ],
        ],
    )
    .with_moot(MOOT_OF_POOLS),
    row(
        "aks nodepool delete",
        "Delete the node pool.",
        &[CLUSTER, POOL, GROUP, NO_WAIT, &[Flag::switch("--ignore-pdb -i")]],
    )
    .with_moot(Moot { words: "--if-match", ..Moot::NONE }),
    row(
        "aks nodepool get-rollback-versions",
        "Get the versions that a node pool can be rolled back to.",
        &[CLUSTER, POOL, GROUP],
    )
    .shown(tables::rollback_versions),
    row("aks nodepool get-upgrades", "Get the available upgrade versions for a node pool.", &[CLUSTER, POOL, GROUP]),
    row("aks nodepool list", "List node pools in the cluster.", &[CLUSTER, GROUP]).shown(tables::pools),
    row(
        "aks nodepool manual-scale add",
        "Add nodes of another size to a node pool of type VirtualMachines.",
        &[
            CLUSTER,
            POOL,
            GROUP,
            NO_WAIT,
            &[Flag::word("--vm-sizes").required(), Flag::number("--node-count -c").required()],
        ],
    ),
    row(
        "aks nodepool manual-scale delete",
        "Take the nodes of a size away from a node pool of type VirtualMachines.",
        &[CLUSTER, POOL, GROUP, NO_WAIT, YES, &[Flag::word("--current-vm-sizes").required()]],
    ),
    row(
        "aks nodepool manual-scale update",
        "Change the number or the size of nodes of a size in a node pool of type VirtualMachines.",
        &[
            CLUSTER,
            POOL,
            GROUP,
            NO_WAIT,
            &[Flag::word("--current-vm-sizes").required(), Flag::word("--vm-sizes"), Flag::number("--node-count -c")],
        ],
    ),
    row(
        "aks nodepool operation-abort",
        "Abort what goes on with the node pool: here, a blue-green upgrade.",
        &[CLUSTER, POOL, GROUP, NO_WAIT],
    )
    .with_moot(Moot { words: "--aks-custom-headers", ..Moot::NONE }),
    row(
        "aks nodepool rollback",
        "Bring the node pool back to the versions before its last upgrade, within seven days.",
        &[CLUSTER, POOL, GROUP, NO_WAIT],
    )
    .with_moot(Moot { words: "--aks-custom-headers --if-match --if-none-match", ..Moot::NONE }),
    row("aks nodepool scale", "Scale the node pool.", &[CLUSTER, POOL, GROUP, COUNT, NO_WAIT]),
    row("aks nodepool show", "Show the details of a node pool.", &[CLUSTER, POOL, GROUP]).shown(tables::pools),
    row("aks nodepool start", "Start a stopped node pool.", &[CLUSTER, POOL, GROUP, NO_WAIT]),
    row("aks nodepool stop", "Stop a node pool: its nodes go, their number is kept.", &[CLUSTER, POOL, GROUP, NO_WAIT]),
    row(
        "aks nodepool update",
        "Update a node pool: labels, taints, mode, autoscaler, size of its machines.",
        &[
            CLUSTER,
            POOL,
            GROUP,
            BOUNDS,
            LESS_AUTOSCALER,
            TAGS,
            UPGRADE,
            NO_WAIT,
            &[
                Flag::any_words("--labels"),
                Flag::word("--node-taints"),
                Flag::word("--mode").one_of(&MODE),
                Flag::word("--node-vm-size -s"),
                Flag::words("--zones -z"),
                Flag::word("--os-sku").one_of(&["AzureLinux", "AzureLinux3", "Ubuntu", "Ubuntu2204", "Ubuntu2404"]),
            ],
        ],
    )
    .with_moot(MOOT_OF_POOLS),
    row(
        "aks nodepool upgrade",
        "Upgrade the node pool to another Kubernetes version; with surge nodes and drains.",
        &[CLUSTER, POOL, GROUP, VERSION, UPGRADE, NO_WAIT, YES, &[Flag::switch("--node-image-only")]],
    )
    .with_moot(Moot { words: "--aks-custom-headers --if-match --if-none-match --snapshot-id", ..Moot::NONE }),
    row("aks nodepool wait", "Wait until the node pool reaches the requested state.", &[CLUSTER, POOL, GROUP, WAIT]),
    row(
        "aks scale",
        "Scale the node pool of a cluster.",
        &[OWN_NAME, GROUP, NO_WAIT, &[Flag::number("--node-count -c").required(), Flag::word("--nodepool-name")]],
    ),
    row("aks show", "Show the details of a cluster.", &[OWN_NAME, GROUP]).shown(tables::clusters),
    row("aks start", "Start a stopped cluster.", &[OWN_NAME, GROUP, NO_WAIT]),
    row("aks stop", "Stop a cluster's machines.", &[OWN_NAME, GROUP, NO_WAIT]),
    row(
        "aks update",
        "Update a cluster: autoscaler and its profile, labels and taints of all pools, tags.",
        &[
            OWN_NAME,
            GROUP,
            BOUNDS,
            LESS_AUTOSCALER,
            AUTOSCALER_PROFILE,
            TAGS,
            TIER,
            NO_WAIT,
            YES,
            &[Flag::any_words("--nodepool-labels"), Flag::word("--nodepool-taints")],
        ],
    )
    .with_moot(MOOT_OF_CLUSTERS),
    row(
        "aks upgrade",
        "Upgrade a cluster to another Kubernetes version, with its pools or without.",
        &[
            OWN_NAME,
            GROUP,
            VERSION,
            NO_WAIT,
            YES,
            &[Flag::switch("--control-plane-only"), Flag::switch("--node-image-only")],
        ],
    )
    .with_moot(Moot {
        words: "--if-match --if-none-match --k8s-support-plan --tier --upgrade-override-until",
        switches: "--disable-force-upgrade --enable-force-upgrade",
        lists: "",
    }),
    row("aks wait", "Wait until the cluster reaches the requested state.", &[OWN_NAME, GROUP, WAIT]),
    row("config get", "Get a configuration.", &[]).with_operands("KEY"),
    row("config set", "Set a configuration: defaults.group, defaults.location, core.output.", &[])
        .with_operands("KEY=VALUE"),
    row("config unset", "Unset a configuration.", &[]).with_operands("KEY"),
    row(
        "configure",
        "Set defaults.",
        &[&[Flag::words("--defaults -d"), Flag::switch("--list-defaults -l"), Flag::word("--scope")]],
    ),
    row("extension add", "Add an extension: klab's az has none.", EXTENSION),
    row("extension list", "List extensions.", &[]),
    row("extension update", "Update an extension: klab's az has none.", EXTENSION),
    row("group create", "Create a resource group.", &[GROUP_OF_CREATE, LOCATION, TAGS])
        .with_moot(Moot { words: "--managed-by", ..Moot::NONE }),
    row("group delete", "Delete a resource group, and the labs in it.", &[GROUP_NAME, NO_WAIT, YES])
        .with_moot(Moot { words: "--force-deletion-types", ..Moot::NONE }),
    row("group exists", "Check if a resource group exists.", &[GROUP_NAME]),
    row("group list", "List resource groups.", &[&[Flag::word("--tag")]]).shown(tables::groups),
    row("group show", "Get a resource group.", &[GROUP_NAME]),
    row("group wait", "Wait until the resource group reaches the requested state.", &[GROUP_NAME, WAIT]),
    row("login", "Log in: klab's az needs no login.", &[])
        .with_moot(Moot {
            words: "--username -u --password -p --tenant -t",
            switches: "--use-device-code --service-principal --identity",
            lists: "",
        })
        .shown(tables::subscriptions),
    row("logout", "Log out.", &[]),
    row("provider register", "Register a provider.", &[NAMESPACE, &[Flag::switch("--wait")]]),
    row("provider show", "Get a provider.", &[NAMESPACE]),
    row("version", "Show the versions of az and klab.", &[]),
    row("vm list-sizes", "List the sizes that nodes can have.", &[LOCATION]),
];

const GROUP_OF_CREATE: &[Flag] = &[Flag::word("--name -n --resource-group -g").required()];
const EXTENSION: &[&[Flag]] = &[&[
    Flag::word("--name -n").required(),
    Flag::switch("--allow-preview"),
    Flag::switch("--upgrade -U"),
    Flag::switch("--yes -y"),
]];
const NAMESPACE: &[Flag] = &[Flag::word("--namespace -n").required()];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_a_command_of_its_own_with_flags_that_are_told_apart() {
        let mut words = BTreeSet::new();
        for row in ROWS {
            let command = &row.command;
            assert!(words.insert(command.words), "{} twice", command.words);
            let mut names = BTreeSet::new();
            for flag in command.flags.iter().flat_map(|group| group.iter()) {
                assert!(flag.default.is_none_or(|default| flag.choices.is_empty() || flag.choices.contains(&default)));
                flag.each().for_each(|name| assert!(names.insert(name), "{}: {name} twice", command.words));
            }
            let moot = [command.moot.words, command.moot.switches, command.moot.lists];
            for name in moot.iter().flat_map(|names| names.split_whitespace()) {
                assert!(names.insert(name), "{}: {name} twice", command.words);
            }
            assert!(command.about.ends_with('.'), "{}", command.words);
        }
        let sorted: Vec<&str> = words.iter().copied().collect();
        assert_eq!(ROWS.iter().map(|row| row.command.words).collect::<Vec<_>>(), sorted);
    }
}
