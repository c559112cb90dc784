//! Labs on a cluster that somebody else made: found by a context of the user's kubeconfig, looked at, and left as it is but for
//! the lab's own objects.

mod context_file;
mod nodes;
mod removal;
mod site;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::site::{ResolvedSite, Site};
use super::{Options, Provider, Work};
use crate::client::{self, cause, connect, objects};
use crate::error::{Code, Context as _, Error, Kind, Result};
use crate::event::{About, Verb};
use crate::exec::quoted;
use crate::guard::guarded;
use crate::rbac_snapshot::NODE_RIGHTS;
use crate::state::{Home, Record};
use klab_lab::membership::labelled_pool;
use klab_lab::names::selector_of;
use klab_lab::plan::{Action, Observed, ObservedNode, ObservedPool};
use klab_lab::spec::Lab;
use klab_lab::words::plural;

/// Labs on clusters of others.
pub struct Existing {
    home: Home,
    runtime: Runtime,
    /// The cluster of the lab that the command is about, as it found it: looked for, reached and listed once.
    found: OnceCell<ResolvedSite>,
    reached: OnceCell<Reached>,
    nodes: OnceCell<Vec<Node>>,
}

/// A cluster that was reached for a lab, which may be planned and have no folder yet.
struct Reached {
    client: Client,
    /// Where its kubeconfig is.
    folder: TempDir,
}

impl Existing {
    /// The provider for a klab home.
    ///
    /// # Errors
    /// When the system refuses a runtime.
    pub fn new(home: &Home) -> Result<Self> {
        let runtime = client::runtime()?;
        let (found, reached, nodes) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Ok(Self { home: home.clone(), runtime, found, reached, nodes })
    }

    /// The cluster that a lab file means, which is the one where the lab is, if it is up.
    fn find(&self, lab: &Lab) -> Result<&ResolvedSite> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = site::find(lab, Site::read(&self.home.lab(&lab.name.value)).as_ref())?;
        Ok(self.found.get_or_init(|| found))
    }

    /// A client of the cluster that a lab file means.
    fn client_of(&self, lab: &Lab) -> Result<&Client> {
        if let Some(reached) = self.reached.get() {
            return Ok(&reached.client);
        }
        let found = self.find(lab)?;
        let folder = TempDir::new().code(Code::MachineRefused, || "could not make a temporary folder".to_owned())?;
        let path = folder.path().join("kubeconfig");
        context_file::write(&found.kubeconfig, &path)?;
        let name = &lab.name.value;
        let client = self.runtime.block_on(async { Ok::<_, Error>(guarded(connect(&path).await?, name)) })?;
        Ok(&self.reached.get_or_init(|| Reached { client, folder }).client)
    }

    /// The nodes of the cluster that a lab file means, looked at once a command.
    fn nodes(&self, lab: &Lab) -> Result<&[Node]> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let nodes = self.runtime.block_on(list(self.client_of(lab)?))?;
        Ok(self.nodes.get_or_init(|| nodes))
    }

    /// The kinds that the lab has made objects of.
    fn made(&self, lab: &str) -> Result<BTreeSet<String>> {
        let record = Record::read(&self.home.lab(lab), lab)?.record;
        Ok(record.map(|record| record.kinds).unwrap_or_default())
    }

    fn problems(&self, lab: &Lab) -> Result<Vec<Error>> {
        let nodes = self.nodes(lab)?;
        let mut problems = nodes::problems(lab, nodes);
        let is_new = Site::read(&self.home.lab(&lab.name.value)).is_none();
        if is_new && let Some(stranger) = self.stranger(lab)? {
            problems.push(stranger);
        }
        Ok(problems)
    }

    /// Objects of a lab of this name that is unknown here: another klab's, or what one left whose state is lost.
    fn stranger(&self, lab: &Lab) -> Result<Option<Error>> {
        let name = &lab.name.value;
        let client = self.client_of(lab)?;
        let objects = self.runtime.block_on(removal::own_objects(client, name, &BTreeSet::new()))?;
        if objects.is_empty() {
            return Ok(None);
        }
        let message = format!(
            "lab `{name}` is on this cluster already, and this klab did not make it: {}",
            removal::named(&objects)
        );
        let mut kinds: Vec<&str> = objects.iter().map(|object| object.resource.plural.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let context = &self.find(lab)?.site.context;
        Ok(Some(
            Error::message(Code::UpElsewhere, message).hint("another `lab = …` makes a lab of its own beside it").hint(
                format!(
                    "if it is what an older one left: `kubectl --context {context} delete {} -A -l {}`",
                    kinds.join(","),
                    selector_of(name)
                ),
            ),
        ))
    }
}

async fn list(client: &Client) -> Result<Vec<Node>> {
    let nodes = objects::list(client, None, &ListParams::default()).await;
    nodes.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 403 => {
            let words = "you may not list the nodes of the cluster, without which a lab cannot be checked";
            Error::new(Code::ClusterRights, cause(&error).context(words)).hint(NODE_RIGHTS)
        }
        _ => Error::new(Code::NoAnswer, cause(&error).context("could not list the nodes of the cluster")),
    })
}

