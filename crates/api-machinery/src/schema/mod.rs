//! What Kubernetes knows about the fields of each kind: names, types, protobuf numbers, how lists and maps merge.
//!
//! One table (`types.txt`, from the published Go types) feeds decoding, field validation, the three kinds of patches
//! that need types, server-side apply and the protobuf reader.

mod path;
mod table;
mod tidy;

use std::sync::LazyLock;

pub use path::Path;
pub use table::{Field, Ownership, Scalar, Schema, Shape, Type, TypeId};
pub use tidy::{Mismatch, Tidied};

/// The table, read at first use (well under a millisecond).
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("types.txt")));
    &SCHEMA
}
