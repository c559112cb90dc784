//! Pure: the verbs of kubectl that the console runs, and what is said of others.

use super::flag::Flag;
use super::flags::{
    APPLY, AUTOSCALE, CAN_I, CHANGE, DESCRIBE, DRAIN, EVENTS, EXPLAIN, EXPOSE, FILES, GET, LOGS, MADE, MARK, PATCH,
    POD, PRINT, REMOVE, RESOURCES, ROLLOUT, SCALE, SELECT, SET, TABLE, TOP, VERSION, WAIT, WATCH,
};
use super::refusal::{Refusal, quoted};

/// A command of kubectl.
#[derive(Debug)]
pub(super) struct Verb {
    /// Its words; of those with `|` between them one is typed, and the first is what kubectl gets.
    pub(super) path: &'static str,
    pub(super) flags: &'static [&'static [Flag]],
    /// Whether `--` and a container's command may follow.
    pub(super) takes_command: bool,
    /// Whether it goes on until somebody ends it.
    pub(super) follows: bool,
}

const fn verb(path: &'static str, flags: &'static [&'static [Flag]]) -> Verb {
    Verb { path, flags, takes_command: false, follows: false }
}

impl Verb {
    const fn takes_command(mut self) -> Self {
        self.takes_command = true;
        self
    }

    /// As it is completed: the first of each word.
    pub(super) fn first_names(&self) -> String {
        self.words().map(|names| names.split('|').next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
    }

    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.path.split(' ')
    }

    /// The words that kubectl gets, where the typed ones are this verb's.
    fn matches(&self, typed: &[&str]) -> Option<Vec<&'static str>> {
        let words: Vec<&str> = self.words().collect();
        if words.len() > typed.len() {
            return None;
        }
        let is = |(names, typed): (&&'static str, &&str)| {
            let first = names.split('|').next()?;
            names.split('|').any(|name| name == *typed).then_some(first)
        };
        words.iter().zip(typed).map(is).collect()
    }
}

const CREATE: &[&[Flag]] = &[MADE, PRINT, CHANGE];
const SETS: &[&[Flag]] = &[SET, PRINT, FILES, SELECT, CHANGE];
const ROLLS: &[&[Flag]] = &[ROLLOUT, PRINT, FILES, SELECT, CHANGE];

