//! What a shell completes: labs, lessons, steps, workloads, pods, pools, providers and codes. Whatever fails, nothing is offered.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::CompleteEnv;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::cli::Cli;
use klab_lab::code;
use klab_lab::spec::{self, Lab, LoadOptions, Provider};
use klab_operations::bundled_lessons;
use klab_operations::client::connect_within;
use klab_operations::context::{Context, is_path};
use klab_operations::environment;
use klab_operations::event::Nowhere;
use klab_operations::interruption::Interruption;
use klab_operations::kubeconfig;
use klab_operations::running_lab;
use klab_operations::state::Home;
use klab_operations::state::class::Class;
use klab_operations::ui::{Format, Ui};

/// How long a cluster may take to name its pods: who presses Tab waits no longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most pods that are asked for.
const MAX_PODS: u32 = 500;

/// Answers the shell, where it is a shell that asks; says whether it was.
pub(crate) fn answered(arguments: &[OsString]) -> bool {
    if environment::KLAB_COMPLETE.value().is_none() {
        return false;
    }
    // klab's words to the shell, `--`, and what was typed.
    let typed = arguments.iter().skip_while(|word| *word != "--").skip(2).cloned().collect();
    let typed = Arc::new(Typed { words: typed });
    let here = std::env::current_dir().ok();
    let klab = || completed(Cli::whole(), &typed);
    // An answer that could not be written cannot be reported anywhere.
    CompleteEnv::with_factory(klab)
        .var(environment::KLAB_COMPLETE.name)
        .try_complete(arguments.to_vec(), here.as_deref())
        .unwrap_or(true)
}

/// The command line so far.
struct Typed {
    words: Vec<OsString>,
}

/// What an argument's values are.
#[derive(Clone, Copy)]
enum Values {
    Labs,
    LabFiles,
    Steps,
    Targets,
    Workloads,
    Pools,
    Providers,
    Codes,
}

impl Values {
    /// Of an argument of a subcommand.
    fn of(command: &str, argument: &Arg) -> Option<Self> {
        let makes = matches!(command, "up" | "plan" | "render" | "check" | "test");
        Some(match argument.get_id().as_str() {
            "lab" | "labs" if makes => Self::LabFiles,
            "lab" => Self::Labs,
            "step" | "to" => Self::Steps,
            "target" => Self::Targets,
            "workload" => Self::Workloads,
            "pool" => Self::Pools,
            "provider" => Self::Providers,
            "code" if command == "explain-code" => Self::Codes,
            _ => return None,
        })
    }
}

/// The command line with what its values are.
fn completed(klab: Command, typed: &Arc<Typed>) -> Command {
    klab.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let command = command.mut_args(|argument| match Values::of(&name, &argument) {
            Some(values) if argument.get_action().takes_values() => {
                let typed = Arc::clone(typed);
                argument.add(ArgValueCompleter::new(move |current: &OsStr| typed.candidates(values, current)))
            }
            _ => argument,
        });
        completed(command, typed)
    })
}

impl Typed {
    fn candidates(&self, values: Values, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = self.found(values).unwrap_or_default();
        found.sort();
        found.dedup();
        let begin = current.to_string_lossy();
        let fits = found.into_iter().filter(|value| value.starts_with(&*begin));
        let mut candidates: Vec<CompletionCandidate> = fits.map(CompletionCandidate::new).collect();
        if let Values::LabFiles = values {
            let is_lab_file = |path: &Path| path.extension().is_some_and(|extension| extension == "toml");
            candidates.extend(PathCompleter::file().filter(is_lab_file).complete(current));
        }
        candidates
    }

    /// The values there are, whatever was begun.
    fn found(&self, values: Values) -> Option<Vec<String>> {
        let context = context();
        let lab = || self.lab(context.as_ref()?);
        Some(match values {
            Values::Providers => Provider::ALL.iter().map(ToString::to_string).collect(),
            Values::Codes => code::pages().iter().map(|page| page.code.clone()).collect(),
            Values::Labs => context?.home.labs().ok()?,
            Values::LabFiles => {
                let lessons = bundled_lessons::all().into_iter().map(|lesson| lesson.name.to_owned());
                lessons.chain(context?.home.labs().ok()?).collect()
            }
            Values::Steps => lab()?.steps.into_iter().map(|step| step.name.value).collect(),
            Values::Workloads => workloads(&lab()?),
            Values::Pools => lab()?.pools.into_iter().map(|pool| pool.name.value).collect(),
            Values::Targets => {
                let lab = lab()?;
                let mut targets = workloads(&lab);
                targets.extend(pods(context.as_ref()?, &lab.name.value).unwrap_or_default());
                targets
            }
        })
    }

    /// The lab that was named, by its name, its file or as a lesson; else the one that is meant where none is named.
    fn lab(&self, context: &Context) -> Option<Lab> {
        let labs = context.home.labs().ok()?;
        let words = || self.words.iter().skip(1).filter_map(|word| word.to_str());
        let options = LoadOptions::default();
        if let Some(name) = words().find(|word| labs.iter().any(|lab| lab == word)) {
            return read(context, name);
        }
        if let Some(file) = words().find(|word| is_path(word) && Path::new(word).is_file()) {
            return spec::load(Path::new(file), &options).ok();
        }
        if let Some(lesson) = words().find(|word| bundled_lessons::all().iter().any(|lesson| lesson.name == *word)) {
            return spec::load(&bundled_lessons::lab_file(&context.home, Path::new(lesson)).ok()?, &options).ok();
        }
        read(context, &context.lab_or_class_name(None).ok()?)
    }
}

