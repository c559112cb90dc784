//! `klab kind`, and klab under the names `kind` and `docker`: answers the commands of kind with embedded clusters.

mod create;
pub mod docker;
mod export;
mod kubeconfig;
mod listed;
mod load;
mod meant;
mod node;
mod remove;
mod stored;

use std::ffi::OsString;
use std::path::Path;

use super::Context;
use klab_kind::command_line::{self, Act, Asked, Typed};
use meant::{Done, name};

pub(super) use listed::rows;
use stored::Stored;
pub(super) use stored::all as clusters;

/// What can be typed after `klab kind`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// What would be typed after `kind`, such as `create cluster`; `klab kind --help` lists what is answered.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// What was typed after `kind`, where klab was started as `kind` or with it as its first word: to be read as kind reads it.
pub fn typed(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_stem().is_some_and(|name| name == "kind") {
        return Some(rest);
    }
    rest.split_first().filter(|(first, _)| *first == "kind").map(|(_, rest)| rest)
}

/// Whether kind would write nothing to stderr.
pub fn is_quiet(words: &[OsString]) -> bool {
    command_line::is_quiet(&texts(words))
}

fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Does what was typed; gives kind's exit code: 0, or 1 for whatever failed.
pub fn run(context: &Context, words: &[OsString]) -> u8 {
    let done = command_line::read(&texts(words)).and_then(|asked| match asked {
        Asked::Command(typed) => perform(context, &typed),
        Asked::Help(text, error) => {
            context.ui.result(&text);
            error.map_or(Ok(()), Err)
        }
    });
    match done {
        Ok(()) => 0,
        Err(message) => {
            context.ui.say(&format!("ERROR: {message}"));
            1
        }
    }
}

fn perform(context: &Context, typed: &Typed) -> Done {
    match typed.act {
        Act::CreateCluster => create::cluster(context, typed).map_err(|why| format!("failed to create cluster: {why}")),
        Act::DeleteCluster => remove::cluster(context, typed),
        Act::DeleteClusters => remove::clusters(context, typed),
        Act::GetClusters => get_clusters(context),
        Act::GetNodes => get_nodes(context, typed),
        Act::GetKubeconfig => {
            let config = kubeconfig::of(context, &name(typed), typed.has("internal"))?;
            context.ui.result(&kubeconfig::written(&config)?);
            Ok(())
        }
        Act::ExportKubeconfig => {
            let name = name(typed);
            let config = kubeconfig::of(context, &name, typed.has("internal"))?;
            kubeconfig::merge(context, &config, typed.word("kubeconfig"))?;
            context.ui.say(&format!("Set kubectl context to \"{}\"", klab_kind::kubeconfig::key(&name)));
            Ok(())
        }
        Act::ExportLogs => export::logs(context, typed),
        Act::LoadDockerImage => load::docker_images(context, typed),
        Act::LoadImageArchive => load::archives(context, typed),
        Act::Version => {
            let version = command_line::VERSION;
            let klab = format!("kind v{version} klab/{} {}/{}", env!("CARGO_PKG_VERSION"), SYSTEM.0, SYSTEM.1);
            context.ui.result(if context.ui.quiet() { version } else { &klab });
            Ok(())
        }
        Act::Refused(why) => Err(why.to_owned()),
    }
}

/// Operating system and processor of this klab.
const SYSTEM: (&str, &str) = (std::env::consts::OS, std::env::consts::ARCH);

fn get_clusters(context: &Context) -> Done {
    let names = clusters(context)?;
    if names.is_empty() {
        context.ui.say("No kind clusters found.");
    } else {
        context.ui.result(&names.join("\n"));
    }
    Ok(())
}

fn get_nodes(context: &Context, typed: &Typed) -> Done {
    let is_all = typed.has("all-clusters");
    let names = if is_all { clusters(context)? } else { vec![name(typed)] };
    let mut nodes = Vec::new();
    for name in &names {
        nodes.extend(Stored::read(context, name)?.into_iter().flat_map(|stored| stored.nodes).map(|node| node.name));
    }
    match (nodes.is_empty(), names.first()) {
        (true, Some(name)) if !is_all => context.ui.say(&format!("No kind nodes found for cluster \"{name}\".")),
        (true, _) => context.ui.say("No kind nodes for any cluster."),
        (false, _) => context.ui.result(&nodes.join("\n")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn klab_is_kind_under_that_name_and_with_that_word() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            typed(&words).map(<[OsString]>::len)
        };
        assert_eq!((of("/x/kind get nodes"), of("klab kind version"), of("klab list")), (Some(2), Some(1), None));
    }
}
