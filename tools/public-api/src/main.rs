//! Prints the public API of a library as rustdoc's JSON has it: an item a line, in an order that does not change.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: klab-public-api FILE.json");
        return ExitCode::from(2);
    };
    // What the compiler derives by itself for every type (`Unpin`, `Freeze`) and for all types alike says nothing of this library.
    let api = public_api::Builder::from_rustdoc_json(&path).omit_blanket_impls(true).omit_auto_trait_impls(true).build();
    match api {
        Ok(api) => {
            print!("{api}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", path.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}
