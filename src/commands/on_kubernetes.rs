//! `klab host --on-kubernetes`: a class as shards on a Kubernetes cluster; its manifests are in klab.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Context;
use klab_host::on_kubernetes::machines::{self, Wishes};
use klab_host::on_kubernetes::manifests::{BASE, Class, Route, SignIn, layer};
use klab_host::on_kubernetes::sizing::{Wanted, size};
use klab_lab::spec::Lab;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::exec::{self, quoted};
use klab_operations::state::home::state_error;
use klab_server::Token;
use klab_server::files::{create_private_folder, write_private};

/// What can be typed after `klab host` for a class on Kubernetes.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Host the class as shards on a Kubernetes cluster: applies klab's manifests with kubectl, and prints the address.
    #[arg(long, requires = "url", requires = "image")]
    on_kubernetes: bool,
    /// The context of your kubeconfig; the current one by default.
    #[arg(long, value_name = "CONTEXT", requires = "on_kubernetes", conflicts_with = "provider")]
    context: Option<String>,
    /// Make the cluster first, as a lab: `aks`. `klab down hosted-NAME` removes it with all that is in it.
    #[arg(long, value_name = "PROVIDER", requires = "on_kubernetes", conflicts_with = "write", value_parser = ["aks"])]
    provider: Option<String>,
    /// The Azure region of that cluster.
    #[arg(long, value_name = "REGION", requires = "provider")]
    location: Option<String>,
    /// The Azure subscription of that cluster, by name or id; az's own by default.
    #[arg(long, value_name = "SUBSCRIPTION", requires = "provider")]
    subscription: Option<String>,
    /// The image of klab that the cluster can pull (`deploy/Containerfile` builds it).
    #[arg(long, value_name = "IMAGE", requires = "on_kubernetes")]
    image: Option<String>,
    /// The class of the Ingress that leads to the shards; `nginx` by default, on a cluster that klab makes the one of its router.
    #[arg(long, value_name = "CLASS", requires = "on_kubernetes", conflicts_with = "gateway_class")]
    ingress_class: Option<String>,
    /// In place of an Ingress, the class of the Gateway.
    #[arg(long, value_name = "CLASS", requires = "on_kubernetes")]
    gateway_class: Option<String>,
    /// Seats that are in use at the same time; all by default.
    #[arg(long, value_name = "COUNT", requires = "on_kubernetes")]
    in_use: Option<u32>,
    /// Write the manifests into this folder, and apply nothing.
    #[arg(long, value_name = "FOLDER", requires = "on_kubernetes")]
    write: Option<PathBuf>,
}

/// What of a class is said elsewhere on the command line.
#[derive(Debug, Clone)]
pub struct ClassFlags<'s> {
    /// What the class is called.
    pub class: &'s str,
    /// The lesson as typed, and as read.
    pub lesson: &'s str,
    /// See [`ClassFlags::lesson`].
    pub lab: &'s Lab,
    /// What people type: `https://HOST`.
    pub url: &'s str,
    /// Most seats of all shards together.
    pub seats: u32,
    /// Commands that each console runs at a time; none without one.
    pub commands: Option<u32>,
    /// A certificate and its key.
    pub certificate: Option<(&'s Path, &'s Path)>,
    /// Where people sign in, if they do, and the texts of the secret for it.
    pub sign_in: Option<(SignIn, Map<String, Value>)>,
}

/// Time for kubectl to answer, and for the shards to be ready.
const ANSWER: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(600);

impl Arguments {
    /// Whether the class is to be on Kubernetes.
    pub fn is_wanted(&self) -> bool {
        self.on_kubernetes
    }

    /// The class as it runs there.
    fn class(&self, said: &ClassFlags<'_>) -> Result<Class> {
        let host = said.url.strip_prefix("https://").filter(|host| !host.contains(['/', ':']));
        let host = host.ok_or_else(|| {
            Error::message(
                Code::ClassSettings,
                format!("`--url {}` is not the address of a class on Kubernetes", said.url),
            )
            .hint("it is `https://` and a name: TLS ends at the Ingress or Gateway, on port 443")
        })?;
        if said.lesson.contains(['/', '.']) {
            let message =
                format!("`{}` is a file of this machine, and the shards have lessons of klab only", said.lesson);
            return Err(Error::message(Code::ClassSettings, message).hint(
                "put it into an image of yours (`FROM` klab's, `COPY lab.toml /lab.toml`); `--write FOLDER` with a lesson writes manifests, in \
                 which `KLAB_LAB` is then `/lab.toml`",
            ));
        }
        let in_use = self.in_use.unwrap_or(said.seats);
        Ok(Class {
            lab: said.lesson.to_owned(),
            host: host.to_owned(),
            image: self.image.clone().unwrap_or_default(),
            route: match &self.gateway_class {
                Some(class) => Route::Gateway(class.clone()),
                None => Route::Ingress(self.ingress_class.clone().unwrap_or_else(|| self.usual_router().to_owned())),
            },
            sizing: size(said.lab, Wanted { seats: said.seats, in_use, commands: said.commands }),
            console: said.commands.is_some(),
            sign_in: said.sign_in.as_ref().map(|(sign_in, _)| sign_in.clone()),
        })
    }

