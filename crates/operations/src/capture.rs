//! A cluster read for `klab capture` and `klab whatif`, with the rights that you have; and the files they take.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ConfigMap;
use klab_scheduler::Profiles;
use klab_whatif::{
    AUTOSCALER_STATUS, Capture, FILE, Gap, KINDS, Kind, kinds_of_lost_owners, places, settle, take_bounds,
};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::client::cause;
use crate::client::objects::find;
use crate::error::{Code, Context as _, Error, Result};
use crate::render::yaml::documents;

/// How many objects an answer of the API server has at most.
const PAGE: usize = 500;
/// Most bytes of a file that is read.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// How a list ended.
enum Listed {
    Whole,
    /// The API server stopped serving the kind between two pages.
    Gone,
    /// The user may not read it.
    Refused,
}

/// Reads what placement depends on. What the API server refuses is a gap; kinds that it does not serve have no objects.
///
/// # Errors
/// When the cluster does not answer, or answers with anything but a refusal.
pub async fn capture(client: &Client, namespace: &str) -> Result<Capture> {
    // Lists are read one after the other, and what runs changes meanwhile: pods are read first and last, and the last look counts.
    let (mut first, mut capture) = (Capture::default(), Capture::default());
    let (pods, others): (Vec<&Kind>, Vec<&Kind>) = KINDS.iter().partition(|kind| kind.kind == "Pod");
    for kind in &pods {
        read_kind(client, kind, namespace, &mut first).await?;
    }
    // Of the first look the places are kept alone: pods are most of a capture.
    let (before, gaps) = (places(&first), first.gaps);
    drop(first.objects);
    for kind in others {
        read_kind(client, kind, namespace, &mut capture).await?;
    }
    let read = capture.gaps.len();
    for kind in pods {
        read_kind(client, kind, namespace, &mut capture).await?;
    }
    let is_alike = capture.gaps.get(read..) == Some(&gaps);
    let of_pods = capture.gaps.len() - read;
    capture.gaps.rotate_right(of_pods);
    // An owner that was made after its kind was read is found by a second look; so is the Deployment of such a ReplicaSet.
    for _ in 0..2 {
        for kind in kinds_of_lost_owners(&capture) {
            capture.objects.retain(|object| object.kind != kind);
            read_kind(client, kind, namespace, &mut capture).await?;
        }
    }
    if is_alike {
        settle(&mut capture, &before);
    }
    match find::<ConfigMap>(client, Some("kube-system"), AUTOSCALER_STATUS).await {
        Ok(map) => take_bounds(&mut capture, &autoscaler_status(map).unwrap_or_default()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            capture.gaps.push(Gap { kind: AUTOSCALER_STATUS.to_owned(), ..Gap::default() });
        }
        Err(error) => {
            let source = cause(&error).context(format!("could not read the cluster's {AUTOSCALER_STATUS}"));
            return Err(Error::new(Code::NoAnswer, source));
        }
    }
    capture.version = client.apiserver_version().await.ok().map(|info| info.git_version);
    capture.finish();
    Ok(capture)
}

/// What the cluster autoscaler says of itself, where there is one that says it as YAML.
fn autoscaler_status(map: Option<ConfigMap>) -> Option<Value> {
    let text = map?.data?.remove("status")?;
    let documents = documents(&text);
    let [status] = documents.as_slice() else { return None };
    status.parse().ok()
}

/// Takes in a kind: of all namespaces, or of the only one that you may read. What could not be read is a gap.
async fn read_kind(client: &Client, kind: &'static Kind, namespace: &str, capture: &mut Capture) -> Result<()> {
    let mut listed = list(client, kind, None, capture).await?;
    let mut gap = Gap { kind: kind.plural.to_owned(), ..Gap::default() };
    if matches!(listed, Listed::Refused) && kind.namespaced {
        listed = list(client, kind, Some(namespace), capture).await?;
        gap.namespace = matches!(listed, Listed::Whole).then(|| namespace.to_owned());
    }
    match listed {
        Listed::Whole if gap.namespace.is_none() => return Ok(()),
        Listed::Gone => {
            gap.moved = Some(format!("it stopped serving {}; without them {}", kind.plural, kind.leaves_open));
        }
        Listed::Whole | Listed::Refused => {}
    }
    capture.gaps.push(gap);
    Ok(())
}

