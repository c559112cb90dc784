//! The `klab` binary.

fn main() {}
