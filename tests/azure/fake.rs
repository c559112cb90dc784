//! A fake az over the same model: what `tests/fake/az` says, with the refusals of az itself, and kills at any call.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::api::{Answer, Model, Request};

/// When klab is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before Azure hears of the call.
    Before,
    /// While az is at its start: it goes on without klab, and Azure hears of the call later.
    Meanwhile,
    /// After Azure has done what was asked, before klab hears of it.
    After,
}

/// How much later Azure hears of a call whose klab is dead.
const ORPHANS_TIME: Duration = Duration::from_millis(250);

/// The fake az while it serves.
#[derive(Clone)]
pub struct Fake {
    pub model: Arc<Mutex<Model>>,
    shared: Arc<Mutex<Shared>>,
    pub port: u16,
}

#[derive(Default)]
struct Shared {
    calls: Vec<Vec<String>>,
    /// How many calls klab could be killed at so far. One that only repeats the last, as waiting does, is none: it finds the
    /// world as that one did.
    points: usize,
    kill: Option<(usize, Moment)>,
    /// Calls that begin with the first words reach Azure once one was answered that begins with the others.
    late: Option<(&'static str, &'static str)>,
    /// What was answered since.
    answered: Vec<String>,
    /// What other programs write before and after az, to stdout and to stderr.
    noise: (&'static str, &'static str),
}

/// Exit code, stdout, stderr.
type Said = (u8, String, String);

