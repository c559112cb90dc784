//! `az aks get-credentials`: a cluster's kubeconfig, merged into the file that kubectl reads.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::session::Session;
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::kubeconfig::{handed_out, merged};
use klab_az::refusal::Refusal;
use klab_operations::az::{Clusters, look};
use klab_operations::environment;
use klab_server::files::{create_private_folder, write_private};

/// `get-credentials`.
pub(super) fn get(session: &Session<'_>, given: &Arguments) -> Answer {
    let known = session.cluster(given, "--name")?;
    let live = look(session, &known)?;
    let own = session.context.kubeconfig(&known.lab)?;
    let text = read(&own)?;
    let config = handed_out(&yaml(&own, &text)?, &known.site(&live), given.has("--admin"), given.word("--context"));
    let path = match given.word("--file") {
        Some("-") => {
            session.print(&written(&config)?);
            return Ok(Value::Null);
        }
        Some(file) => home_at_first(file),
        None => kubeconfig(&known.lab)?,
    };
    let shown = path.display().to_string();
    if same_file(&path, &own) {
        // The lab's own file has its own names, and leads there already.
        let context = yaml(&own, &text)?["current-context"].as_str().unwrap_or_default().to_owned();
        session.warn(&format!("Merged \"{context}\" as current context in {shown}"));
        return Ok(Value::Null);
    }
    if path.is_symlink() {
        let message = format!(
            "Kubeconfig path \"{shown}\" is a symbolic link. Refusing to write to prevent symlink-following attacks."
        );
        return Err(Refusal::new(message).advise("A lab's own kubeconfig is such a link; --file names another file."));
    }
    let replaces = |name: &str| {
        given.has("--overwrite-existing")
            || session
                .agrees(&format!("A different object named {name} already exists in your kubeconfig file.\nOverwrite?"))
    };
    let existing = if path.is_file() { Some(read(&path)?).filter(|text| !text.trim().is_empty()) } else { None };
    let config_of_all = match existing {
        Some(text) => merged(yaml(&path, &text)?, &config, replaces)?,
        None => config.clone(),
    };
    let failed = |error: std::io::Error| {
        Refusal::new(format!("could not write {shown}: {error}")).advise("--file/-f names another file.")
    };
    let path = std::path::absolute(&path).map_err(failed)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        create_private_folder(folder).map_err(failed)?;
    }
    write_private(&path, written(&config_of_all)?.as_bytes()).map_err(failed)?;
    session.warn(&format!(
        "Merged \"{}\" as current context in {shown}",
        config["current-context"].as_str().unwrap_or_default()
    ));
    Ok(Value::Null)
}

/// The file that kubectl reads; klab does not write the user's own unasked.
fn kubeconfig(lab: &str) -> Result<PathBuf, Refusal> {
    let first = environment::KUBECONFIG.text().and_then(|all| all.split(':').next().map(str::to_owned));
    first.filter(|path| !path.is_empty()).map(PathBuf::from).ok_or_else(|| {
        Refusal::new("KUBECONFIG is not set, and klab's az does not write into ~/.kube/config unasked.")
            .advise(format!("'klab shell {lab}' opens a shell in which kubectl and az are the lab's."))
            .advise("'--file ~/.kube/config' writes there all the same.")
    })
}

/// A path whose `~` no shell has replaced, as after `--file=`.
fn home_at_first(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), environment::HOME.path()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn read(path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|error| Refusal::new(format!("could not read {}: {error}", path.display())))
}

fn yaml(path: &Path, text: &str) -> Result<Value, Refusal> {
    serde_saphyr::from_str(text)
        .map_err(|_| Refusal::new(format!("failed to load configuration from {}", path.display())))
}

fn written(config: &Value) -> Result<String, Refusal> {
    serde_saphyr::to_string(config).map_err(|error| Refusal::new(error.to_string()))
}
