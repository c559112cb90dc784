//! The numbers by which the state names pods, nodes, sets of labels and classes of pods.

/// Index of a pod that is placed or nominated.
pub(crate) type PodId = u32;
/// Index of a node.
pub(crate) type NodeId = u32;
/// Index of a namespace with labels that pods share.
pub(crate) type LabelsId = u32;
/// Index of a class of pods with equal information.
pub(crate) type ClassId = u32;
