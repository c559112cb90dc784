//! What activities do: for each a code for programs and words for people; the last table of `docs/look-up/events.md` is made from it.

macro_rules! verbs {
    ($($verb:ident $action:literal $doing:literal $done:literal $counts:literal;)*) => {
        /// What an activity does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Verb {
            $(#[doc = concat!("`", $action, "`, as `", $done, "`")] $verb),*
        }

        impl Verb {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$verb),*];

            /// The code for programs; it does not change.
            pub const fn action(self) -> &'static str {
                match self { $(Self::$verb => $action),* }
            }

            /// What is being done, for people: `Creating`.
            pub const fn doing(self) -> &'static str {
                match self { $(Self::$verb => $doing),* }
            }

            /// What was done, for people: `Created`.
            pub const fn done(self) -> &'static str {
                match self { $(Self::$verb => $done),* }
            }

            /// What its `count` counts; empty where it has none.
            pub const fn counts(self) -> &'static str {
                match self { $(Self::$verb => $counts),* }
            }
        }
    };
}

// Facts that were never an activity, and beginnings whose end is another event, have one word in both places. Two words for
// one thing are two rows with one code.
verbs! {
    CreateCluster "create-cluster" "Creating" "Created" "";
    FindCluster "find-cluster" "Found" "Found" "";
    WaitCluster "wait-cluster" "Waiting" "Found" "";
    RecreateCluster "recreate-cluster" "Recreating" "Recreating" "";
    StartCluster "start-cluster" "Starting" "Started" "";
    StopCluster "stop-cluster" "Stopping" "Stopped" "";
    RemoveCluster "remove-cluster" "Removing" "Removed" "";
    DeleteCluster "remove-cluster" "Deleting" "Deleted" "";
    FindNothing "find-nothing" "Found" "Found" "";
    UpgradeControlPlane "upgrade-control-plane" "Bringing" "Brought" "";
    FindControlPlane "find-control-plane" "Found" "Found" "";
    SetAutoscaler "set-autoscaler" "Setting" "Set" "";
    ConfigureScheduler "configure-scheduler" "Configuring" "Configured" "";
    AttachRegistry "attach-registry" "Attaching" "Attached" "";
    RestoreSystem "restore-system" "Restored" "Restored" "objects";

    CreatePool "create-pool" "Creating" "Created" "nodes it is to have";
    FindPool "find-pool" "Found" "Found" "";
    WaitPool "wait-pool" "Waiting" "Found" "";
    ScalePool "scale-pool" "Scaling" "Scaled" "nodes it is to have";
    ChangePool "change-pool" "Changing" "Changed" "";
    ReplacePool "replace-pool" "Replacing" "Replaced" "nodes it is to have";
    UpgradePool "upgrade-pool" "Upgrading" "Upgraded" "nodes it has";
    BeginUpgrade "begin-upgrade" "Beginning" "Began" "nodes it has";
    AbortUpgrade "abort-upgrade" "Aborting" "Aborted" "";
    DrainPool "drain-pool" "Draining" "Drained" "pods moved, at the end";
    RemovePool "remove-pool" "Removing" "Removed" "nodes it had";

    AddNodes "add-nodes" "Adding" "Added" "nodes";
    RemoveNode "remove-node" "Removing" "Removed" "";
    WaitReady "wait-ready" "Waiting" "Ready" "nodes";
    CheckNodes "check-nodes" "Checking" "Checked" "nodes";
    ResetNodes "reset-nodes" "Reset" "Reset" "nodes";
    StartNodes "start-nodes" "Starting" "Started" "nodes";
    StartKubelet "start-kubelet" "Starting" "Started" "";
    StopNodes "stop-nodes" "Stopping" "Stopped" "nodes";
    ReclaimNodes "reclaim-nodes" "Reclaiming" "Reclaiming" "nodes";
    TaintNodes "taint-nodes" "Tainted" "Tainted" "nodes";
    UntaintNodes "untaint-nodes" "Untainted" "Untainted" "nodes";
    LabelNodes "label-nodes" "Labelled" "Labelled" "nodes";
    UnlabelNodes "unlabel-nodes" "Unlabelled" "Unlabelled" "nodes";
    CordonNodes "cordon-nodes" "Cordoned" "Cordoned" "nodes";
    UncordonNodes "uncordon-nodes" "Uncordoned" "Uncordoned" "nodes";
    DrainNodes "drain-nodes" "Draining" "Drained" "pods moved, at the end";

    PullImage "pull-image" "Pulling" "Pulled" "";
    LoadImage "load-image" "Loading" "Loaded" "nodes";
    AddAddon "add-addon" "Adding" "Adding" "";
    RemoveAddon "remove-addon" "Removed" "Removed" "";
    ApplyObjects "apply-objects" "Applying" "Applied" "objects";
    DeleteObjects "delete-objects" "Deleting" "Deleted" "objects that were there, at the end";
    RemoveObjects "remove-objects" "Removing" "Removed" "objects, at the end";
    ScaleWorkload "scale-workload" "Scaled" "Scaled" "replicas it is to have";
    RestartWorkload "restart-workload" "Restarted" "Restarted" "";

    CheckLab "check-lab" "Checked" "Checked" "";
    MakeLab "make-lab" "Ready" "Ready" "";
    VerifyLab "verify-lab" "Verifying" "Verified" "checks";
    ResetLab "reset-lab" "Reset" "Reset" "";
    BeginRemoval "begin-removal" "Removing" "Removing" "";
    RemoveLab "remove-lab" "Down" "Down" "";
    RemoveExpiredLab "remove-expired-lab" "Removing" "Removed" "";
    RemoveExpiredLabs "remove-expired-labs" "Removed" "Removed" "labs";
    TestLabs "test-labs" "Testing" "Tested" "labs";

    RewindLesson "rewind-lesson" "Lesson" "Lesson" "steps that had been done";
    BeginStep "begin-step" "Step" "Step" "";
    UndoStep "undo-step" "Undoing" "Undoing" "";
    FinishStep "finish-step" "Done" "Done" "";
    FinishSteps "finish-steps" "Done" "Done" "";
    PassStep "pass-step" "Passed" "Passed" "";
    HoldStep "hold-step" "Still holds" "Still holds" "";
    ExpectRefusal "expect-refusal" "Refused" "Refused" "";
    Wait "wait" "Waiting" "Waited" "seconds";
    WaitOperation "wait-operation" "Waiting" "Waited" "";
    RunProgram "run-program" "Running" "Ran" "";
    FailApi "fail-api" "Failing" "Failed" "seconds";
    WaitApi "wait-api" "Waiting" "Waited" "";

    CreateSeats "create-seats" "Creating" "Created" "seats";
    VerifySeats "verify-seats" "Verifying" "Verified" "seats looked at";
    StartSeats "start-seats" "Starting" "Started" "seats";
    StopSeats "stop-seats" "Stopping" "Stopped" "seats";
    RemoveSeats "remove-seats" "Removing" "Removed" "seats";
    MakeClass "make-class" "Ready" "Ready" "seats that are ready";
    RemoveClass "remove-class" "Down" "Down" "seats it had";

    JoinClass "join-class" "Joined" "Joined" "";
    LeaveClass "leave-class" "Left" "Left" "";
    OpenShell "open-shell" "Opened" "Opened" "";
    ReadCluster "read-cluster" "Reading" "Read" "";
    TryChanges "try-changes" "Trying" "Tried" "";
    WriteFiles "write-files" "Wrote" "Wrote" "files";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_of_one_form_and_one_row_says_what_each_means() {
        for (place, verb) in Verb::ALL.iter().enumerate() {
            let action = verb.action();
            assert!(
                action.split('-').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())),
                "{action}"
            );
            let others = Verb::ALL[..place].iter().filter(|other| other.action() == action);
            for other in others {
                assert_ne!(other.done(), verb.done(), "{action} stands twice");
                assert_eq!(other.counts(), verb.counts(), "{action}");
            }
        }
    }
}
