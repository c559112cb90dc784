//! The cluster that `capture`, `whatif`, `fit`, `survive` and `shrink` are asked about, and how their answers are printed.

use std::path::Path;

use klab_lab::spec::Lab;
use klab_whatif::Capture;
use serde_json::Value;

use super::elsewhere::Elsewhere;
use super::{Context, LabOptions, running_lab};
use klab_operations::capture;
use klab_operations::error::Result;
use klab_operations::event::Verb;
use klab_operations::ui::Format;

/// A cluster of others, one that was captured, or that of a lab that is up.
#[derive(Debug, clap::Args)]
pub(super) struct Copied {
    /// A lab that is up, or a folder that `klab capture` wrote; the lab that is up by default.
    #[arg(value_name = "LAB|FOLDER", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    options: LabOptions,
}

impl Copied {
    /// What placement depends on there.
    ///
    /// # Errors
    /// When the cluster or the file cannot be read, or no lab is up.
    pub(super) fn read(&self, context: &Context) -> Result<Capture> {
        at_work(context, Verb::ReadCluster, "what placement depends on", || self.capture(context))
    }

    /// The lab that is up, or whose file stands beside a capture; what a capture alone does not say of its pools, it says.
    ///
    /// # Errors
    /// When the lab file beside a capture is wrong.
    pub(super) fn lab(&self, context: &Context) -> Result<Option<Lab>> {
        if self.elsewhere.is_meant() {
            return Ok(None);
        }
        let lab = self.lab.as_deref();
        let Some(file) = lab.and_then(|lab| capture::file_of(Path::new(lab))) else {
            return Ok(running_lab::lab(context, lab, &self.options).ok());
        };
        let lab = file.with_file_name("lab.toml");
        lab.is_file().then(|| context.load(&lab, &self.options.load_options())).transpose()
    }

    fn capture(&self, context: &Context) -> Result<Capture> {
        if self.elsewhere.is_meant() {
            return context.block_on(async {
                let (client, namespace) = self.elsewhere.connect()?.client().await?;
                capture::capture(&client, &namespace).await
            });
        }
        let lab = self.lab.as_deref();
        if let Some(file) = lab.and_then(|lab| capture::file_of(Path::new(lab))) {
            return capture::read(&file);
        }
        let lab = running_lab::lab(context, lab, &self.options)
            .map_err(|error| error.hint("`klab whatif --context NAME` asks about a cluster that klab did not make"))?;
        let name = &lab.name.value;
        let client = context.client(name, &context.kubeconfig(name)?)?;
        context.block_on(capture::capture(&client, "default"))
    }
}

/// Does what takes long on large clusters; a terminal shows meanwhile what klab is at.
pub(super) fn at_work<T>(context: &Context, verb: Verb, what: &str, work: impl FnOnce() -> T) -> T {
    let _shown = context.ui.is_interactive().then(|| context.ui.events().start(verb, what));
    work()
}

/// Prints an answer as the document that it is, or for people.
pub(super) fn show(context: &Context, json: &Value, human: &str) {
    let is_json = context.ui.format() == Format::Json;
    context.ui.result(&if is_json { json.to_string() } else { human.trim_end().to_owned() });
}