/// Takes in the objects of a kind, page by page. A list that expired between two pages begins again, as one: its first pages say what
/// was. Of a list that does not come to its end nothing is kept.
async fn list(client: &Client, kind: &'static Kind, namespace: Option<&str>, capture: &mut Capture) -> Result<Listed> {
    let path = kind.path(namespace);
    let mut next: Option<String> = None;
    let mut limit = Some(PAGE);
    let begin = capture.objects.len();
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(limit) = limit {
            query.append_pair("limit", &limit.to_string());
        }
        if let Some(next) = &next {
            query.append_pair("continue", next);
        }
        let asked = http::Request::get(format!("{path}?{}", query.finish())).body(Vec::new());
        let request = asked.code(Code::KlabFault, || format!("could not ask for {}", kind.plural))?;
        let list: List = match client.request(request).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
                capture.objects.truncate(begin);
                return Ok(match (status.code, next) {
                    (403, _) => Listed::Refused,
                    (_, None) => Listed::Whole,
                    (_, Some(_)) => Listed::Gone,
                });
            }
            Err(kube::Error::Api(status)) if status.code == 410 && limit.is_some() => {
                capture.objects.truncate(begin);
                (next, limit) = (None, None);
                continue;
            }
            Err(error) => {
                let source = cause(&error).context(format!("could not list the cluster's {}", kind.plural));
                return Err(Error::new(Code::NoAnswer, source));
            }
        };
        capture.add(kind, list.items.iter().flatten());
        next = list.metadata.next.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(Listed::Whole);
        }
    }
}

/// The file of a capture that a path means: itself, or the one in its folder, or the one beside a lab file.
pub fn file_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.join(FILE)).filter(|file| file.is_file());
    }
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return Some(path.to_owned());
    }
    path.is_file().then(|| path.with_file_name(FILE)).filter(|file| file.is_file())
}

/// Reads the file of a capture.
///
/// # Errors
/// When it cannot be read, or is another file.
pub fn read(file: &Path) -> Result<Capture> {
    let text = text_of(file)?;
    let problem = || format!("`{}` is no capture", file.display());
    Capture::read(&text)
        .code(Code::BadCapture, problem)
        .map_err(|error| error.hint("`klab capture --context NAME -o FOLDER` writes one"))
}

/// The objects of a file with YAML or JSON, or of such files in a folder; the items of lists one by one.
///
/// # Errors
/// When one cannot be read, or holds something else.
pub fn objects(path: &Path) -> Result<Vec<Value>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let unread = || format!("could not read `{}`", path.display());
        let entries = fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        files = entries.code(Code::ManifestYaml, unread)?.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| {
            file.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
        });
        files.sort();
    }
    let mut objects = Vec::new();
    for file in &files {
        let text = text_of(file)?;
        for document in documents(&text) {
            let wrong = |line: usize, words: &str| {
                Error::message(Code::ManifestYaml, format!("{}:{line}: {words}", file.display()))
            };
            let value = document.parse().map_err(|problem| wrong(problem.line, &problem.message))?;
            match &value["items"] {
                Value::Array(items) if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                    objects.extend(items.iter().cloned());
                }
                _ if value["kind"].is_string() && value["metadata"]["name"].is_string() => objects.push(value),
                _ => return Err(wrong(document.line, "no object: it needs `kind` and `metadata.name`")),
            }
        }
    }
    if objects.is_empty() {
        return Err(Error::message(Code::ManifestYaml, format!("`{}` holds no object", path.display())));
    }
    Ok(objects)
}

/// The scheduler's configuration of a file.
///
/// # Errors
/// When it cannot be read, or kube-scheduler would refuse it.
pub fn configuration(file: &Path) -> Result<Value> {
    let wrong = |words: String| Error::message(Code::SchedulerConfiguration, format!("{}: {words}", file.display()));
    let text = text_of(file)?;
    let documents = documents(&text);
    let [document] = documents.as_slice() else { return Err(wrong("it is to hold one document".to_owned())) };
    let configuration =
        document.parse().map_err(|problem| wrong(format!("line {}: {}", problem.line, problem.message)))?;
    Profiles::from_configuration(&configuration).map_err(|error| wrong(error.to_string()))?;
    Ok(configuration)
}

