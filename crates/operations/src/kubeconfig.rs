//! The user's own kubeconfigs, read as kubectl reads them and never written; one context of them.

pub mod file;

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

use crate::environment;
use crate::error::{Code, Context as _, Error, Result};

/// The kubeconfig that is meant: the file that is named, else those of `KUBECONFIG`, else `~/.kube/config`.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn read(named: Option<&Path>) -> Result<Kubeconfig> {
    let unusable = |file: &Path| format!("could not use the kubeconfig `{}`", file.display());
    if let Some(file) = named {
        return read_file(file).code(Code::Kubeconfig, || unusable(file));
    }
    let files = files();
    let mut merged: Option<Kubeconfig> = None;
    // As kubectl does, files that are not there are passed over.
    for file in files.iter().filter(|file| file.exists()) {
        let next = read_file(file).code(Code::Kubeconfig, || unusable(file))?;
        merged = Some(match merged {
            None => next,
            Some(merged) => merged.merge(next).code(Code::Kubeconfig, || unusable(file))?,
        });
    }
    merged.ok_or_else(|| {
        let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
        let tried = if names.is_empty() { String::new() } else { format!(": {} is not there", names.join(", ")) };
        Error::message(Code::Kubeconfig, format!("there is no kubeconfig{tried}"))
            .hint("`--kubeconfig FILE` or KUBECONFIG names one")
    })
}

/// The namespace that the current context of a file names, if it names one.
pub fn namespace(file: &Path) -> Option<String> {
    let config = read_file(file).ok()?;
    let context = config.contexts.iter().find(|context| Some(&context.name) == config.current_context.as_ref())?;
    context.context.as_ref()?.namespace.clone().filter(|namespace| !namespace.is_empty())
}

fn read_file(file: &Path) -> Result<Kubeconfig, anyhow::Error> {
    let metadata = std::fs::metadata(file)?;
    // A pipe or a device might never end.
    anyhow::ensure!(metadata.is_file(), "it is not a file");
    let absolute = std::path::absolute(file)?;
    file::read(&absolute)
}

/// The files that kubectl would read.
fn files() -> Vec<PathBuf> {
    match environment::KUBECONFIG.value() {
        Some(list) => std::env::split_paths(&list).filter(|file| !file.as_os_str().is_empty()).collect(),
        None => environment::HOME.path().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// One context with its cluster and its user alone, as the current one; `None` is the one that is current already.
///
/// # Errors
/// When there is no such context, or its cluster or user is missing.
pub fn of_context(mut kubeconfig: Kubeconfig, name: Option<&str>) -> Result<Kubeconfig> {
    let names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let wanted = match name.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => {
            return Err(with_contexts(
                Error::message(Code::NoContext, "the kubeconfig has no current context"),
                &names,
            ));
        }
    };
    kubeconfig.contexts.retain(|context| context.name == wanted);
    let Some(context) = kubeconfig.contexts.first().map(|named| named.context.clone()) else {
        let error = Error::message(Code::NoContext, format!("the kubeconfig has no context `{wanted}`"));
        return Err(with_contexts(error, &names));
    };
    let incomplete = |what: String| Error::message(Code::Kubeconfig, format!("context `{wanted}` names {what}"));
    let context = context.ok_or_else(|| incomplete("no cluster".to_owned()))?;
    kubeconfig.clusters.retain(|cluster| cluster.name == context.cluster);
    if kubeconfig.clusters.is_empty() {
        return Err(incomplete(format!("cluster `{}`, which the kubeconfig does not have", context.cluster)));
    }
    let user = context.user.unwrap_or_default();
    kubeconfig.auth_infos.retain(|known| known.name == user);
    if kubeconfig.auth_infos.is_empty() && !user.is_empty() {
        return Err(incomplete(format!("user `{user}`, whom the kubeconfig does not have")));
    }
    kubeconfig.current_context = Some(wanted);
    Ok(kubeconfig)
}

/// The programs that would run for a login with a kubeconfig, by their names.
pub fn programs(kubeconfig: &Kubeconfig) -> impl Iterator<Item = &str> {
    kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()).filter_map(|user| {
        let program = user.exec.as_ref().map(|exec| exec.command.as_deref().unwrap_or_default());
        program.or(user.auth_provider.as_ref().map(|provider| provider.name.as_str()))
    })
}

fn with_contexts(error: Error, names: &[String]) -> Error {
    match names {
        [] => error.hint("it has no context at all; `kubectl config get-contexts` shows those that kubectl sees"),
        names => error.hint(format!("it has {}", klab_lab::words::first_of(names, 8))),
    }
}
