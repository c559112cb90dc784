//! Which part of an object a write is for.

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Metadata and spec; `status` in the body is ignored where the kind has a status subresource.
    Main,
    /// Only `status`.
    Status,
    /// A namespace's `spec.finalizers` (the `finalize` subresource).
    Finalize,
    /// A pod's `spec.ephemeralContainers`.
    EphemeralContainers,
    /// A pod's container resources.
    Resize,
}

impl Part {
    /// The subresource's name in paths and `managedFields`; empty for the object itself.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }
}
