//! `kind delete cluster` and `clusters`: the embedded cluster, its contexts in the user's kubeconfigs, its record.

use klab_kind::command_line::Typed;
use klab_kind::nodes::name_at_server;

use super::super::Context;
use super::kubeconfig;
use super::meant::{Done, in_words, name, sim};
use super::stored::{self, Stored, all};

/// Deletes one; one that is not there is no mistake.
///
/// # Errors
/// When something could not be removed.
pub(super) fn cluster(context: &Context, typed: &Typed) -> Done {
    let name = name(typed);
    context.ui.say(&format!("Deleting cluster \"{name}\" ..."));
    one(context, &name, typed.word("kubeconfig")).map_err(|why| failed(&name, &why))
}

/// Deletes those that are named, or all.
///
/// # Errors
/// When klab's state cannot be read.
pub(super) fn clusters(context: &Context, typed: &Typed) -> Done {
    let names = if typed.has("all") { all(context)? } else { typed.arguments.clone() };
    let mut done = Vec::new();
    for name in names {
        match one(context, &name, typed.word("kubeconfig")) {
            Ok(()) => done.push(format!("\"{name}\"")),
            Err(why) => context.ui.say(&failed(&name, &why)),
        }
    }
    context.ui.say(&format!("Deleted clusters: [{}]", done.join(" ")));
    Ok(())
}

fn failed(name: &str, why: &str) -> String {
    format!("failed to delete cluster \"{name}\": {why}")
}

/// Removes a cluster and every trace of it; the record goes last, so that a klab that is killed leaves what can be deleted again.
///
/// # Errors
/// When something could not be removed.
pub(super) fn one(context: &Context, name: &str, file: Option<&str>) -> Done {
    kubeconfig::remove(context, name, file)?;
    // A record may be missing where klab was killed before it wrote one; its folder is there.
    if Stored::read(context, name)?.is_some() || all(context)?.iter().any(|known| known == name) {
        sim(context)?.remove_standalone(&name_at_server(name), &context.ui.events()).map_err(in_words)?;
        stored::forget(context, name)?;
    }
    Ok(())
}
