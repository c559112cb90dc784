//! How klab was called: by its own name, or by kubectl as its plugin, `kubectl klab`; and its commands as they are typed then.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// The name under which kubectl finds a plugin that is typed `kubectl klab`.
const PLUGIN: &str = "kubectl-klab";

/// How klab was called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invocation {
    /// klab's commands, where kubectl was typed before them.
    plugin: Option<Vec<&'static str>>,
}

impl Invocation {
    /// By the name of the program; `commands` are those that klab has.
    pub fn of(program: Option<&OsStr>, commands: impl IntoIterator<Item = &'static str>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        Self { plugin: (name == Some(OsStr::new(PLUGIN))).then(|| commands.into_iter().collect()) }
    }

    /// Whether kubectl called klab.
    pub fn is_plugin(&self) -> bool {
        self.plugin.is_some()
    }

    /// What is typed before a command.
    pub fn name(&self) -> &'static str {
        if self.is_plugin() { "kubectl klab" } else { "klab" }
    }

    /// A text in which klab's commands are written as they are typed.
    pub fn spelled<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(commands) = &self.plugin else { return Cow::Borrowed(text) };
        let mut spelled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("klab ") {
            let (before, from) = rest.split_at(at);
            let after = &from["klab ".len()..];
            let word = after.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default();
            // In back quotes, or alone on its line: a sentence that begins with klab's name is none of its commands.
            let begins =
                before.is_empty() && spelled.is_empty() || before.ends_with(['`', '(', '\n']) || before.ends_with("  ");
            spelled.push_str(before);
            if begins && commands.contains(&word) {
                spelled.push_str("kubectl ");
            }
            spelled.push_str("klab ");
            rest = after;
        }
        spelled.push_str(rest);
        Cow::Owned(spelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_spelled_as_they_are_typed_and_nothing_else_is_changed() {
        let commands = || ["verify", "up"];
        let text = "`klab verify web` or klab up; klab looks\n  klab up    klab verify\nklab upsets";
        assert_eq!(Invocation::of(Some(OsStr::new("/usr/bin/klab")), commands()).spelled(text), text);
        let plugin = Invocation::of(Some(OsStr::new("/home/me/bin/kubectl-klab")), commands());
        assert_eq!(
            plugin.spelled(text),
            "`kubectl klab verify web` or klab up; klab looks\n  kubectl klab up    kubectl klab verify\nklab upsets"
        );
        assert_eq!(plugin.spelled("klab up lab.toml"), "kubectl klab up lab.toml");
    }
}
