//! A shell of a lab: its variables, and how the user's own shell starts with them and with the lab's name in its prompt.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use klab_operations::environment;
use klab_operations::exec::{Command, quoted};
use klab_operations::provider::AzureNames;
use klab_server::files::{create_private_folder, write_private};

/// What a shell of a lab knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabShell {
    /// The lab.
    pub lab: String,
    /// Where its kubeconfig is.
    pub kubeconfig: PathBuf,
    /// The group its cluster is in on AKS, or would be in, and what it is called there; none of a cluster that klab did not make.
    pub azure: Option<AzureNames>,
    /// A folder of programs that come before all others, where the lab has some.
    pub programs: Option<PathBuf>,
}

impl LabShell {
    /// The environment variables, by name: the lab's kubeconfig, and what workshops call the group and the cluster.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let own = [("KUBECONFIG", self.kubeconfig.clone().into_os_string()), ("KLAB_LAB", OsString::from(&self.lab))];
        let azure = self.azure.iter();
        let azure = azure.flat_map(|names| [("RES_GROUP", &names.group), ("AKS_NAME", &names.cluster)]);
        own.into_iter().chain(azure.map(|(name, value)| (name, OsString::from(value)))).collect()
    }

    /// The variables as a shell takes them, `eval "$(klab env)"`; the lab's programs come first.
    pub fn exports(&self) -> String {
        let line = |(name, value): (&str, OsString)| format!("export {name}={}\n", quoted(&value.to_string_lossy()));
        let path = |folder: &PathBuf| format!("export PATH={}:\"$PATH\"\n", quoted(&folder.to_string_lossy()));
        let programs = self.programs.as_ref().map(path);
        self.variables().into_iter().map(line).chain(programs).collect()
    }

    /// The user's shell with the variables and the lab's name in its prompt. What it reads when it starts is written into
    /// `folder`; a shell that klab does not know starts with the variables alone.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn start(&self, shell: &Path, zdotdir: &Path, folder: &Path) -> io::Result<Command> {
        let command = Command::new(shell);
        let prompt = format!("(klab:{}) ", self.lab);
        let command = match shell.file_name().and_then(|name| name.to_str()) {
            Some("bash") => {
                create_private_folder(folder)?;
                let file = folder.join("bashrc");
                let text =
                    format!("[ -f ~/.bashrc ] && . ~/.bashrc\n{}PS1={}\"$PS1\"\n", self.exports(), quoted(&prompt));
                write_private(&file, text.as_bytes())?;
                command.arg("--rcfile").arg(file).arg("-i")
            }
            Some("zsh") => {
                create_private_folder(folder)?;
                let own = quoted(&zdotdir.to_string_lossy()).into_owned();
                let environment = format!("[ -f {own}/.zshenv ] && . {own}/.zshenv\n");
                write_private(&folder.join(".zshenv"), environment.as_bytes())?;
                let text = format!(
                    "ZDOTDIR={own}\n[ -f {own}/.zshrc ] && . {own}/.zshrc\n{}PROMPT={}\"$PROMPT\"\n",
                    self.exports(),
                    quoted(&prompt)
                );
                write_private(&folder.join(".zshrc"), text.as_bytes())?;
                command.arg("-i").env("ZDOTDIR", folder)
            }
            Some("fish") => {
                let first = |folder: &PathBuf| format!("; set -gx PATH {} $PATH", quoted(&folder.to_string_lossy()));
                command.arg("--init-command").arg(format!(
                    "functions --copy fish_prompt klab_other_prompt; function fish_prompt; echo -n {}; klab_other_prompt; end{}",
                    quoted(&prompt),
                    self.programs.as_ref().map(first).unwrap_or_default()
                ))
            }
            _ => match (&self.programs, environment::PATH.value()) {
                (Some(folder), Some(path)) => {
                    let mut first = folder.clone().into_os_string();
                    first.push(":");
                    first.push(path);
                    command.env("PATH", first)
                }
                _ => command,
            },
        };
        Ok(self.variables().into_iter().fold(command, |command, (name, value)| command.env(name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> LabShell {
        LabShell {
            lab: "one".into(),
            kubeconfig: PathBuf::from("/home/a b/it's/kubeconfig"),
            azure: Some(AzureNames { group: "klab-one".into(), cluster: "klab-one".into() }),
            programs: Some(PathBuf::from("/home/a b/bin")),
        }
    }

    #[test]
    fn values_are_quoted_as_a_shell_reads_them() {
        let exports = shell().exports();
        assert_eq!(
            exports.lines().collect::<Vec<_>>(),
            [
                r"export KUBECONFIG='/home/a b/it'\''s/kubeconfig'",
                "export KLAB_LAB=one",
                "export RES_GROUP=klab-one",
                "export AKS_NAME=klab-one",
                r#"export PATH='/home/a b/bin':"$PATH""#,
            ]
        );
    }

    #[test]
    fn every_shell_gets_the_variables_and_one_that_klab_knows_a_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let words = |shell: &LabShell, program: &str| {
            format!("{:?}", shell.start(Path::new(program), Path::new("/home/me"), folder.path()).unwrap())
        };
        for program in ["/bin/bash", "/usr/bin/zsh", "/usr/bin/fish", "/bin/sh"] {
            let command = words(&shell(), program);
            assert!(command.contains("KUBECONFIG") && command.contains("AKS_NAME"), "{command}");
        }
        assert!(read("bashrc").contains("export PATH='/home/a b/bin':\"$PATH\"\nPS1='(klab:one) '\"$PS1\""));
        assert!(read(".zshrc").starts_with("ZDOTDIR=/home/me\n[ -f /home/me/.zshrc ]"), "{}", read(".zshrc"));
        assert!(read(".zshenv").contains("/home/me/.zshenv"));
    }
}