/// The nodes by pool, as the lab tells them apart; without a lab, as their makers do.
fn observed(nodes: &[Node], lab: Option<&Lab>) -> Observed {
    let mut pools: BTreeMap<String, ObservedPool> = BTreeMap::new();
    for node in nodes {
        let pool = match lab {
            Some(lab) => lab.pool_of(node),
            None => Some(labelled_pool(node).map_or("-", |(_, pool)| pool)),
        };
        let Some(pool) = pool else { continue };
        pools.entry(pool.to_owned()).or_default().nodes.push(ObservedNode {
            name: node.name_any(),
            labels: node.labels().clone(),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
        });
    }
    Observed { exists: true, pools, ..Observed::default() }
}

impl Provider for Existing {
    fn preflight(&self, lab: &Lab) -> Vec<Error> {
        self.problems(lab).unwrap_or_else(|error| vec![error])
    }

    fn refuses_class(&self, lab: &Lab) -> Option<Error> {
        let message =
            format!("lab `{}` is on a cluster that klab did not make, and each seat needs one of its own", lab.name);
        Some(
            Error::message(Code::NotOnProvider, message)
                .hint("`--provider sim --seats …` makes a cluster for each learner"),
        )
    }

    fn refusals(&self, lab: &Lab, _: &[Action]) -> Vec<Error> {
        self.preflight(lab)
    }

    fn caveats(&self, lab: &Lab) -> Vec<String> {
        self.nodes(lab).map(|nodes| nodes::caveats(lab, nodes)).unwrap_or_default()
    }

    fn found(&self, lab: &Lab) -> Option<String> {
        let site = &self.find(lab).ok()?.site;
        Some(format!("{} at {}, not created by klab; it will not be modified", site.context, site.server))
    }

    fn observe(&self, lab: &str, file: Option<&Lab>) -> Result<Observed> {
        if let Some(file) = file {
            return Ok(observed(self.nodes(file)?, Some(file)));
        }
        if Site::read(&self.home.lab(lab)).is_none() {
            return Ok(Observed::default());
        }
        let path = self.kubeconfig(lab)?;
        let nodes = self.runtime.block_on(async { list(&connect(&path).await?).await })?;
        Ok(observed(&nodes, None))
    }

    fn perform_all(&self, lab: &Lab, _: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        let ResolvedSite { site, kubeconfig } = self.find(lab)?;
        let folder = self.home.lab(&lab.name.value);
        let is_new = Site::read(&folder).as_ref() != Some(site);
        if is_new {
            work.intend("use-cluster", &site.server)?;
        }
        site.write(&folder)?;
        context_file::write(kubeconfig, &context_file::path(&folder))?;
        if is_new {
            work.events
                .about(About::Cluster, &site.context)
                .note(Verb::FindCluster, format!("cluster {} at {}", site.context, site.server));
        }
        Ok(())
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        let folder = self.home.lab(lab);
        let Some(site) = Site::read(&folder) else {
            let planned = self.reached.get().map(|reached| reached.folder.path().join("kubeconfig"));
            return planned.ok_or_else(|| {
                Error::message(Code::ClusterGone, format!("lab `{lab}` has not reached its cluster yet"))
                    .hint("`klab up` with its lab file goes on")
            });
        };
        let path = context_file::path(&folder);
        // Logging in again uses the user's own file.
        if let Ok(current) = site.current() {
            context_file::write(&current, &path)?;
        } else if !path.is_file() {
            site.current().map(drop)?;
        }
        Ok(path)
    }

    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let folder = self.home.lab(lab);
        let Some(site) = Site::read(&folder) else {
            work.events.note(Verb::FindNothing, "nothing on any cluster: the lab had not got so far");
            return Ok(());
        };
        let (path, made) = (self.kubeconfig(lab)?, self.made(lab)?);
        let activity = work
            .events
            .about(About::Lab, lab)
            .start(Verb::RemoveObjects, format!("what lab {lab} made on cluster {}", site.context));
        work.intend("remove-objects", &site.server)?;
        let removed = self.runtime.block_on(async {
            let client = guarded(connect(&path).await?, lab);
            removal::remove(&client, lab, &made, |words| activity.progress(words)).await
        });
        let removed = removed.map_err(|error| {
            let gone = format!(
                "if the cluster no longer exists, `rm -r {}` makes klab forget the lab",
                quoted(&folder.display().to_string())
            );
            if error.kind() == Kind::Outside { error.hint(gone) } else { error }
        })?;
        activity.counting(removed.objects).finish(format!(
            "{} of lab {lab} from cluster {}",
            plural(removed.objects, "object"),
            site.context
        ));
        for kept in removed.kept {
            work.events.warn(Code::ObjectKept, kept);
        }
        Ok(())
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        if Site::read(&self.home.lab(lab)).is_none() {
            return Ok(Vec::new());
        }
        let (path, made) = (self.kubeconfig(lab)?, self.made(lab)?);
        let objects =
            self.runtime.block_on(async { removal::own_objects(&connect(&path).await?, lab, &made).await })?;
        Ok(objects.iter().map(ToString::to_string).collect())
    }
}
