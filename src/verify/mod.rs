//! Checks on a snapshot of the cluster, and explanations of what does not hold.