static VERBS: [Verb; 59] = [
    verb("get", &[GET, PRINT, TABLE, FILES, SELECT, WATCH]),
    verb("describe", &[DESCRIBE, FILES, SELECT]),
    verb("explain", &[EXPLAIN]),
    verb("events", &[EVENTS, PRINT, WATCH]),
    verb("logs|log", &[LOGS]),
    verb("top node|nodes|no", &[TOP, SELECT]),
    verb("top pod|pods|po", &[TOP, SELECT]),
    verb("wait", &[WAIT, PRINT, FILES, SELECT]),
    verb("apply", &[APPLY, PRINT, FILES, SELECT, CHANGE, REMOVE]),
    verb("apply view-last-applied", &[PRINT, FILES, SELECT]),
    verb("create", &[PRINT, FILES, SELECT, CHANGE]),
    verb("create deployment|deploy|dep", CREATE).takes_command(),
    verb("create job", CREATE).takes_command(),
    verb("create cronjob|cj", CREATE).takes_command(),
    verb("create namespace|ns", CREATE),
    verb("create configmap|cm", CREATE),
    verb("create secret generic", CREATE),
    verb("create serviceaccount|sa", CREATE),
    verb("create quota|resourcequota", CREATE),
    verb("create priorityclass|pc", CREATE),
    verb("create poddisruptionbudget|pdb", CREATE),
    verb("create service|svc clusterip", CREATE),
    verb("create service|svc nodeport", CREATE),
    verb("create service|svc loadbalancer", CREATE),
    verb("create service|svc externalname", CREATE),
    verb("create ingress|ing", CREATE),
    verb("create role", CREATE),
    verb("create clusterrole", CREATE),
    verb("create rolebinding", CREATE),
    verb("create clusterrolebinding", CREATE),
    verb("replace", &[PRINT, FILES, CHANGE, REMOVE]),
    verb("patch", &[PATCH, PRINT, FILES, CHANGE]),
    verb("delete", &[PRINT, FILES, SELECT, CHANGE, REMOVE]),
    verb("run", &[POD, PRINT, CHANGE]).takes_command(),
    verb("expose", &[EXPOSE, PRINT, FILES, CHANGE]),
    verb("scale", &[SCALE, PRINT, FILES, SELECT, CHANGE]),
    verb("autoscale", &[AUTOSCALE, PRINT, FILES, CHANGE]),
    verb("set image", SETS),
    verb("set resources", SETS),
    verb("set env", SETS),
    verb("set selector", SETS),
    verb("set serviceaccount|sa", SETS),
    verb("rollout status", &[ROLLOUT, FILES, SELECT, WATCH]),
    verb("rollout history", ROLLS),
    verb("rollout restart", ROLLS),
    verb("rollout undo", ROLLS),
    verb("rollout pause", ROLLS),
    verb("rollout resume", ROLLS),
    verb("label", &[MARK, PRINT, FILES, SELECT, CHANGE]),
    verb("annotate", &[MARK, PRINT, FILES, SELECT, CHANGE]),
    verb("taint", &[PRINT, SELECT, CHANGE]),
    verb("cordon", &[SELECT, CHANGE]),
    verb("uncordon", &[SELECT, CHANGE]),
    verb("drain", &[DRAIN, SELECT, CHANGE, REMOVE]),
    verb("api-resources", &[RESOURCES]),
    verb("api-versions", &[]),
    verb("version", &[VERSION]),
    verb("auth can-i", &[CAN_I]),
    verb("auth whoami", &[PRINT]),
];

/// What lessons are about, for completion.
pub(super) const KINDS: [&str; 32] = [
    "all",
    "clusterroles",
    "configmaps",
    "cronjobs",
    "daemonsets",
    "deployments",
    "endpointslices",
    "events",
    "horizontalpodautoscalers",
    "ingresses",
    "jobs",
    "leases",
    "limitranges",
    "namespaces",
    "networkpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "priorityclasses",
    "replicasets",
    "resourcequotas",
    "resourceslices",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "secrets",
    "serviceaccounts",
    "services",
    "statefulsets",
    "storageclasses",
];

/// What does the same as a verb that is not run.
const OTHERS: [(&[&str], &str); 11] = [
    (
        &["edit"],
        "the page opens its editor for `kubectl edit KIND/NAME` alone. For more than that: `kubectl get KIND NAME -o yaml`, the button \
         \"To the editor\" below what that prints, a change, and \"Apply\"",
    ),
    (
        &["exec", "attach", "debug"],
        "nothing runs in the pods of this cluster that one could go into; `kubectl describe pod` shows what is known of one",
    ),
    (
        &["cp", "port-forward", "proxy"],
        "it would move data past the console; `kubectl get --raw /api/v1/…` asks the API, the page is the way to look",
    ),
    (&["config"], "the console's kubectl knows one cluster, yours; the page has your kubeconfig to download"),
    (&["plugin", "completion"], "it runs or prints programs; the console completes verbs and kinds itself"),
    (&["kustomize"], "the editor has single manifests: `kubectl apply -f NAME`"),
    (&["diff"], "it runs another program; `kubectl apply -f NAME --dry-run=server -o yaml` shows what would be"),
    (&["cluster-info"], "`kubectl get --raw /healthz` says whether the cluster is well, the page where it is"),
    (
        &["certificate", "alpha", "convert"],
        "no lesson needs it; it works with your own kubectl and the kubeconfig of the page",
    ),
    (&["help", "options"], "`kubectl VERB --help` shows the flags of a verb"),
    (&["delete-all", "ls"], "`kubectl get all` and `kubectl delete all --all` are what kubectl calls it"),
];

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter()
}

