//! The labels that a kubelet gives its node.

// upstream: pkg/kubelet/kubelet_node_status.go initialNode (v1.36)

/// The label with the name of a node's host.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The labels that name a node's operating system and processor, each also under its name before Kubernetes 1.14.
pub fn platform_labels<'a>(os: &'a str, arch: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("beta.kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", os),
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", os),
    ]
}
