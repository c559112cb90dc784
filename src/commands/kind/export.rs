//! `kind export logs`: what is known of a cluster's nodes, and the logs of their containers, in a folder.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node, Pod};
use klab_kind::command_line::{Typed, VERSION};
use klab_kind::nodes::name_at_server;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};

use super::super::Context;
use super::meant::{Done, in_words, name, sim};
use super::stored::Stored;

/// Writes the logs of a cluster, and the folder's name to stdout.
///
/// # Errors
/// When there is no such cluster, or the folder cannot be written.
pub(super) fn logs(context: &Context, typed: &Typed) -> Done {
    let name = name(typed);
    if Stored::read(context, &name)?.is_none() {
        return Err(format!("unknown cluster \"{name}\""));
    }
    let path = sim(context)?.standalone_kubeconfig(&name_at_server(&name)).map_err(in_words)?;
    let folder = match typed.arguments.first() {
        Some(folder) => PathBuf::from(folder),
        None => tempfile::Builder::new().disable_cleanup(true).tempdir().map_err(|error| error.to_string())?.keep(),
    };
    context.ui.say(&format!("Exporting logs for cluster \"{name}\" to:"));
    context.ui.result(&folder.display().to_string());
    let written = |path: PathBuf, text: &[u8]| -> Done {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text)).map_err(|error| format!("{}: {error}", path.display()))
    };
    written(folder.join("kind-version.txt"), format!("kind v{VERSION} klab\n").as_bytes())?;
    context.block_on(async { Ok(of_nodes(&path, &folder, written).await) }).map_err(in_words)?
}

async fn of_nodes(kubeconfig: &Path, folder: &Path, write: impl Fn(PathBuf, &[u8]) -> Done) -> Done {
    let client = klab_operations::client::connect(kubeconfig).await.map_err(in_words)?;
    let failed = |error: kube::Error| format!("{:#}", klab_operations::client::cause(&error));
    for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await.map_err(failed)? {
        let text = serde_json::to_vec_pretty(&node).map_err(|error| error.to_string())?;
        write(folder.join(node.name_any()).join("inspect.json"), &text)?;
    }
    for pod in Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.map_err(failed)? {
        let Some(spec) = &pod.spec else { continue };
        let Some(node) = &spec.node_name else { continue };
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        for container in &spec.containers {
            let parameters = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            // One that has not started has no log.
            let Ok(log) = pods.logs(&pod.name_any(), &parameters).await else { continue };
            let file = format!("{}_{namespace}_{}.log", pod.name_any(), container.name);
            write(folder.join(node).join("containers").join(file), log.as_bytes())?;
        }
    }
    Ok(())
}