/// The names of all verbs, each once.
pub(super) fn listed() -> String {
    let mut names: Vec<&str> = all().filter_map(|verb| verb.words().next()?.split('|').next()).collect();
    names.dedup();
    quoted(&names)
}

/// The verb that is meant, and its words as kubectl gets them: the longest that fits.
pub(super) fn find(name: &str, rest: &[&str]) -> Result<(&'static Verb, Vec<&'static str>), Refusal> {
    let typed: Vec<&str> = [name].into_iter().chain(rest.iter().copied()).collect();
    let found = all().filter_map(|verb| Some((verb, verb.matches(&typed)?)));
    if let Some(found) = found.max_by_key(|(_, path)| path.len()) {
        return Ok(found);
    }
    let of_name = |verb: &&Verb| verb.words().next().is_some_and(|names| names.split('|').any(|one| one == name));
    let under: Vec<String> = all().filter(of_name).map(Verb::first_names).collect();
    if !under.is_empty() {
        let under: Vec<&str> = under.iter().map(String::as_str).collect();
        return Err(Refusal::new(format!("after `kubectl {name}` comes what it is about: {}", quoted(&under))));
    }
    if let Some((_, reason)) = OTHERS.iter().find(|(names, _)| names.contains(&name)) {
        return Err(Refusal::new(format!("`kubectl {name}` is not run here: {reason}")));
    }
    let shown: String = name.chars().take(40).collect();
    if let Some(letter) = name.chars().find(|letter| !letter.is_ascii()) {
        let number = u32::from(letter);
        return Err(Refusal::new(format!(
            "`{shown}` has the letter U+{number:04X}, which no command of kubectl has: type it again"
        )));
    }
    Err(Refusal::new(format!("kubectl has no `{shown}` here; it has {}", listed())))
}

/// What is said of a line that does not begin with kubectl.
pub(super) fn not_kubectl(word: &str) -> String {
    let is_verb = all().any(|verb| verb.words().next().is_some_and(|names| names.split('|').any(|one| one == word)));
    match word {
        _ if is_verb => format!("begin with kubectl: `kubectl {word} …`"),
        "watch" => "kubectl watches itself: `kubectl get pods -w`".to_owned(),
        "kind" | "docker" | "helm" => {
            format!(
                "`{word}` does not run in this console: the button \"Do this step for me\" does what the step asks for"
            )
        }
        "vi" | "vim" | "nano" | "cat" | "ls" | "touch" | "rm" | "mv" | "cp" => {
            "files are in the editor of the page".to_owned()
        }
        _ if klab_filters::NAMES.contains(&word) => {
            format!("`{word}` stands behind a command here: `kubectl get pods | {word} …`")
        }
        _ => "the console runs kubectl, klab and az, and no other program: `kubectl get nodes`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_verb_is_meant() {
        for (typed, wanted) in [
            ("get pods", vec!["get"]),
            ("create -f x", vec!["create"]),
            ("create deploy x", vec!["create", "deployment"]),
            ("create secret generic x", vec!["create", "secret", "generic"]),
            ("top no", vec!["top", "node"]),
            ("apply view-last-applied deploy/x", vec!["apply", "view-last-applied"]),
        ] {
            let words: Vec<&str> = typed.split(' ').collect();
            assert_eq!(find(words[0], &words[1..]).unwrap().1, wanted, "{typed}");
        }
    }

    #[test]
    fn no_verb_has_a_letter_or_name_for_two_flags() {
        for verb in all() {
            let own: Vec<&Flag> = verb.flags.iter().copied().flatten().collect();
            for (at, flag) in own.iter().enumerate() {
                let same =
                    |other: &&&Flag| other.name == flag.name || (flag.letter.is_some() && other.letter == flag.letter);
                assert!(!own[at + 1..].iter().any(|other| same(&other)), "{}: --{}", verb.path, flag.name);
            }
        }
    }
}