    fn usual_router(&self) -> &'static str {
        if self.provider.is_some() { machines::ROUTER.0 } else { "nginx" }
    }
}

/// The cluster that the class is to run on.
enum Target<'t> {
    /// One of the user's, by a context of theirs or their current one.
    Theirs(Option<&'t str>),
    /// One that klab made, by its kubeconfig.
    Made(PathBuf),
}

impl Target<'_> {
    fn kubectl(&self) -> exec::Command {
        let kubectl = exec::Command::new("kubectl");
        match self {
            Self::Theirs(Some(context)) => kubectl.arg("--context").arg(context),
            Self::Theirs(None) => kubectl,
            Self::Made(kubeconfig) => kubectl.arg("--kubeconfig").arg(kubeconfig),
        }
    }
}

/// Makes the cluster of a class, or brings it to what the class needs now.
fn make(context: &Context, arguments: &Arguments, said: &ClassFlags<'_>, class: &Class) -> Result<PathBuf> {
    let wishes = Wishes { location: arguments.location.as_deref(), subscription: arguments.subscription.as_deref() };
    let text = machines::lab(said.class, &class.sizing, wishes)?;
    let name = machines::name(said.class);
    let folder = context.home.root().join("clusters");
    let file = folder.join(format!("{name}.toml"));
    let written = create_private_folder(&folder).and_then(|()| write_private(&file, text.as_bytes()));
    written.map_err(|error| state_error(error, "write", &file))?;
    super::up::run(context, super::one::Arguments::of(&file, &[]))?;
    context.kubeconfig(&name)
}

/// Hosts a class on Kubernetes, or writes its manifests.
///
/// # Errors
/// When the cluster does not take them, or the shards do not come to run.
pub fn run(context: &Context, arguments: &Arguments, said: &ClassFlags<'_>) -> Result<()> {
    let class = arguments.class(said)?;
    if let Some(folder) = &arguments.write {
        write(folder, &class)?;
        let apply = quoted(&folder.join("class").display().to_string()).into_owned();
        let sizing = class.sizing.lines().join("\n");
        let mut text = format!("{sizing}\nwritten to {}; `kubectl apply -k {apply}` applies them\n", folder.display());
        if let Some((_, texts)) = said.sign_in.as_ref().filter(|(_, texts)| !texts.is_empty()) {
            let files: String = texts.keys().map(|name| format!(" --from-file={name}=FILE")).collect();
            let _ = writeln!(
                text,
                "`kubectl create secret generic klab-oidc -n klab{files}` makes the secret that they need"
            );
        }
        context.ui.result(&text);
        return Ok(());
    }
    let target = match arguments.provider {
        Some(_) => Target::Made(make(context, arguments, said, &class)?),
        None => Target::Theirs(arguments.context.as_deref()),
    };
    let folder =
        tempfile::tempdir().code(Code::MachineRefused, || "could not make a folder for the manifests".to_owned())?;
    write(folder.path(), &class)?;
    let failed = |error: exec::Error, what: &str| match error {
        missing @ exec::Error::Missing { .. } => Error::new(Code::ToolMissing, missing)
            .hint("`--write FOLDER` writes the manifests, for a machine that has kubectl"),
        other => Error::new(Code::ToolFailed, anyhow::Error::from(other).context(what.to_owned())),
    };
    context.ui.say("applying the manifests of the class");
    if matches!(target, Target::Made(_)) {
        let namespace = router();
        hand_over(&target, folder.path(), &namespace).map_err(|error| failed(error, "could not let the router in"))?;
    }
    let layer = folder.path().join("class");
    let applied = target.kubectl().args(["apply", "-k"]).arg(&layer).output(READY);
    applied.map_err(|error| failed(error, "could not apply the class"))?;
    let (code, link) = class_secret(&target, folder.path())
        .map_err(|error| failed(error, "could not make the code and the secret of the class"))?;
    if let Some((_, texts)) = said.sign_in.as_ref().filter(|(_, texts)| !texts.is_empty()) {
        hand_over(&target, folder.path(), &secret("klab-oidc", "Opaque", &Value::Object(texts.clone())))
            .map_err(|error| failed(error, "could not hand over the secret of the identity provider's client"))?;
    }
    if let Some((certificate, key)) = said.certificate {
        let secret = certificate_secret(certificate, key)?;
        hand_over(&target, folder.path(), &secret)
            .map_err(|error| failed(error, "could not hand over the certificate"))?;
    }
    context.ui.say(&format!("waiting for {}", klab_lab::words::plural(class.sizing.shards as usize, "shard")));
    let status = ["rollout", "status", "statefulset/klab", "--namespace", "klab", "--timeout", "600s"];
    let ready = target.kubectl().args(status).output(READY);
    ready.map_err(|error| {
        failed(error, "the shards do not run").hint("`kubectl describe pods -n klab` says why; what was applied stays")
    })?;
    let address = address(&target, &class.route).map_err(|error| failed(error, "could not ask for the address"))?;
    let to = match &address {
        Some(address) => format!("{} must lead to {address}", class.host),
        None => format!(
            "the cluster has given no address yet: `kubectl get ingress,gateway -n klab` shows it; {} must lead there",
            class.host
        ),
    };
    let mut text = format!(
        "{url}\ncode {code}\nthe instructor's page, whose link is a secret: {url}/teach/#open={link}\n{to}\n{}\n",
        class.sizing.lines().join("\n"),
        url = said.url,
    );
    if said.sign_in.is_some() {
        let _ = writeln!(text, "the identity provider is to lead back to {}/oidc/callback", said.url);
    }
    if said.certificate.is_none() {
        text.push_str(
            "TLS is with the secret `klab-tls`: `kubectl create secret tls klab-tls -n klab --cert FILE --key FILE`\n",
        );
    }
    context.ui.result(&text);
    Ok(())
}