/// The text of a file of a bounded size.
fn text_of(file: &Path) -> Result<String> {
    let unread = || format!("could not read `{}`", file.display());
    let size = fs::metadata(file).code(Code::ManifestYaml, unread)?.len();
    if size > MAX_BYTES {
        return Err(Error::message(
            Code::ManifestYaml,
            format!("`{}` has more than {MAX_BYTES} bytes", file.display()),
        ));
    }
    fs::read_to_string(file).code(Code::ManifestYaml, unread)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A client of an API server that gives to each list one answer after the other; the last again and again.
    fn scripted(lists: &[(&str, &[(u16, Value)])]) -> Client {
        let lists: BTreeMap<String, Vec<(u16, Value)>> =
            lists.iter().map(|(plural, answers)| ((*plural).to_owned(), answers.to_vec())).collect();
        let lists = Mutex::new(lists);
        let service = tower::service_fn(move |request: Request<Body>| {
            let plural = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let mut lists = lists.lock().unwrap();
            let (code, body) = match lists.get_mut(&plural) {
                None if plural == AUTOSCALER_STATUS => {
                    let status = "nodeGroups: [{name: \"n\", health: {minSize: 1, maxSize: 3}}, {name: other, health: {minSize: 1, maxSize: 3}}]";
                    (200, json!({ "metadata": { "name": plural }, "data": { "status": status } }))
                }
                None => (200, json!({ "metadata": {}, "items": [] })),
                Some(answers) if answers.len() > 1 => answers.remove(0),
                Some(answers) => answers[0].clone(),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap();
            std::future::ready(Ok::<_, tower::BoxError>(response))
        });
        Client::new(service, "default")
    }

    fn list(next: &str, items: &[Value]) -> (u16, Value) {
        (200, json!({ "metadata": { "continue": next }, "items": items }))
    }

    fn refusal(code: u16) -> (u16, Value) {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code });
        (code, status)
    }

    fn object(name: &str, owner: &str, node: Option<&str>) -> Value {
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true });
        let owners = if owner["name"] == "" { json!([]) } else { json!([owner]) };
        json!({
            "metadata": { "name": name, "namespace": "team", "uid": name, "ownerReferences": owners },
            "spec": { "nodeName": node },
        })
    }

    #[test]
    fn a_cluster_that_changes_while_it_is_read_gives_one_moment_and_says_what_moved() {
        let runtime = crate::client::runtime().unwrap();
        let _entered = runtime.enter();
        let (node, set) = (object("n", "", None), object("set", "", None));
        let client = scripted(&[
            // The first look; its second page has expired, and the list begins again. Then the second look.
            (
                "pods",
                &[
                    list("more", &[object("ended", "set", Some("n"))]),
                    refusal(410),
                    list("", &[object("waits", "set", None), object("left", "gone", Some("n"))]),
                    list(
                        "",
                        &[
                            object("waits", "set", Some("n")),
                            object("left", "gone", Some("n")),
                            object("came", "late", None),
                        ],
                    ),
                ],
            ),
            ("nodes", &[list("", &[node])]),
            // `late` was made after the first list, and `gone` is in none.
            (
                "replicasets",
                &[list("", std::slice::from_ref(&set)), list("", &[set.clone(), object("late", "", None)])],
            ),
            ("jobs", &[list("more", &[object("half", "", None)]), refusal(404)]),
            ("resourceslices", &[refusal(404)]),
            ("services", &[list("more", &[object("half", "", None)]), refusal(403)]),
        ]);
        let capture = runtime.block_on(capture(&client, "team")).unwrap();
        let kept: Vec<(&str, Option<&str>)> =
            capture.objects.iter().map(|object| (&*object.name, object.node.as_deref())).collect();
        assert_eq!(kept, [("came", None), ("waits", Some("n")), ("n", None), ("late", None), ("set", None)]);
        let node = capture.values("Node").next().unwrap();
        assert_eq!(node["metadata"]["annotations"], json!({ "klab.dev/captured-autoscaler-bounds": "1..3" }));
        assert_eq!(
            capture.gap_words(),
            [
                "you may not read services; without them pods spread by default over other nodes",
                "the cluster changed while klab read it: it stopped serving jobs; without them pods that go away are not made again",
                "the cluster changed while klab read it: 1 pod came, 1 pod got a node, 1 object whose owner klab did not find is left out",
            ]
        );
    }
}
