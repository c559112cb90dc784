//! What is kept of a hosted class besides its journal: its labs as their files said when it began.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::Context;
use super::Arguments;
use klab_lab::spec::{self, Lab, LoadOptions, Reach};
use klab_operations::bundled_lessons;
use klab_operations::context::{absolute, invalid};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::practice::{self, Practice};
use klab_operations::state::home::{HOSTED, state_error};
use klab_server::files::write_private;

const SCHEMA: &str = "klab.hosted/1";

/// A hosted class.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosted {
    schema: String,
    /// What it is called.
    pub(super) name: String,
    /// Since when it is there.
    pub(super) created: Timestamp,
    /// The shard of this host.
    pub(super) shard: u32,
    /// Most seats.
    pub(super) most: u32,
    /// How many minutes each learner has, where the class is a practice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) practice: Option<u16>,
    /// Its labs, the first one first.
    pub(super) labs: Vec<LabRecord>,
}

/// A lab of a class.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabRecord {
    /// The lab's name.
    pub(super) name: String,
    /// The file it was read from.
    pub(super) source: PathBuf,
    /// What that said then.
    text: String,
    /// Variables of the command line.
    vars: Vec<(String, String)>,
    /// Whether it may read files outside its folder.
    allow_outside: bool,
}

impl Hosted {
    /// A new class of the labs that were named.
    ///
    /// # Errors
    /// When one of them is invalid, or two have one name.
    pub(super) fn new(context: &Context, arguments: &Arguments) -> Result<Self> {
        let mut labs: Vec<LabRecord> = Vec::new();
        for named in &tasks_or_labs(arguments)? {
            let file = bundled_lessons::lab_file(&context.home, named)?;
            let lab = context.load(&file, &options(&arguments.vars, arguments.allow_outside))?;
            let name = lab.name.value.clone();
            if labs.iter().any(|other| other.name == name) {
                return Err(Error::message(Code::ClassSettings, format!("two of the labs are called `{name}`")));
            }
            if arguments.practice && lab.steps.is_empty() {
                let message = format!("lab `{name}` has no step, so it is no task");
                return Err(Error::message(Code::ClassSettings, message));
            }
            labs.push(LabRecord {
                name,
                source: absolute(&file),
                text: lab.source.text().to_owned(),
                vars: arguments.vars.clone(),
                allow_outside: arguments.allow_outside,
            });
        }
        let first = if arguments.practice {
            "practice".to_owned()
        } else {
            labs.first().map(|lab| lab.name.clone()).unwrap_or_default()
        };
        Ok(Self {
            schema: SCHEMA.to_owned(),
            name: arguments.name.clone().unwrap_or(first),
            created: Timestamp::now(),
            shard: arguments.shard,
            most: arguments.max_seats,
            practice: arguments.practice.then_some(arguments.minutes),
            labs,
        })
    }

    /// A class as it was kept.
    ///
    /// # Errors
    /// When there is none, or its file is damaged.
    pub(super) fn read(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(HOSTED);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let message = format!("no class `{name}` was hosted here");
                return Err(Error::message(Code::NoSuchClass, message).hint("`klab host LAB` hosts one"));
            }
            text => text.map_err(|error| state_error(error, "read", &path))?,
        };
        serde_json::from_slice(&text).code(Code::ClassJournal, || format!("could not read `{}`", path.display()))
    }

    /// Writes the class down.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(HOSTED);
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }
}

/// The labs that were named, or tasks that are drawn for a practice.
///
/// # Errors
/// When several shards would draw different ones.
fn tasks_or_labs(arguments: &Arguments) -> Result<Vec<PathBuf>> {
    if !arguments.practice || !arguments.labs.is_empty() {
        return Ok(arguments.labs.clone());
    }
    if arguments.shards > 1 && arguments.draw.is_none() {
        let message = "all shards of a class must draw the same tasks";
        return Err(Error::message(Code::ClassSettings, message).hint("`--draw NUMBER`, the same at each shard"));
    }
    let tasks = bundled_lessons::tasks();
    let drawn = Practice::default().draw(&tasks, arguments.track, arguments.minutes, practice::dice(arguments.draw));
    Ok(drawn.into_iter().map(|task| task.name.into()).collect())
}

/// As a lab of a class is read: it is on embedded clusters, whatever its file says.
fn options(vars: &[(String, String)], outside: bool) -> LoadOptions {
    let reach = Reach { outside, environment: true };
    LoadOptions { provider: Some(spec::Provider::default()), vars: vars.to_vec(), seed: None, reach }
}

impl LabRecord {
    /// The lab, as its file said when the class began.
    ///
    /// # Errors
    /// When a file that it names is gone.
    pub(super) fn load(&self) -> Result<Lab> {
        let folder = self.source.parent().unwrap_or(Path::new("."));
        // Learners read it in reports, which must not show where the instructor's files are.
        let shown = self.source.file_name().unwrap_or_default().to_string_lossy();
        let parsed = spec::parse_beside(&shown, &self.text, folder, &options(&self.vars, self.allow_outside));
        parsed.map_err(|diagnostics| invalid(&self.source, &diagnostics))
    }
}