impl Fake {
    /// Serves a model to `tests/fake/az`; the thread ends with the process.
    pub fn start(model: Model) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let fake = Self { model: Arc::new(Mutex::new(model)), shared: Arc::default(), port };
        let serving = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = serving.clone();
                std::thread::spawn(move || fake.serve(stream));
            }
        });
        fake
    }

    /// The program that stands in for az, in a folder of the test's own.
    pub fn program(&self, folder: &Path) -> PathBuf {
        let program = folder.join(format!("az-{}", self.port));
        if !program.exists() {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/az");
            std::os::unix::fs::symlink(script, &program).expect("the folder can be written");
        }
        program
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All calls so far, without the arguments that every call has; the list is then empty.
    pub fn take_calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.shared().calls);
        let common = ["--subscription", "--only-show-errors", "-o"];
        calls
            .iter()
            .map(|call| {
                call.iter().take_while(|word| !common.contains(&word.as_str())).cloned().collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    /// Kills the klab that makes the n-th call from now (the first is 1), repetitions not counted.
    pub fn kill_at(&self, call: usize, moment: Moment) {
        let mut shared = self.shared();
        shared.calls.clear();
        shared.points = 0;
        shared.kill = Some((call, moment));
    }

    /// Makes calls that begin with some words reach Azure after one that begins with others.
    pub fn delay(&self, words: &'static str, others: &'static str) {
        self.shared().late = Some((words, others));
    }

    /// Has other programs write this to stdout and stderr, before and after whatever az writes.
    pub fn add_noise(&self, stdout: &'static str, stderr: &'static str) {
        self.shared().noise = (stdout, stderr);
    }

    /// Lets klab live; says whether it was killed.
    pub fn stop_killing(&self) -> bool {
        self.shared().kill.take().is_none()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        let Some(parent) = word(&mut reader) else { return };
        let count: usize = word(&mut reader).and_then(|count| count.parse().ok()).unwrap_or(0);
        let arguments: Vec<String> = (0..count).filter_map(|_| word(&mut reader)).collect();
        let due = {
            let mut shared = self.shared();
            let repeats = shared.calls.last() == Some(&arguments);
            shared.calls.push(arguments.clone());
            shared.points += usize::from(!repeats);
            let point = shared.points;
            shared.kill.take_if(|(call, _)| *call == point).map(|(_, moment)| moment)
        };
        if due == Some(Moment::Before) {
            kill(&parent);
            return;
        }
        if due == Some(Moment::Meanwhile) {
            kill(&parent);
            std::thread::sleep(ORPHANS_TIME);
        }
        let call = arguments.join(" ");
        let late = self.shared().late.filter(|(words, _)| call.starts_with(words));
        if let Some((_, others)) = late {
            while !self.shared().answered.iter().any(|call| call.starts_with(others)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let (status, stdout, stderr) = answer(&mut self.model(), &arguments);
        self.shared().answered.push(call);
        if due == Some(Moment::After) {
            kill(&parent);
            return;
        }
        let mut stream = stream;
        let (before, others) = self.shared().noise;
        let end = if stdout.is_empty() { "" } else { "\n" };
        let stdout = if before.is_empty() { stdout } else { format!("{before}{stdout}{end}{before}") };
        let stderr = if others.is_empty() { stderr } else { format!("{others}{stderr}\n{others}") };
        let stderr = stderr.replace('\\', "\\\\").replace('\n', "\\n");
        // The script may have been killed with klab.
        let _ = stream.write_all(format!("{status}\n{stderr}\n{stdout}").as_bytes());
    }
}

fn word(reader: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    loop {
        match reader.read(&mut byte) {
            Ok(1) if byte[0] == 0 => return String::from_utf8(bytes).ok(),
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
}

fn kill(pid: &str) {
    // `kill` is what a user would type.
    let _ = std::process::Command::new("kill").args(["-9", pid]).status();
}

/// Options by name; an option without values is a flag.
struct Options(BTreeMap<String, Vec<String>>);

impl Options {
    fn of(arguments: &[String]) -> (String, Self) {
        let is_option = |word: &String| {
            word.len() > 1 && word.starts_with('-') && !word[1..].starts_with(|letter: char| letter.is_ascii_digit())
        };
        let words: Vec<&str> = arguments.iter().take_while(|word| !is_option(word)).map(String::as_str).collect();
        let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut current = String::new();
        for word in arguments.iter().skip(words.len()) {
            if is_option(word) {
                current.clone_from(word);
                options.entry(current.clone()).or_default();
            } else {
                options.entry(current.clone()).or_default().push(word.clone());
            }
        }
        (words.join(" "), Self(options))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn number(&self, name: &str) -> Value {
        self.get(name).and_then(|text| text.parse::<i64>().ok()).map_or(Value::Null, |number| json!(number))
    }

    fn pairs(&self, name: &str) -> Value {
        let pairs = self.0.get(name).into_iter().flatten().filter_map(|pair| pair.split_once('='));
        json!(pairs.collect::<BTreeMap<_, _>>())
    }

    fn taints(&self, name: &str) -> Value {
        let taints: Vec<&str> =
            self.get(name).unwrap_or_default().split(',').filter(|taint| !taint.is_empty()).collect();
        if taints.is_empty() { Value::Null } else { json!(taints) }
    }
}

#[expect(clippy::too_many_lines, reason = "a row for each request")]
fn answer(model: &mut Model, arguments: &[String]) -> Said {
    let (words, options) = Options::of(arguments);
    let subscription = options.get("--subscription").map_or_else(|| model.subscription.clone(), str::to_owned);
    let base = format!("/subscriptions/{subscription}");
    let group = |name: &str| format!("{base}/resourcegroups/{}", options.text(name));
    let cluster = |name: &str| {
        format!(
            "{base}/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{}",
            options.text("-g"),
            options.text(name)
        )
    };
    let mut ask = |method: &str, path: &str, body: Value| model.handle(&Request::new(method, path, body));
    match words.as_str() {
        "version" => printed(&json!({ "azure-cli": "2.91.0", "azure-cli-core": "2.91.0", "extensions": {} })),
        "account show" => {
            printed(&json!({ "id": subscription, "name": "Stand-in", "state": "Enabled", "tenantId": model.tenant,
            "user": { "name": super::CLIENT, "type": "servicePrincipal" }, "isDefault": true }))
        }
        "rest" if options.get("--method") == Some("get") => {
            let path = options.text("--url").replace("{subscriptionId}", &subscription);
            raw(ask("GET", &path, Value::Null))
        }
        "group show" => plain(ask("GET", &group("-n"), Value::Null)),
        "group create" => {
            plain(ask("PUT", &group("-n"), json!({ "location": options.text("-l"), "tags": options.pairs("--tags") })))
        }
        "group delete" => silent(ask("DELETE", &group("-n"), Value::Null)),
        "group list" => list(
            ask("GET", &format!("{base}/resourcegroups?$filter=tagname eq '{}'", options.text("--tag")), Value::Null),
            false,
        ),
        "tag update" => plain(ask(
            "PATCH",
            &format!("{}/providers/Microsoft.Resources/tags/default", options.text("--resource-id")),
            json!({ "properties": { "tags": options.pairs("--tags") } }),
        )),
        "provider show" => {
            let answer = ask("GET", &format!("{base}/providers/Microsoft.ContainerService"), Value::Null);
            if answer.status < 300 && !answer.lost { printed(&answer.body["registrationState"]) } else { plain(answer) }
        }
        "aks get-versions" => plain(ask(
            "GET",
            &format!("{base}/providers/Microsoft.ContainerService/locations/x/kubernetesVersions"),
            Value::Null,
        )),
        "vm list-skus" => list(ask("GET", &format!("{base}/providers/Microsoft.Compute/skus"), Value::Null), false),
        "vm list-usage" => {
            list(ask("GET", &format!("{base}/providers/Microsoft.Compute/locations/x/usages"), Value::Null), false)
        }
        "aks list" => {
            list(ask("GET", &format!("{base}/providers/Microsoft.ContainerService/managedClusters"), Value::Null), true)
        }
        "aks show" => flat(ask("GET", &cluster("-n"), Value::Null)),
        "aks update" => {
            let found = ask("GET", &cluster("-n"), Value::Null);
            if found.status != 200 || found.lost {
                return flat(found);
            }
            let mut body = found.body;
            if options.has("--tags") {
                body["tags"] = options.pairs("--tags");
            }
            if let Some(settings) = options.pairs("--cluster-autoscaler-profile").as_object() {
                for (name, value) in settings {
                    body["properties"]["autoScalerProfile"][name] = value.clone();
                }
            }
            if let profile @ Value::Object(_) = scheduler_profile(&options) {
                body["properties"]["schedulerProfile"] = profile;
            }
            let principal = body["properties"]["identityProfile"]["kubeletidentity"]["objectId"].clone();
            let updated = silent(ask("PUT", &cluster("-n"), body));
            if let (0, Some(registry)) = (updated.0, options.get("--attach-acr")) {
                model.give_role(registry, principal.as_str().unwrap_or_default());
            }
            updated
        }
        "aks create" if options.has("--attach-acr") && options.has("--no-wait") => refusal(
            "When --attach-acr and --enable-managed-identity are both specified, --no-wait is not allowed, please wait until the whole operation succeeds.",
        ),
        "aks create" => {
            let path = cluster("-n");
            let found = ask("GET", &path, Value::Null);
            if found.status == 200 && !found.lost {
                let words = format!(
                    "The cluster '{}' under resource group '{}' already exists. Please use command 'az aks update' to update the existing cluster, or select a different cluster name to create a new cluster.",
                    options.text("-n"),
                    options.text("-g")
                );
                return refusal(&words);
            }
            if found.status != 404 || found.body["error"]["code"] == "ResourceGroupNotFound" {
                return flat(found);
            }
            let mut said = silent(ask("PUT", &path, cluster_body(&options)));
            if said.0 == 0 && options.has("--vnet-subnet-id") && !options.has("--only-show-errors") {
                said.2.push_str(
                    "WARNING: Could not create a role assignment for subnet. Are you an Owner on this subscription?",
                );
            }
            said
        }
        "aks delete" => silent(ask("DELETE", &cluster("-n"), Value::Null)),
        "aks stop" => silent(ask("POST", &format!("{}/stop", cluster("-n")), Value::Null)),
        "aks start" => silent(ask("POST", &format!("{}/start", cluster("-n")), Value::Null)),
        "aks upgrade" => {
            let found = ask("GET", &cluster("-n"), Value::Null);
            if found.status != 200 || found.lost {
                return flat(found);
            }
            let mut body = found.body;
            body["properties"]["kubernetesVersion"] = json!(options.text("-k"));
            silent(ask("PUT", &cluster("-n"), body))
        }
        "aks get-credentials" => {
            let answer = ask("POST", &format!("{}/listClusterUserCredential", cluster("-n")), Value::Null);
            if answer.status != 200 || answer.lost {
                return flat(answer);
            }
            let encoded = answer.body["kubeconfigs"][0]["value"].as_str().unwrap_or_default();
            let file = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap_or_default();
            match std::fs::write(options.text("--file"), file) {
                Ok(()) => (0, String::new(), String::new()),
                Err(error) => refusal(&error.to_string()),
            }
        }
        "aks nodepool list" => {
            list(ask("GET", &format!("{}/agentPools", cluster("--cluster-name")), Value::Null), true)
        }
        "aks nodepool add" | "aks nodepool update" | "aks nodepool scale" | "aks nodepool delete" => {
            pool(&words, &options, &cluster("--cluster-name"), &mut ask)
        }
        "vmss simulate-eviction" => (0, String::new(), String::new()),
        _ => (2, String::new(), format!("ERROR: '{words}' is misspelled or not recognized by the fake az.")),
    }
}

fn pool(words: &str, options: &Options, cluster: &str, ask: &mut impl FnMut(&str, &str, Value) -> Answer) -> Said {
    let name = options.text("-n");
    let pools = ask("GET", &format!("{cluster}/agentPools"), Value::Null);
    if pools.status != 200 || pools.lost {
        return flat(pools);
    }
    let path = format!("{cluster}/agentPools/{name}");
    let found = pools.body["value"].as_array().into_iter().flatten().find(|pool| pool["name"] == json!(name)).cloned();
    match (words, found) {
        ("aks nodepool add", Some(_)) => refusal(&format!(
            "Node pool {name} already exists, please try a different name, use 'aks nodepool list' to get current list of node pool"
        )),
        ("aks nodepool add", None) => silent(ask(
            "PUT",
            &path,
            json!({ "properties": pool_body(options, "--labels", "--node-taints", "-s", "-c") }),
        )),
        (_, None) => {
            refusal(&format!("Node pool {name} doesnt exist, use 'aks nodepool list' to get current node pool list"))
        }
        ("aks nodepool delete", Some(_)) => silent(ask("DELETE", &path, Value::Null)),
        ("aks nodepool scale", Some(pool)) => {
            let mut properties = pool["properties"].clone();
            if properties["count"] == options.number("-c") {
                return refusal("The new node count is the same as the current node count.");
            }
            properties["count"] = options.number("-c");
            silent(ask("PUT", &path, json!({ "properties": properties })))
        }
        (_, Some(pool)) => {
            let mut properties = pool["properties"].clone();
            if options.has("--labels") {
                properties["nodeLabels"] = options.pairs("--labels");
            }
            if options.has("--node-taints") {
                properties["nodeTaints"] = options.taints("--node-taints");
            }
            if let Some(mode) = options.get("--mode") {
                properties["mode"] = json!(mode);
            }
            if options.has("--disable-cluster-autoscaler") {
                properties["enableAutoScaling"] = json!(false);
                properties["minCount"] = Value::Null;
                properties["maxCount"] = Value::Null;
            } else if options.has("--min-count") {
                properties["enableAutoScaling"] = json!(true);
                properties["minCount"] = options.number("--min-count");
                properties["maxCount"] = options.number("--max-count");
            }
            silent(ask("PUT", &path, json!({ "properties": properties })))
        }
    }
}

fn pool_body(options: &Options, labels: &str, taints: &str, size: &str, count: &str) -> Value {
    let zones = options.0.get("--zones").cloned();
    let tags = if options.has("--nodepool-name") { "--nodepool-tags" } else { "--tags" };
    json!({
        "tags": options.pairs(tags),
        "mode": options.get("--mode").unwrap_or("System"), "vmSize": options.text(size), "count": options.number(count),
        "nodeLabels": options.pairs(labels), "nodeTaints": options.taints(taints), "maxPods": options.number("--max-pods"),
        "availabilityZones": zones, "osType": options.get("--os-type").unwrap_or("Linux"), "osSKU": options.get("--os-sku"),
        "scaleSetPriority": options.get("--priority"), "orchestratorVersion": options.get("-k"),
        "enableAutoScaling": options.has("--enable-cluster-autoscaler"),
        "minCount": options.number("--min-count"), "maxCount": options.number("--max-count"),
        "osDiskType": options.get("--node-osdisk-type"), "osDiskSizeGB": options.number("--node-osdisk-size"),
    })
}

fn cluster_body(options: &Options) -> Value {
    let mut pool = pool_body(options, "--nodepool-labels", "--nodepool-taints", "--node-vm-size", "--node-count");
    pool["name"] = json!(options.text("--nodepool-name"));
    json!({
        "location": options.text("-l"), "tags": options.pairs("--tags"), "sku": { "name": "Base", "tier": options.text("--tier") },
        "properties": { "kubernetesVersion": options.get("-k"), "nodeResourceGroup": options.get("--node-resource-group"), "agentPoolProfiles": [pool],
            "autoScalerProfile": options.pairs("--cluster-autoscaler-profile"), "schedulerProfile": scheduler_profile(options) },
    })
}

fn scheduler_profile(options: &Options) -> Value {
    let is_on = options.has("--enable-upstream-kubescheduler-user-configuration");
    if is_on { json!({ "upstream": { "schedulerConfigMode": "ManagedByCRD" } }) } else { Value::Null }
}

fn printed(value: &Value) -> Said {
    (0, value.to_string(), String::new())
}

fn refusal(words: &str) -> Said {
    (1, String::new(), format!("ERROR: {words}"))
}

/// The error of an answer that is none, as az prints it.
fn error(answer: &Answer) -> Option<Said> {
    if answer.lost {
        return Some(refusal(
            "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
        ));
    }
    if answer.status < 400 {
        return None;
    }
    let text = |key: &str| answer.body["error"][key].as_str().unwrap_or_default().to_owned();
    let (code, message) = (text("code"), text("message"));
    Some((
        if answer.status == 404 { 3 } else { 1 },
        String::new(),
        format!("ERROR: ({code}) {message}\nCode: {code}\nMessage: {message}"),
    ))
}

fn plain(answer: Answer) -> Said {
    error(&answer).unwrap_or_else(|| printed(&answer.body))
}

/// What `az rest` prints.
fn raw(answer: Answer) -> Said {
    if answer.lost || answer.status < 400 {
        return plain(answer);
    }
    let reason = match answer.status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    refusal(&format!("{reason}({})", answer.body))
}

/// What `--no-wait` prints.
fn silent(answer: Answer) -> Said {
    error(&answer).unwrap_or((0, String::new(), String::new()))
}

fn flat(answer: Answer) -> Said {
    error(&answer).unwrap_or_else(|| printed(&flattened(answer.body)))
}

fn list(answer: Answer, flatten: bool) -> Said {
    error(&answer).unwrap_or_else(|| {
        let values = answer.body["value"].as_array().cloned().unwrap_or_default();
        printed(&json!(
            values.into_iter().map(|value| if flatten { flattened(value) } else { value }).collect::<Vec<_>>()
        ))
    })
}

/// az shows what is in `properties` one level higher, and the resource group beside it.
fn flattened(mut value: Value) -> Value {
    let properties = value["properties"].take();
    if let Some(map) = value.as_object_mut() {
        map.remove("properties");
        for (key, property) in properties.as_object().into_iter().flatten() {
            map.insert(key.clone(), property.clone());
        }
        let group = map.get("id").and_then(Value::as_str).and_then(|id| id.split('/').nth(4)).map(str::to_owned);
        map.insert("resourceGroup".to_owned(), json!(group));
    }
    value
}
