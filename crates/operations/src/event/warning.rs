//! What is warned of: for each a code for programs and a meaning; a table of `docs/look-up/events.md` is made from it.

macro_rules! warnings {
    ($($warning:ident $code:literal $meaning:literal;)*) => {
        /// What is warned of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Warning {
            $(#[doc = concat!("`", $code, "`: ", $meaning)] $warning),*
        }

        impl Warning {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$warning),*];

            /// The code for programs; it does not change.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$warning => $code),* }
            }

            /// What it means, in Markdown.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$warning => $meaning),* }
            }
        }
    };
}

warnings! {
    Caveat "caveat" "this machine, or the provider, will not do all as the lab file says";
    ProviderKept "provider-kept" "the lab stays on the provider where it is up, whatever its file says";
    SeedKept "seed-kept" "the lab keeps the seed it was made with";
    ImageReplaced "image-replaced" "another image takes the place of one that cannot be had";
    NodesMissing "nodes-missing" "fewer nodes were made than was said";
    NodesDrifted "nodes-drifted" "a node is not what its pool declares";
    PodsStayed "pods-stayed" "pods did not leave a node in time that is removed";
    ObjectKept "object-kept" "something of the lab stays on a cluster of somebody else";
    NotUndone "not-undone" "a part of a step could not be undone";
    NotTried "not-tried" "a lesson was not tried on one of the providers";
    BeforeUnknown "before-unknown" "the pods of before a step could not be noted";
    DifferencesUnknown "differences-unknown" "what differs from the lab could not be found";
    PartUnread "part-unread" "what the user may not read was left out";
    DevicesKept "devices-kept" "pods go on with devices that their pool no longer has";
    NameUnknown "name-unknown" "a name that only the cluster knows is another one there";
    ClusterFault "cluster-fault" "the cluster itself has a problem: a node, a system pod";
    NoAnswerYet "no-answer-yet" "a server has been silent for some seconds, and is waited for";
    ServerSilent "server-silent" "the embedded clusters' server does not answer";
    ServerEnded "server-ended" "the embedded clusters' server did not answer, and was ended";
    LabUnreachable "lab-unreachable" "a lab could not be looked at";
    RecordRepaired "record-repaired" "what klab remembers of the lab was damaged, and was mended";
    LockRemoved "lock-removed" "a file that a killed program had left was removed";
    AzureWarns "azure-warns" "what az warned of";
    ClusterFailed "cluster-failed" "Azure says that the cluster failed";
    ClusterMadeAgain "cluster-made-again" "the cluster failed in Azure; it is removed and made once more";
    ForeignPool "foreign-pool" "a pool of the cluster does not carry the lab's tags; klab neither replaces nor removes it";
    PoolMadeAgain "pool-made-again" "a pool failed in Azure; it is removed and made once more";
    ChangeAskedAgain "change-asked-again" "a change of a pool failed in Azure; it is asked for once more";
    RemovalAskedAgain "removal-asked-again" "Azure did not remove what it was asked to; it is asked again";
    HostWarns "host-warns" "what the host of a class warned of";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_of_one_form_and_their_own() {
        let mut codes = BTreeSet::new();
        for warning in Warning::ALL {
            let code = warning.code();
            assert!(codes.insert(code), "{code} twice");
            let is_plain = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(code.split('-').all(is_plain), "{code}");
            assert!(!warning.meaning().ends_with('.'), "{code}");
        }
    }
}
