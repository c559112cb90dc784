//! The names of fields that sources spell (where they index JSON, write it with `json!`, or follow a path into it) are those of
//! Kubernetes' types.
//!
//! A name with another letter than those of `camelCase` is a key of a map (a label, a resource, a file), and no field.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::graph::sources;

/// The crates that read and write objects as JSON.
const CRATES: [&str; 4] = ["api-machinery", "cluster", "fields", "server"];

/// Fields of a Status and of the metadata of a list, which are no kinds; amounts of resources.
const EVERYWHERE: &str = "causes code continue cpu details field memory remainingItemCount retryAfterSeconds";

/// What is no object of a kind, by the files that read or write it.
const OTHERS: &[(&str, &str)] = &[
    // OpenAPI documents.
    ("api-machinery/src/openapi/mod.rs", "in schemas securitySchemes"),
    ("api-machinery/src/openapi/parameter.rs", "in"),
    (
        "api-machinery/src/openapi/version2.rs",
        "in info operationId responses schemes security securityDefinitions swagger tags",
    ),
    (
        "api-machinery/src/openapi/version2_message.rs",
        "in info operationId responses security securityDefinitions swagger",
    ),
    ("api-machinery/src/openapi/version3.rs", "content operationId requestBody responses tags"),
    // Tokens of ServiceAccounts.
    ("cluster/src/account_token.rs", "alg aud exp iat iss jti kid nbf pod sub"),
    ("cluster/src/api/token.rs", "aud iss jti serviceaccount sub"),
    ("cluster/src/control/account_tokens.rs", "iss sub"),
    // Discovery, and the version of the server.
    ("cluster/src/api/discovery.rs", "freshness responseKind singularResource"),
    (
        "cluster/src/api/health.rs",
        "buildDate compiler emulationMajor emulationMinor gitCommit gitTreeState gitVersion goVersion major \
         minCompatibilityMajor minCompatibilityMinor minor platform",
    ),
    // Parameters of requests.
    ("cluster/src/api/logs.rs", "sinceTime stream"),
    ("cluster/src/api/mod.rs", "hash"),
    ("cluster/src/api/present.rs", "includeObject"),
    ("cluster/src/api/pretty.rs", "pretty"),
    ("cluster/src/api/query.rs", "timeout"),
    ("cluster/src/api/read.rs", "limit resourceVersionMatch sendInitialEvents"),
    ("cluster/src/api/watch.rs", "resourceVersionMatch sendInitialEvents"),
    ("cluster/src/api/write.rs", "fieldManager fieldValidation force"),
    // Tokens of pages, of klab's own.
    ("cluster/src/api/pages.rs", "begun rv v"),
    // Objects of metrics.k8s.io.
    ("cluster/src/api/metrics.rs", "usage"),
    // What executed commands write in containers, of klab's own.
    ("cluster/src/containers.rs", "writes"),
    ("cluster/src/containers/written_files.rs", "writes"),
    // The ConfigMaps of the cluster autoscaler.
    ("cluster/src/control/cluster_autoscaler/configuration.rs", "priorities"),
    (
        "cluster/src/control/cluster_autoscaler/status.rs",
        "autoscalerStatus backoffInfo candidates cloudProviderTarget clusterWide errorMessage longUnregistered maxSize \
         minSize nodeCounts nodeGroups notStarted registered resourceUnready suspended total unready unregistered",
    ),
    // The object of AKS, and a KubeSchedulerConfiguration.
    ("cluster/src/control/schedulers.rs", "acceptedConfig configuration leaderElect leaderElection rawConfig"),
    // Reviews that webhooks answer.
    ("cluster/src/custom_versions/conversion.rs", "convertedObjects desiredAPIVersion objects response result"),
    ("cluster/src/dynamic_admission/request.rs", "fieldManager oldObject requestKind requestResource"),
    ("cluster/src/dynamic_admission/webhooks/answer.rs", "patch response warnings"),
    // Keys of ConfigMaps and of labels.
    ("cluster/src/pipeline/bootstrap.rs", "since"),
    ("cluster/src/system.rs", "provider"),
    ("cluster/src/system/aks.rs", "acceptedConfig app configuration rawConfig skuName skuname"),
    ("cluster/src/system/kind.rs", "tier"),
    // Operations of JSON patches.
    ("fields/src/json.rs", "op"),
    // The server's own interface.
    ("server/src/admin.rs", "made removed"),
    ("server/src/ephemeral/clock.rs", "now stepped"),
];

/// Steps from a field to one below it that no kind has.
const STEPS: [(&str, &str); 6] = [
    // The schema of metadata in the definition of a custom resource.
    ("metadata", "properties"),
    // The metadata of a list.
    ("metadata", "continue"),
    // Options of a deletion.
    ("preconditions", "resourceVersion"),
    // The object of AKS.
    ("spec", "rawConfig"),
    ("status", "acceptedConfig"),
    // How expressions of policies find the `uid` of a namespace.
    ("metadata", "UID"),
];

/// Most steps that are spelled. Code that writes JSON spells them; code that reads it has `klab_api_machinery::views`.
const MAX_STEPS: usize = 310;

