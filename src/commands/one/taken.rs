//! Names that are taken: objects of a lab that somebody else has on the cluster already, looked for before anything is made.

use super::super::Context;
use klab_lab::spec::Lab;
use klab_operations::apply::{Applier, ObjectKey};
use klab_operations::error::{Code, Error, Result};
use klab_operations::provider::Provider;
use klab_operations::render::Manifest;

/// What a cluster of somebody else would refuse of a lab's objects; nothing on clusters that klab makes, where all objects are the
/// lab's.
///
/// # Errors
/// When the cluster does not answer, or refuses to say.
pub(in super::super) fn taken(
    context: &Context,
    provider: &dyn Provider,
    lab: &Lab,
    manifests: &[Manifest],
) -> Result<Vec<Error>> {
    if lab.provider.profile().makes_nodes {
        return Ok(Vec::new());
    }
    let name = &lab.name.value;
    let client = context.client_on(lab.provider, name, &provider.kubeconfig(name)?)?;
    let taken = context.block_on(async { Applier::new(client, name).taken(manifests).await })?;
    let refusal = |manifest: &Manifest| {
        let (key, origin) = (ObjectKey::of(&manifest.object), &manifest.origin);
        let message =
            format!("{key} (from {origin}) is there, and klab did not make it for lab `{name}`; nothing was changed");
        Error::message(Code::ObjectTaken, message).hint("another name, or another namespace, makes one beside it")
    };
    Ok(taken.into_iter().map(refusal).collect())
}
