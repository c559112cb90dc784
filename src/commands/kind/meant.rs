//! What the commands of `klab kind` share: the cluster that is meant, and errors as kind prints them.

use klab_kind::command_line::Typed;
use klab_kind::configuration::DEFAULT_NAME;
use klab_operations::environment;
use klab_operations::error::Error;
use klab_operations::provider::sim::Sim;

use super::super::Context;

/// What a command gives: an error in words, which `ERROR: ` then precedes.
pub(super) type Done<T = ()> = Result<T, String>;

/// The cluster that is meant: `--name`, else `KIND_CLUSTER_NAME`, else kind's own.
pub(super) fn name(typed: &Typed) -> String {
    given_name(typed).unwrap_or_else(|| DEFAULT_NAME.to_owned())
}

pub(super) fn given_name(typed: &Typed) -> Option<String> {
    let given = typed.word("name").map(str::to_owned);
    given.or_else(|| environment::KIND_CLUSTER_NAME.text()).filter(|name| !name.is_empty())
}

/// The embedded clusters.
pub(super) fn sim(context: &Context) -> Done<Sim> {
    Sim::new(&context.home).map_err(in_words)
}

/// What a cluster answers, with the cause where it refuses or is not reached.
///
/// # Errors
/// When it refuses or is not reached.
pub(super) fn asked<T>(context: &Context, request: impl Future<Output = kube::Result<T>>) -> Done<T> {
    let answer = context.block_on(async { Ok(request.await) }).map_err(in_words)?;
    answer.map_err(|error| format!("{:#}", klab_operations::client::cause(&error)))
}

/// An error of klab's own with what to do about it.
pub(super) fn in_words(error: Error) -> String {
    let hints = error.hints.iter().map(|hint| format!("; {hint}")).collect::<String>();
    format!("{:#}{hints}", error.source)
}
