//! Pure: one thing of a step that is done by hand: a command, a sentence, a change in an editor; and the words they are made of.

use crate::exec;
use klab_lab::spec::Workload;

/// One line of what is to be done by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A command line to type.
    Command(String),
    /// A sentence, where no command does it, or one needs a word.
    Note(String),
    /// Fields of an object that are to be others.
    Edit(Edit),
}

/// A change of an object's fields: as people make it, in an editor, and as programs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The command that opens the editor.
    pub open: String,
    /// The fields that are to be others, each as a whole, as YAML; empty where fields are only taken out.
    pub yaml: String,
    /// Paths of the fields that are to be taken out.
    pub gone: Vec<String>,
    /// The commands that do it without an editor.
    pub patches: Vec<String>,
}

impl Line {
    /// What a shell takes: a command, a sentence as a comment to it.
    pub fn pasted(&self) -> Vec<String> {
        match self {
            Self::Command(command) => vec![command.clone()],
            Self::Note(note) => vec![format!("# {note}")],
            Self::Edit(edit) => edit.patches.clone(),
        }
    }

    /// The commands that do it; none for a sentence.
    pub fn commands(&self) -> &[String] {
        match self {
            Self::Command(command) => std::slice::from_ref(command),
            Self::Note(_) => &[],
            Self::Edit(edit) => &edit.patches,
        }
    }
}

impl Edit {
    /// What is done in the editor: sentences, each with the lines that belong to it.
    pub fn instructions(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut instructions = Vec::new();
        if !self.yaml.is_empty() {
            instructions.push(("In the editor, set these fields to:", self.yaml.lines().collect()));
        }
        if !self.gone.is_empty() {
            let words = match (self.yaml.is_empty(), self.gone.len()) {
                (true, 1) => "In the editor, delete the whole field:",
                (true, _) => "In the editor, delete these whole fields:",
                (false, 1) => "Delete the whole field:",
                (false, _) => "Delete these whole fields:",
            };
            instructions.push((words, self.gone.iter().map(String::as_str).collect()));
        }
        instructions
    }
}

pub(super) fn command(program: &str, arguments: impl IntoIterator<Item = String>) -> Line {
    Line::Command(command_line(program, arguments))
}

pub(super) fn command_line(program: &str, arguments: impl IntoIterator<Item = String>) -> String {
    exec::Command::new(program).args(arguments).to_string()
}

pub(super) fn object(workload: &Workload) -> String {
    format!("{}/{}", workload.kind.as_str(), workload.name)
}

pub(super) fn namespace(name: &str) -> Vec<String> {
    if name == "default" || name.is_empty() { Vec::new() } else { vec!["-n".to_owned(), name.to_owned()] }
}
