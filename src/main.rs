//! The `klab` binary: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(klab::run(std::env::args_os()))
}
