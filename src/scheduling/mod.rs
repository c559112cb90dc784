//! Where pods go: the pure scheduler, equal to kube-scheduler v1.36 with its default profile.