/// Writes the base and the layer of a class into a folder.
fn write(folder: &Path, class: &Class) -> Result<()> {
    let put = |path: PathBuf, text: &str| {
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.code(Code::FileUnwritten, || format!("could not write `{}`", path.display()))
    };
    for (name, text) in BASE {
        put(folder.join("base").join(name), text)?;
    }
    for (name, text) in layer(class, "../base")? {
        put(folder.join("class").join(name), &text)?;
    }
    Ok(())
}

/// The code of the class and the word of the instructor's link: of the secret that is there, or of a new one.
fn class_secret(target: &Target<'_>, folder: &Path) -> std::result::Result<(String, String), exec::Error> {
    let there = |key: &str| {
        let kubectl =
            target.kubectl().args(["get", "secret", "klab-class", "--namespace", "klab", "--ignore-not-found"]);
        let text =
            kubectl.arg("--output").arg(format!("jsonpath={{.data.{key}}}")).results_are_secret().output(ANSWER)?;
        let text = STANDARD.decode(text.trim()).ok().and_then(|text| String::from_utf8(text).ok());
        Ok(text.filter(|text| !text.is_empty()))
    };
    let broken = |source| exec::Error::Broken { command: "a random number".to_owned(), source };
    let (code, shared) = (there("code")?, there("secret")?);
    let is_whole = code.is_some() && shared.is_some();
    let code = if let Some(code) = code {
        code
    } else {
        let token = Token::random().map_err(broken)?;
        // Short enough to be read out, too long to be guessed before the limits stop the guessing.
        let letters: String = token.text().chars().take(8).collect();
        format!("{}-{}", &letters[..4], &letters[4..])
    };
    let shared = match shared {
        Some(shared) => shared,
        None => Token::random().map_err(broken)?.text().to_owned(),
    };
    if !is_whole {
        hand_over(target, folder, &secret("klab-class", "Opaque", &json!({ "code": code, "secret": shared })))?;
    }
    let link = klab_host::secret::Secret::of_class(&shared).word("instructor", "link", 26);
    Ok((code, link))
}

fn secret(name: &str, of: &str, texts: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "klab" }, "type": of, "stringData": texts })
}

fn certificate_secret(certificate: &Path, key: &Path) -> Result<Value> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).code(Code::FileUnread, || format!("could not read `{}`", path.display()))
    };
    Ok(secret("klab-tls", "kubernetes.io/tls", &json!({ "tls.crt": read(certificate)?, "tls.key": read(key)? })))
}

/// The namespace of the router that klab had made with the cluster, let through by the NetworkPolicy.
fn router() -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": machines::ROUTER.1, "labels": { "klab.dev/routes": "true" } } })
}

/// Applies an object from a file of this user's own: on a command line others would see it, and it may be a secret.
fn hand_over(target: &Target<'_>, folder: &Path, object: &Value) -> std::result::Result<(), exec::Error> {
    let path = folder.join("object.json");
    let broken = |source| exec::Error::Broken { command: "kubectl apply".to_owned(), source };
    write_private(&path, object.to_string().as_bytes()).map_err(broken)?;
    let applied =
        target.kubectl().args(["apply", "--server-side", "--field-manager=klab", "-f"]).arg(&path).output(ANSWER);
    std::fs::remove_file(&path).map_err(broken)?;
    applied.map(|_| ())
}

/// Where the route is reached, once the cluster says so.
fn address(target: &Target<'_>, route: &Route) -> std::result::Result<Option<String>, exec::Error> {
    let kind = match route {
        Route::Ingress(_) => "ingress",
        Route::Gateway(_) => "gateway",
    };
    let text =
        target.kubectl().args(["get", kind, "klab", "--namespace", "klab", "--output", "json"]).output(ANSWER)?;
    let status = serde_json::from_str::<Value>(&text).unwrap_or_default()["status"].take();
    let first = &status["loadBalancer"]["ingress"][0];
    let found =
        [&first["ip"], &first["hostname"], &status["addresses"][0]["value"]].into_iter().find_map(Value::as_str);
    Ok(found.map(str::to_owned))
}
