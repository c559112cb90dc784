//! The files below `labs/`, as a list in Rust: what `klab up LESSON` finds without a checkout.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Of a folder, cargo looks at everything below it.
    println!("cargo::rerun-if-changed=labs");
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("labs");
    let mut files = Vec::new();
    find(&folder, &mut files)?;
    files.sort();
    let mut list = "const FILES: &[(&str, &str)] = &[\n".to_owned();
    for file in files {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("a path that is not UTF-8");
        let (name, file) = (text(file.strip_prefix(&folder)?)?.replace('\\', "/"), text(&file)?);
        writeln!(list, "    ({name:?}, include_str!({file:?})),")?;
    }
    list.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("lab_files.rs"), list)?;
    Ok(())
}

/// Adds the files below a folder.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
