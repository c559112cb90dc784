//! Pure: the flags that kubectl gets from the console, and why it does not get others.

use super::flag::{Flag, Rule, Takes, switch, text, value};
use super::refusal::Refusal;

/// Those of every verb.
pub(super) const GLOBAL: &[Flag] = &[
    text("namespace").letter('n'),
    value("v", Rule::Verbosity).letter('v'),
    text("request-timeout"),
    text("as"),
    text("as-group"),
    switch("warnings-as-errors"),
    switch("help").letter('h'),
];

/// How what was found is written.
pub(super) const PRINT: &[Flag] = &[
    value("output", Rule::Output).letter('o'),
    text("template"),
    switch("allow-missing-template-keys"),
    switch("show-managed-fields"),
];
pub(super) const TABLE: &[Flag] = &[
    switch("show-labels"),
    switch("no-headers"),
    switch("show-kind"),
    text("sort-by"),
    text("label-columns").letter('L'),
];
pub(super) const FILES: &[Flag] = &[value("filename", Rule::Files).letter('f')];
/// Which objects are meant.
pub(super) const SELECT: &[Flag] =
    &[text("selector").letter('l'), text("field-selector"), switch("all"), switch("all-namespaces").letter('A')];
const DRY: &[&str] = &["none", "client", "server"];
const VALIDATION: &[&str] = &["strict", "warn", "ignore", "true", "false"];
const CASCADES: &[&str] = &["background", "foreground", "orphan", "true", "false"];
pub(super) const CHANGE: &[Flag] = &[
    Flag { takes: Takes::Perhaps { unsaid: "client", values: DRY }, ..switch("dry-run") },
    Flag { takes: Takes::Perhaps { unsaid: "strict", values: VALIDATION }, ..switch("validate") },
    text("field-manager"),
    switch("save-config"),
    switch("overwrite"),
    text("resource-version"),
    text("subresource"),
];
/// How objects go.
pub(super) const REMOVE: &[Flag] = &[
    Flag { takes: Takes::Perhaps { unsaid: "background", values: CASCADES }, ..switch("cascade") },
    switch("force"),
    text("grace-period"),
    switch("now"),
    text("timeout"),
    switch("wait"),
    switch("ignore-not-found"),
];
pub(super) const WATCH: &[Flag] = &[switch("watch").letter('w').follows(), switch("watch-only").follows()];
pub(super) const GET: &[Flag] = &[
    value("raw", Rule::Path),
    text("chunk-size"),
    switch("ignore-not-found"),
    switch("output-watch-events"),
    text("subresource"),
];
pub(super) const DESCRIBE: &[Flag] = &[switch("show-events"), text("chunk-size")];
pub(super) const EXPLAIN: &[Flag] = &[
    switch("recursive"),
    text("api-version"),
    value("output", Rule::OneOf(&["plaintext", "plaintext-openapiv2"])).letter('o'),
];
pub(super) const APPLY: &[Flag] =
    &[switch("prune"), text("prune-allowlist"), switch("server-side"), switch("force-conflicts")];
pub(super) const POD: &[Flag] = &[
    text("image"),
    text("image-pull-policy"),
    text("env"),
    text("labels").letter('l'),
    text("annotations"),
    text("port"),
    text("restart"),
    text("overrides"),
    value("override-type", Rule::OneOf(&["json", "merge", "strategic"])),
    switch("command"),
    switch("expose"),
    switch("privileged"),
    switch("quiet").letter('q'),
];
/// Of objects that `kubectl create` makes without a manifest.
pub(super) const MADE: &[Flag] = &[
    text("image"),
    text("replicas").letter('r'),
    text("port"),
    text("schedule"),
    text("restart"),
    text("from"),
    text("from-literal"),
    switch("append-hash"),
    text("type"),
    text("hard"),
    text("scopes"),
    text("value"),
    text("description"),
    switch("global-default"),
    text("preemption-policy"),
    text("selector"),
    text("min-available"),
    text("max-unavailable"),
    text("tcp"),
    text("clusterip"),
    text("node-port"),
    text("external-name"),
    text("rule"),
    text("class"),
    text("default-backend"),
    text("annotation"),
    text("verb"),
    text("resource"),
    text("resource-name"),
    text("non-resource-url"),
    text("aggregation-rule"),
    text("role"),
    text("clusterrole"),
    text("user"),
    text("group"),
    text("serviceaccount"),
];
pub(super) const EXPOSE: &[Flag] = &[
    text("port"),
    text("target-port"),
    text("protocol"),
    text("type"),
    text("name"),
    text("selector"),
    text("labels").letter('l'),
    text("cluster-ip"),
    text("external-ip"),
    text("load-balancer-ip"),
    text("session-affinity"),
    text("overrides"),
];
pub(super) const SET: &[Flag] = &[
    text("limits"),
    text("requests"),
    text("containers").letter('c'),
    text("env").letter('e'),
    text("from"),
    text("keys"),
    text("prefix"),
    switch("list"),
    switch("resolve"),
    switch("local"),
];
pub(super) const ROLLOUT: &[Flag] = &[text("revision"), text("to-revision"), text("timeout")];
pub(super) const SCALE: &[Flag] = &[text("replicas"), text("current-replicas"), text("timeout")];
pub(super) const AUTOSCALE: &[Flag] =
    &[text("min"), text("max"), text("cpu-percent"), text("cpu"), text("memory"), text("name")];