#[test]
fn fields_are_spelled_as_kubernetes_spells_them() {
    let mut known = known(&std::fs::read_to_string("crates/api-machinery/src/schema/types.txt").unwrap());
    known.extend(EVERYWHERE.split(' ').map(|name| (name.to_owned(), None)));
    let mut others: BTreeSet<(&str, &str)> =
        OTHERS.iter().flat_map(|(file, names)| names.split(' ').map(move |name| (*file, name))).collect();
    let mut allowed = BTreeSet::from(STEPS);
    let (mut all, mut steps) = (BTreeSet::new(), 0);
    let (mut unknown, mut nowhere) = (BTreeSet::new(), BTreeSet::new());
    for name in CRATES {
        for (path, names) in spelled(&sources(&Path::new("crates").join(name).join("src"))) {
            let file = format!("{name}/src/{path}");
            let is_other = |field: &str| others.iter().any(|other| *other == (file.as_str(), field));
            let strange = names.fields.iter().filter(|field| !known.contains_key(*field) && !is_other(field));
            unknown.extend(strange.map(|field| format!("{file}: {field}")));
            steps += names.steps.len();
            for (above, below) in &names.steps {
                let fields = known.get(above).and_then(Option::as_ref);
                let is_nowhere = fields.is_some_and(|fields| !fields.contains(below));
                if is_nowhere && STEPS.contains(&(above, below)) {
                    allowed.retain(|step| *step != (above.as_str(), below.as_str()));
                } else if is_nowhere {
                    nowhere.insert(format!("{file}: {above}.{below}"));
                }
            }
            others.retain(|(other, field)| *other != file || !names.fields.contains(*field));
            all.extend(names.fields);
        }
    }
    assert!(all.len() > 400 && steps > 200, "only {} names and {steps} steps were found", all.len());
    assert!(steps <= MAX_STEPS, "{steps} steps are spelled, not {MAX_STEPS}: read by `klab_api_machinery::views`");
    assert!(unknown.is_empty(), "no type of Kubernetes has these fields: {unknown:#?}");
    assert!(nowhere.is_empty(), "no field of this name has that one below it: {nowhere:#?}");
    assert!(others.is_empty() && allowed.is_empty(), "these exceptions have no use any more: {others:#?} {allowed:#?}");
}

#[test]
fn names_are_found_however_they_are_spelled() {
    let text = r#"
        fn read(pod: &Value) -> bool {
            let names = ["list"];
            for it in ["word"] { it.len(); }
            let deep = matches!(pod["spec"]["nodeNmae"].as_str(), Some("value"));
            let first = &pod["spec"]["containers"][0]["name"];
            let followed = text(pod, &["metadata", "namspace"]);
            pod["metadata"].get("lables").is_some() && json!({ "statsu": { "phase": "Running", "other": pod["x"] } })["a.b/c"]
        }
        #[cfg(test)]
        mod tests { fn f(pod: &Value) { pod["madeUp"]; } }
    "#;
    let sources = BTreeMap::from([("a.rs".to_owned(), text.to_owned())]);
    let names = &spelled(&sources)["a.rs"];
    let fields: Vec<&str> = names.fields.iter().map(String::as_str).collect();
    assert_eq!(fields.join(" "), "containers lables metadata name namspace nodeNmae other phase spec statsu x");
    let steps: Vec<String> = names.steps.iter().map(|(above, below)| format!("{above}.{below}")).collect();
    assert_eq!(steps.join(" "), "containers.name metadata.namspace spec.containers spec.nodeNmae");
}

/// Functions of `klab_api_machinery::value` that follow a path.
const PATHS: [&str; 3] = ["at", "text", "integer"];
/// Methods of maps that take a key.
const KEYS: [&str; 4] = ["contains_key", "get", "get_mut", "remove"];
/// Words of Rust before a list of texts, which indexes nothing.
const WORDS: [&str; 6] = ["break", "else", "in", "match", "mut", "return"];

/// The fields of all kinds by their names, each with what may be below it; none where that is anything.
type Fields = BTreeMap<String, Option<BTreeSet<String>>>;

/// Reads the table of schemas.
fn known(types: &str) -> Fields {
    let mut fields_of: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut of = "";
    for line in types.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["@type", name, ..] => of = name,
            ["@kind", ..] => {}
            [name, _, kind, ..] => fields_of.entry(of).or_default().push((name, kind)),
            other => panic!("{other:?}"),
        }
    }
    let mut known = Fields::new();
    for (name, kind) in fields_of.values().flatten() {
        let below = known.entry((*name).to_owned()).or_insert_with(|| Some(BTreeSet::new()));
        match fields_of.get(kind.trim_start_matches(['*', '[', ']'])) {
            Some(fields) => {
                if let Some(below) = below {
                    below.extend(fields.iter().map(|(name, _)| (*name).to_owned()));
                }
            }
            None if kind.contains("map:") || kind.ends_with("any") || kind.ends_with("schema") => *below = None,
            None => {}
        }
    }
    known
}