/// A lab that is up; of a class any seat's, as they are alike.
fn read(context: &Context, name: &str) -> Option<Lab> {
    let seat = Class::read(&context.home, name).ok()?.and_then(|class| class.names().next().map(|(_, seat)| seat));
    running_lab::lab(context, seat.unwrap_or_else(|| name.to_owned()), None, LoadOptions::default()).ok()
}

fn workloads(lab: &Lab) -> Vec<String> {
    lab.workloads.iter().map(|workload| workload.name.value.clone()).collect()
}

/// The pods of a cluster that answers at once, those of the system left out. Where a program would log in first, as that of a
/// cloud does, none: pressing Tab runs nothing.
fn pods(context: &Context, lab: &str) -> Option<Vec<String>> {
    let path = context.home.lab(lab).join("kubeconfig");
    if kubeconfig::programs(&kubeconfig::read(Some(&path)).ok()?).next().is_some() {
        return None;
    }
    let asked = async {
        let client = connect_within(&path, PATIENCE).await.ok()?;
        Api::<Pod>::all(client).list_metadata(&ListParams::default().limit(MAX_PODS)).await.ok()
    };
    let pods = context.block_on(async { Ok(tokio::time::timeout(PATIENCE, asked).await.ok().flatten()) });
    let of_lab = pods.ok()??.items.into_iter().filter(|pod| pod.namespace().as_deref() != Some("kube-system"));
    Some(of_lab.map(|pod| pod.name_any()).collect())
}

/// A context that says nothing.
fn context() -> Option<Context> {
    let home = Home::from_environment().ok()?;
    let silent = Ui::new(Format::Human, true, false).apart(Arc::new(Nowhere));
    Some(Context::new(silent, home, Interruption::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is offered for the last of the words.
    fn offered(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let typed = Arc::new(Typed { words: words[1..].to_vec() });
        let last = words.len() - 1;
        let candidates = clap_complete::engine::complete(&mut completed(Cli::whole(), &typed), words, last, None);
        candidates.unwrap().iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn subcommands_options_and_providers() {
        assert_eq!(offered(&["klab", "ver"]), ["verify"]);
        assert_eq!(offered(&["klab", "up", "--prov"]), ["--provider"]);
        assert_eq!(offered(&["klab", "up", "--provider", "k"]), ["kind"]);
        assert_eq!(offered(&["klab", "verify", "--format", "ju"]), ["junit"]);
        assert_eq!(offered(&["klab", "pool", "sc"]), ["scale"]);
        assert_eq!(offered(&["klab", "explain-code", "K0103"]), ["K0103"]);
    }

    #[test]
    fn steps_workloads_and_pools_of_a_lab_file() {
        let file = "labs/taints.toml";
        assert!(!offered(&["klab", "render", file, "--workload", ""]).is_empty());
        let lesson = "labs/scheduling.toml";
        let steps = offered(&["klab", "render", lesson, "--step", ""]);
        let lab = spec::load(Path::new(lesson), &LoadOptions::default()).unwrap();
        assert_eq!(steps.len(), lab.steps.len(), "{steps:?}");
        assert_eq!(offered(&["klab", "check", "labs/sched"]).first().map(String::as_str), Some("labs/scheduler.toml"));
    }

    #[test]
    fn no_program_that_logs_in_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let (home, ran) = (Home::new(folder.path()), folder.path().join("ran"));
        let kubeconfig = home.lab("x").join("kubeconfig");
        std::fs::create_dir_all(home.lab("x")).unwrap();
        let exec = format!(
            "{{ apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['{}'], interactiveMode: Never }}",
            ran.display()
        );
        std::fs::write(
            &kubeconfig,
            format!(
                "{{ current-context: x, clusters: [{{ name: c, cluster: {{ server: 'http://127.0.0.1:1' }} }}], \
                 users: [{{ name: u, user: {{ exec: {exec} }} }}], contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}] }}"
            ),
        )
        .unwrap();
        let silent = Ui::new(Format::Human, true, false);
        assert_eq!(pods(&Context::new(silent, home, Interruption::default()), "x"), None);
        assert!(!ran.exists());
    }

    #[test]
    fn every_value_that_can_be_known_is_completed() {
        fn walk(command: &Command, within: &str, found: &mut Vec<String>) {
            for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
                if Values::of(within, argument).is_some() {
                    found.push(format!("{} {}", command.get_name(), argument.get_id()));
                    assert!(
                        argument.get::<ArgValueCompleter>().is_some(),
                        "{} {}",
                        command.get_name(),
                        argument.get_id()
                    );
                }
            }
            for sub in command.get_subcommands() {
                walk(sub, sub.get_name(), found);
            }
        }
        let mut found = Vec::new();
        walk(&completed(Cli::whole(), &Arc::new(Typed { words: Vec::new() })), "klab", &mut found);
        for wanted in
            ["verify step", "step to", "reset to", "explain target", "explain lab", "scale pool", "up provider"]
        {
            assert!(found.iter().any(|known| known == wanted), "{wanted}: {found:?}");
        }
    }
}
