//! The `klab` binary: arguments in, exit code out.

use std::process::ExitCode;

/// Most of what klab does is making and dropping small trees of JSON, on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(klab::run(std::env::args_os()))
}
