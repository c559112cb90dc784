//! The codes of all messages that a user can look up: this table is their record, and no number changes its meaning.

mod page;

pub use page::{Example, Page, page, pages};

macro_rules! codes {
    ($($variant:ident $name:literal $number:literal $exit:literal;)*) => {
        /// One case of a problem. Cases that a user looks up together share a number, and so a page.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = concat!("`", $name, "`")] $variant),*
        }

        impl Code {
            /// All cases, by number.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name of the case: `unknown-key`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The case of a name.
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// The number of its page: 103 for `K0103`.
            pub const fn number(self) -> u16 {
                match self { $(Self::$variant => $number),* }
            }

            /// The exit code of a command that ends with it; 0 for warnings.
            pub const fn exit(self) -> u8 {
                match self { $(Self::$variant => $exit),* }
            }
        }
    };
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "K{:04}", self.number())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// Name, number, exit code. A new case gets a number that is free, or shares the page of its like.
codes! {
    // The text of a lab file.
    Unreadable "unreadable" 101 2;
    NotUtf8 "not-utf8" 101 2;
    TooBigFile "too-big-file" 101 2;
    Empty "empty" 101 2;
    NotToml "not-toml" 102 2;
    UnknownKey "unknown-key" 103 2;
    MissingKey "missing-key" 104 2;
    WrongType "wrong-type" 105 2;
    UnknownValue "unknown-value" 106 2;
    OutOfRange "out-of-range" 107 2;
    KubernetesField "kubernetes-field" 108 2;
    KubernetesType "kubernetes-type" 108 2;
    Template "template" 109 2;
    UnknownVariable "unknown-variable" 110 2;
    WrongVariable "wrong-variable" 110 2;
    MissingVariable "missing-variable" 110 2;
    MissingFile "missing-file" 111 2;
    OutsideFile "outside-file" 111 2;
    LabName "lab-name" 112 2;
    PoolName "pool-name" 112 2;
    Name "name" 112 2;
    Label "label" 113 2;
    Selector "selector" 113 2;
    Taint "taint" 114 2;
    Toleration "toleration" 114 2;
    DuplicateTaint "duplicate-taint" 114 2;
    EmptyTaintValue "empty-taint-value" 114 2;
    Affinity "affinity" 115 2;
    TopologySpread "topology-spread" 115 2;
    Quantity "quantity" 116 2;
    Duration "duration" 117 2;
    Count "count" 117 2;
    Version "version" 117 2;
    Image "image" 117 2;
    Object "object" 117 2;
    Port "port" 117 2;
    Network "network" 117 2;
    Location "location" 117 2;
    Path "path" 117 2;
    CelSyntax "cel-syntax" 118 2;
    ManifestText "manifest-text" 119 2;
    ManifestYaml "manifest-yaml" 119 2;
    ManifestObject "manifest-object" 119 2;

    // The meaning of a lab file.
    NoSystemPool "no-system-pool" 201 2;
    SystemPool "system-pool" 201 2;
    SystemTaint "system-taint" 201 2;
    NodeNames "node-names" 202 2;
    MaxPods "max-pods" 203 2;
    Autoscale "autoscale" 204 2;
    Capacity "capacity" 204 2;
    AutoscalerSetting "autoscaler-setting" 204 2;
    UnusedAutoscaler "unused-autoscaler" 204 2;
    ReservedLabel "reserved-label" 205 2;
    ReservedTaint "reserved-taint" 205 2;
    ReservedWorkloadLabel "reserved-workload-label" 205 2;
    Windows "windows" 206 2;
    NoDevices "no-devices" 206 2;
    NoLoad "no-load" 206 2;
    ForeignNodes "foreign-nodes" 206 2;
    ControlPlane "control-plane" 206 2;
    NotOnKind "not-on-kind" 206 2;
    NoScheduler "no-scheduler" 206 2;
    Devices "devices" 207 2;
    PoolVersion "pool-version" 208 2;
    Zone "zone" 209 2;
    Spot "spot" 210 2;
    Machine "machine" 211 2;
    UnknownSize "unknown-size" 211 2;
    SchedulerConfiguration "scheduler-configuration" 212 2;
    Upgrade "upgrade" 213 2;
    FeatureGate "feature-gate" 214 2;
    RuntimeConfig "runtime-config" 214 2;
    VirtualMachines "virtual-machines" 215 2;
    Unsatisfiable "unsatisfiable" 220 2;
    UnusedToleration "unused-toleration" 221 2;
    UnknownTopology "unknown-topology" 222 2;
    TooLarge "too-large" 223 2;
    OverfullNode "overfull-node" 223 2;
    Limit "limit" 224 2;
    Resource "resource" 225 2;
    UnknownBundle "unknown-bundle" 226 2;
    UnknownClaim "unknown-claim" 226 2;
    StorageClass "storage-class" 226 2;
    PriorityClass "priority-class" 226 2;
    NotForKind "not-for-kind" 227 2;
    Manifest "manifest" 228 2;
    DuplicateObject "duplicate-object" 228 2;
    DuplicateManifest "duplicate-manifest" 228 2;
    TooMany "too-many" 229 2;
    RefusedObject "refused-object" 230 2;
    UnknownWorkload "unknown-workload" 240 2;
    UnknownPool "unknown-pool" 240 2;
    UnmatchedNodes "unmatched-nodes" 241 2;
    UnmatchedPods "unmatched-pods" 241 2;
    Subject "subject" 242 2;
    Condition "condition" 243 2;
    NoCondition "no-condition" 244 2;
    CannotFail "cannot-fail" 244 2;
    Contradiction "contradiction" 245 2;
    NeverPending "never-pending" 245 2;
    NothingBefore "nothing-before" 246 2;
    Action "action" 250 2;
    DuplicateStep "duplicate-step" 251 2;
    StepWithoutCheck "step-without-check" 252 2;
    HeldAtOnce "held-at-once" 252 2;
    StepWithoutHint "step-without-hint" 252 2;
    StepPool "step-pool" 253 2;
    StepWorkload "step-workload" 253 2;
    NeverDeployed "never-deployed" 253 2;
    Skip "skip" 254 2;

    // Tools, logins and this machine.
    ToolMissing "tool-missing" 301 3;
    ToolTooOld "tool-too-old" 302 3;
    ToolAnswer "tool-answer" 303 3;
    ToolFailed "tool-failed" 304 4;
    ContainerRuntime "container-runtime" 305 3;
    MachineTooSmall "machine-too-small" 306 3;
    PortInUse "port-in-use" 307 3;
    ImageMissing "image-missing" 308 3;
    ImageReplaced "image-replaced" 308 0;
    AzureLogin "azure-login" 309 3;
    Kubeconfig "kubeconfig" 310 3;
    NoContext "no-context" 311 2;
    MachineRefused "machine-refused" 312 3;
    FileUnread "file-unread" 313 2;
    FileUnwritten "file-unwritten" 314 4;
    FileInTheWay "file-in-the-way" 315 2;

    // Clusters and providers.
    NoAnswer "no-answer" 401 3;
    NoAnswerInTime "no-answer-in-time" 401 5;
    NoAnswerYet "no-answer-yet" 401 0;
    LabUnreachable "lab-unreachable" 401 0;
    ClusterGone "cluster-gone" 402 3;
    PausedLab "paused-lab" 403 3;
    ClusterRefused "cluster-refused" 404 4;
    Foreign "foreign" 405 3;
    ForeignPool "foreign-pool" 405 2;
    ForeignPoolKept "foreign-pool-kept" 405 0;
    NotOnProvider "not-on-provider" 406 2;
    Caveat "caveat" 406 0;
    UpElsewhere "up-elsewhere" 407 2;
    ProviderKept "provider-kept" 407 0;
    SeedKept "seed-kept" 407 0;
    NeedsNewNodes "needs-new-nodes" 408 2;
    ObjectTaken "object-taken" 409 2;
    ObjectKept "object-kept" 409 0;
    NoSuchPool "no-such-pool" 410 2;
    PoolRefused "pool-refused" 411 2;
    Cost "cost" 412 2;
    NodesDrift "nodes-drift" 413 4;
    NodesDrifted "nodes-drifted" 413 0;
    NodesMissing "nodes-missing" 413 0;
    StillAtWork "still-at-work" 414 5;
    Server "server" 415 4;
    ServerSilent "server-silent" 415 0;
    ServerEnded "server-ended" 415 0;
    ClusterRights "cluster-rights" 416 3;
    PartUnread "part-unread" 416 0;
    BeforeUnknown "before-unknown" 416 0;
    DifferencesUnknown "differences-unknown" 416 0;
    ClusterFault "cluster-fault" 417 0;
    PoolUpgrade "pool-upgrade" 418 4;
    AzureRights "azure-rights" 420 3;
    AzurePolicy "azure-policy" 421 3;
    AzureRegistration "azure-registration" 422 3;
    AzureQuota "azure-quota" 423 3;
    AzureSize "azure-size" 424 3;
    AzureResource "azure-resource" 425 3;
    AzureExists "azure-exists" 425 3;
    AzureTrouble "azure-trouble" 426 3;
    AzureWarns "azure-warns" 426 0;
    AzureRefused "azure-refused" 427 4;
    ClusterFailed "cluster-failed" 427 0;
    ClusterMadeAgain "cluster-made-again" 427 0;
    PoolMadeAgain "pool-made-again" 427 0;
    ChangeAskedAgain "change-asked-again" 427 0;
    RemovalAskedAgain "removal-asked-again" 427 0;
    AzureBusy "azure-busy" 428 4;
    KindNode "kind-node" 430 4;
    KindBoot "kind-boot" 430 3;
    ExistingNodes "existing-nodes" 431 3;
    NodeInTwoPools "node-in-two-pools" 431 2;
    KubeconfigRuns "kubeconfig-runs" 432 2;

    // Where pods go.
    Cordoned "cordoned" 501 1;
    NodeName "node-name" 502 1;
    NotAmongNamedNodes "not-among-named-nodes" 502 1;
    ConflictingNodeNames "conflicting-node-names" 502 1;
    NoSuchNode "no-such-node" 502 1;
    UntoleratedTaint "untolerated-taint" 503 1;
    NodeSelector "node-selector" 504 1;
    NodeAffinity "node-affinity" 505 1;
    HostPort "host-port" 506 1;
    TooManyPods "too-many-pods" 507 1;
    Insufficient "insufficient" 508 1;
    ClaimNotFound "claim-not-found" 509 1;
    ClaimAwaited "claim-awaited" 509 1;
    ClaimOfAnother "claim-of-another" 509 1;
    ClaimLost "claim-lost" 509 1;
    ClaimTerminating "claim-terminating" 509 1;
    ClaimUnbound "claim-unbound" 509 1;
    NoVolumeToBind "no-volume-to-bind" 510 1;
    VolumeNotFound "volume-not-found" 510 1;
    VolumeNodeAffinity "volume-node-affinity" 510 1;
    VolumeZone "volume-zone" 510 1;
    ClaimInUse "claim-in-use" 511 1;
    VolumeInUse "volume-in-use" 511 1;
    SpreadSkew "spread-skew" 512 1;
    SpreadMissingLabel "spread-missing-label" 512 1;
    PodAffinity "pod-affinity" 513 1;
    PodAntiAffinity "pod-anti-affinity" 513 1;
    ExistingAntiAffinity "existing-anti-affinity" 513 1;
    NoDeviceClass "no-device-class" 514 1;
    NoDevicesFree "no-devices-free" 514 1;
    InvalidDevicePools "invalid-device-pools" 514 1;
    DevicesElsewhere "devices-elsewhere" 514 1;
    BrokenDeviceRequest "broken-device-request" 514 1;
    DevicesKept "devices-kept" 514 0;
    ClaimMissing "claim-missing" 515 1;
    ClaimTemplateMissing "claim-template-missing" 515 1;
    ClaimNotMade "claim-not-made" 515 1;
    ResourceClaimTerminating "resource-claim-terminating" 515 1;
    ClaimOfAnotherPod "claim-of-another-pod" 515 1;
    ClaimsUnread "claims-unread" 515 1;
    Gated "gated" 516 1;
    SilentNode "silent-node" 518 1;
    DeadNode "dead-node" 518 1;
    LostNode "lost-node" 518 1;
    Containers "containers" 519 1;
    NotStarting "not-starting" 519 1;
    Probe "probe" 520 1;
    ReadinessGate "readiness-gate" 520 1;
    Finalizers "finalizers" 521 1;
    Budget "budget" 522 1;
    Budgets "budgets" 522 1;
    Uneven "uneven" 523 1;
    QuotaExceeded "quota-exceeded" 530 1;
    QuotaUnstated "quota-unstated" 530 1;
    LimitRange "limit-range" 531 1;
    PodSecurity "pod-security" 532 1;
    NamespaceSelector "namespace-selector" 532 1;
    NamespaceTolerations "namespace-tolerations" 532 1;
    Constraint "constraint" 532 1;
    Policy "policy" 532 1;
    Webhook "webhook" 532 1;
    WebhookSilent "webhook-silent" 532 1;
    WebhookUnasked "webhook-unasked" 532 1;
    Refused "refused" 532 1;
    NoPriorityClass "no-priority-class" 533 1;
    NoRuntimeClass "no-runtime-class" 533 1;
    NoServiceAccount "no-service-account" 533 1;
    ScaledToZero "scaled-to-zero" 534 1;
    Paused "paused" 534 1;
    Suspended "suspended" 534 1;
    InOrder "in-order" 534 1;
    Over "over" 534 1;
    NotMade "not-made" 534 1;
    PodsNotMade "pods-not-made" 534 1;
    Unschedulable "unschedulable" 540 1;
    Unscheduled "unscheduled" 540 1;

    // Checks, steps and lessons.
    On "on" 601 1;
    NotOn "not-on" 601 1;
    Placement "placement" 601 1;
    Running "running" 602 1;
    Succeeded "succeeded" 602 1;
    Pending "pending" 603 1;
    Spread "spread" 604 1;
    OnePerNode "one-per-node" 604 1;
    With "with" 605 1;
    ApartFrom "apart-from" 605 1;
    SamePods "same-pods" 606 1;
    Exist "exist" 607 1;
    NoObject "no-object" 607 1;
    Ready "ready" 608 1;
    Schedulable "schedulable" 608 1;
    Tainted "tainted" 608 1;
    NodeVersion "node-version" 608 1;
    Cel "cel" 609 1;
    NoPods "no-pods" 610 1;
    NoNodes "no-nodes" 610 1;
    NoConditions "no-conditions" 610 1;
    WrongNode "wrong-node" 611 1;
    HasANode "has-a-node" 611 1;
    OldTemplate "old-template" 612 1;
    Starting "starting" 613 1;
    NotReady "not-ready" 613 1;
    Failed "failed" 613 1;
    Ended "ended" 613 1;
    Autoscaled "autoscaled" 614 1;
    Event "event" 615 1;
    Nominated "nominated" 615 1;
    Evicted "evicted" 615 1;
    DoesNotHold "does-not-hold" 620 1;
    StillWaiting "still-waiting" 621 5;
    LessonFailed "lesson-failed" 622 1;
    NotTried "not-tried" 622 0;
    NoSteps "no-steps" 630 2;
    NoPractice "no-practice" 630 2;
    NoSuchStep "no-such-step" 630 2;
    NoStepDone "no-step-done" 630 2;
    AllDone "all-done" 630 4;
    StepRunsProgram "step-runs-program" 631 2;
    StepChangesNodes "step-changes-nodes" 631 2;
    StepFailed "step-failed" 632 4;
    StepFiles "step-files" 632 3;
    NotUndone "not-undone" 632 0;
    DrainWouldLose "drain-would-lose" 633 4;
    DrainTimeout "drain-timeout" 634 5;
    PodsStayed "pods-stayed" 634 0;
    NoNodeHere "no-node-here" 635 4;
    NameUnknown "name-unknown" 635 0;

    // Classes and seats.
    NoSuchClass "no-such-class" 701 2;
    NoSuchSeat "no-such-seat" 702 2;
    ClassInTheWay "class-in-the-way" 703 2;
    ClassSettings "class-settings" 704 2;
    ClassSandbox "class-sandbox" 705 3;
    JoinAddress "join-address" 706 2;
    JoinFingerprint "join-fingerprint" 707 3;
    UntrustedHost "untrusted-host" 707 2;
    ClassUnreachable "class-unreachable" 708 3;
    ClassRefuses "class-refuses" 708 2;
    Barred "barred" 708 4;
    HostWarns "host-warns" 708 0;
    SeatCommand "seat-command" 709 2;
    SeatsFailed "seats-failed" 710 4;
    SeatsNotHolding "seats-not-holding" 710 1;
    SeatsUnseen "seats-unseen" 710 3;
    ClassJournal "class-journal" 711 3;
    NotInClass "not-in-class" 711 3;
    ClassFault "class-fault" 711 4;

    // State and removal.
    NoLabUp "no-lab-up" 801 2;
    LabNotUp "lab-not-up" 801 2;
    SeveralLabs "several-labs" 802 2;
    LabLocked "lab-locked" 803 4;
    Record "record" 804 4;
    RecordRepaired "record-repaired" 804 0;
    LockRemoved "lock-removed" 804 0;
    StateFolder "state-folder" 805 3;
    LeftBehind "left-behind" 806 4;
    NotConfirmed "not-confirmed" 807 2;
    Interrupted "interrupted" 808 130;

    // The command line.
    Usage "usage" 900 2;
    Format "format" 901 2;
    Flags "flags" 902 2;
    NoSuchCode "no-such-code" 902 2;
    NoLabFile "no-lab-file" 903 2;
    InvalidLab "invalid-lab" 904 2;
    NothingToExplain "nothing-to-explain" 905 2;
    NoSuchWorkload "no-such-workload" 906 2;
    KlabFault "klab-fault" 907 4;
    BadCapture "bad-capture" 908 2;
    WouldNotRun "would-not-run" 909 1;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_of_one_form_and_numbers_ascend() {
        let mut names = BTreeSet::new();
        for code in Code::ALL {
            let name = code.name();
            assert!(names.insert(name), "{name} twice");
            let is_plain = |word: &str| {
                !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            };
            assert!(name.split('-').all(is_plain), "{name}");
        }
        assert!(
            Code::ALL.windows(2).all(|two| two[0].number() <= two[1].number()),
            "the cases of a number stand together"
        );
        assert_eq!(Code::UnknownKey.to_string(), "K0103");
    }
}