pub(super) const MARK: &[Flag] = &[switch("list"), switch("local")];
pub(super) const DRAIN: &[Flag] = &[
    switch("ignore-daemonsets"),
    switch("delete-emptydir-data"),
    switch("delete-local-data"),
    switch("disable-eviction"),
    text("pod-selector"),
    text("skip-wait-for-delete-timeout"),
    text("chunk-size"),
];
pub(super) const PATCH: &[Flag] = &[
    text("patch").letter('p'),
    value("patch-file", Rule::File),
    value("type", Rule::OneOf(&["json", "merge", "strategic"])),
    switch("local"),
];
pub(super) const WAIT: &[Flag] = &[text("for"), text("timeout")];
/// Of logs `-f` goes on and `-p` is what was before.
pub(super) const LOGS: &[Flag] = &[
    switch("follow").letter('f').follows(),
    switch("previous").letter('p'),
    text("container").letter('c'),
    text("selector").letter('l'),
    text("tail"),
    text("since"),
    text("since-time"),
    text("limit-bytes"),
    text("max-log-requests"),
    switch("timestamps"),
    switch("all-containers"),
    switch("all-pods"),
    switch("prefix"),
    switch("ignore-errors"),
];
pub(super) const EVENTS: &[Flag] =
    &[text("for"), text("types"), switch("no-headers"), switch("all-namespaces").letter('A')];
pub(super) const TOP: &[Flag] = &[
    text("sort-by"),
    switch("containers"),
    switch("no-headers"),
    switch("sum"),
    switch("show-capacity"),
    switch("use-protocol-buffers"),
];
pub(super) const RESOURCES: &[Flag] = &[
    switch("namespaced"),
    switch("no-headers"),
    text("api-group"),
    text("verbs"),
    text("categories"),
    text("sort-by"),
    value("output", Rule::OneOf(&["wide", "name", "json", "yaml"])).letter('o'),
];
pub(super) const VERSION: &[Flag] =
    &[switch("client"), switch("short"), value("output", Rule::OneOf(&["json", "yaml"])).letter('o')];
pub(super) const CAN_I: &[Flag] = &[
    switch("list"),
    switch("all-namespaces").letter('A'),
    switch("quiet").letter('q'),
    switch("no-headers"),
    text("subresource"),
];

/// What flags that lead out of the console would do, by the beginning of their names.
const WAYS_OUT: [(&[&str], &str); 11] = [
    (
        &["--token", "--username", "--password", "--client-", "--certificate-", "--insecure", "--tls-", "--as-u"],
        "the console proves itself to your cluster; for another identity there is `--as`",
    ),
    (
        &["--kubeconfig", "--context", "--cluster", "--user", "--server", "-s"],
        "the console's kubectl knows one cluster, yours, and needs no flag for it",
    ),
    (
        &["--filename-", "--recursive", "-R"],
        "the editor has no folders to walk through: name its files one by one with `-f`",
    ),
    (&["--kustomize", "-k"], "the editor has single manifests: name them with `-f`"),
    (
        &["--from-file", "--from-env-file", "--cert", "--key"],
        "the console reads no files of the machine: `--from-literal=KEY=VALUE`, or a manifest in the editor",
    ),
    (
        &["--stdin", "-i", "--tty", "-t", "--attach", "--rm", "--interactive"],
        "nothing can be typed to a command that runs here: leave it out",
    ),
    (&["--edit", "--windows-line-endings"], "there is no editor behind kubectl here: the page has one"),
    (
        &["--cache-dir", "--profile", "--log", "--vmodule", "--output-directory"],
        "the console writes no files of the machine",
    ),
    (&["--prune-whitelist"], "kubectl has `--prune-allowlist` for it"),
    (&["--record"], "kubectl has given it up: leave it out"),
    (&["--port", "--address", "--accept-", "--reject-", "--www"], "the console opens no ports"),
];

/// Why a flag is not taken.
pub(super) fn refusal<'f>(verb: &str, typed: &str, known: impl Iterator<Item = &'f Flag>) -> Refusal {
    let known: Vec<&Flag> = known.collect();
    // kubectl takes underscores for dashes; here each flag has one name.
    let dashed = typed.replace('_', "-");
    let name = dashed.trim_start_matches('-');
    if dashed != typed && known.iter().any(|flag| flag.name == name) {
        return Refusal::new(format!("write `{dashed}` for `{typed}`"));
    }
    let is_out = |start: &&&str| match start.strip_suffix('-') {
        Some(_) => dashed.starts_with(**start),
        None => dashed == ***start || (start.len() > 2 && dashed.starts_with(**start)),
    };
    if let Some((_, reason)) = WAYS_OUT.iter().find(|(starts, _)| starts.iter().any(|start| is_out(&start))) {
        return Refusal::new(format!("`{typed}` is not taken here: {reason}"));
    }
    let begun = known.iter().filter(|flag| name.len() > 1 && flag.name.starts_with(name));
    let near = begun.min_by_key(|flag| flag.name.len());
    let slip = |flag: &&&Flag| name.len() > 2 && strsim::damerau_levenshtein(flag.name, name) <= 2;
    let near = near.or_else(|| known.iter().find(slip));
    if let Some(near) = near {
        return Refusal::new(format!("`kubectl {verb}` has no `{typed}` here; did you mean `--{}`?", near.name));
    }
    let mut names: Vec<String> = known.iter().map(|flag| format!("`--{}`", flag.name)).collect();
    names.sort();
    names.dedup();
    Refusal::new(format!("`kubectl {verb}` has no `{typed}` here; it has {}", names.join(", ")))
}