/// The names that each file spells, its tests left out.
fn spelled(sources: &BTreeMap<String, String>) -> BTreeMap<&str, Names> {
    let mut tests = BTreeSet::from(["tests".to_owned()]);
    let mut found = BTreeMap::new();
    for (path, text) in sources {
        let tokens = text.parse::<TokenStream>().unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut names = Names::default();
        names.read(tokens);
        tests.append(&mut names.tests);
        found.insert(path.as_str(), names);
    }
    let is_test = |path: &str| path.trim_end_matches(".rs").split('/').any(|part| tests.contains(part));
    found.retain(|path, _| !is_test(path));
    found
}

#[derive(Default)]
struct Names {
    fields: BTreeSet<String>,
    /// A field, and the one that is looked for below it.
    steps: BTreeSet<(String, String)>,
    /// Modules of tests, which stand in files of their own.
    tests: BTreeSet<String>,
}

impl Names {
    fn note(&mut self, names: impl IntoIterator<Item = String>) {
        let is_field = |name: &String| {
            name.starts_with(|letter: char| letter.is_ascii_lowercase())
                && name.chars().all(|letter| letter.is_ascii_alphanumeric())
        };
        self.fields.extend(names.into_iter().filter(is_field));
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let Some(end) = test_module(&tokens[at..]) {
                if matches!(&tokens[at + end - 1], TokenTree::Punct(_)) {
                    self.tests.extend(ident(&tokens[at + end - 2]));
                }
                at += end;
                continue;
            }
            if let TokenTree::Group(group) = &tokens[at] {
                let before: Vec<Option<String>> =
                    (1..=2).map(|back| ident(tokens.get(at.wrapping_sub(back))?)).collect();
                self.read_group(group, &tokens[..at], &before);
                self.read(group.stream());
            }
            at += 1;
        }
    }

    /// Reads a group by what stands before it.
    fn read_group(&mut self, group: &Group, before: &[TokenTree], names: &[Option<String>]) {
        let last = before.last();
        let name = names[0].as_deref();
        match group.delimiter() {
            Delimiter::Bracket => {
                let indexes = match last {
                    Some(TokenTree::Ident(word)) => !WORDS.contains(&word.to_string().as_str()),
                    Some(TokenTree::Group(other)) => other.delimiter() != Delimiter::Brace,
                    Some(TokenTree::Punct(sign)) => sign.as_char() == '?',
                    _ => false,
                };
                if let (Some(only), true) = (only_text(group), indexes) {
                    // `["containers"][0]["name"]` is a step as well.
                    let above = before.iter().rev().take(2).find_map(|token| match token {
                        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => only_text(group),
                        _ => None,
                    });
                    let is_adjacent = matches!(last, Some(TokenTree::Group(_)));
                    self.steps.extend(above.filter(|_| is_adjacent).map(|above| (above, only.clone())));
                    self.note([only]);
                }
            }
            Delimiter::Parenthesis if name.is_some_and(|name| KEYS.contains(&name)) && is_alone(group) => {
                self.note(texts(group.stream()));
            }
            Delimiter::Parenthesis if name.is_some_and(|name| PATHS.contains(&name)) => {
                if let Some(TokenTree::Group(path)) = group.stream().into_iter().last() {
                    let path = texts(path.stream());
                    self.steps.extend(path.windows(2).map(|step| (step[0].clone(), step[1].clone())));
                    self.note(path);
                }
            }
            _ => {}
        }
        let is_macro = matches!(last, Some(TokenTree::Punct(sign)) if sign.as_char() == '!');
        if is_macro && names.get(1).is_some_and(|name| name.as_deref() == Some("json")) {
            self.read_json(group.stream());
        }
    }

    /// Reads the keys of `json!`.
    fn read_json(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match (token, tokens.get(at + 1)) {
                (TokenTree::Group(group), _) => self.read_json(group.stream()),
                (TokenTree::Literal(_), Some(TokenTree::Punct(sign))) if sign.as_char() == ':' => {
                    self.note(texts(TokenStream::from(token.clone())));
                }
                _ => {}
            }
        }
    }
}

fn ident(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

/// Whether a group is one literal.
fn is_alone(group: &Group) -> bool {
    group.stream().into_iter().count() == 1
}

/// The text that a group is, if it is nothing else.
fn only_text(group: &Group) -> Option<String> {
    texts(group.stream()).pop().filter(|_| is_alone(group))
}

/// The literals of a list that are texts.
fn texts(tokens: TokenStream) -> Vec<String> {
    let literal = |token| match token {
        TokenTree::Literal(literal) => syn::parse_str::<syn::LitStr>(&literal.to_string()).ok(),
        _ => None,
    };
    tokens.into_iter().filter_map(literal).map(|text| text.value()).collect()
}

/// How many tokens `#[cfg(test)] mod name { … }` or `#[cfg(test)] mod name;` are, where they begin with it.
fn test_module(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(sign), TokenTree::Group(attribute), rest @ ..] = tokens else { return None };
    let is_test = sign.as_char() == '#' && attribute.stream().to_string().replace(' ', "") == "cfg(test)";
    let [TokenTree::Ident(word), TokenTree::Ident(_), _, ..] = rest else { return None };
    (is_test && *word == "mod").then_some(5)
}
