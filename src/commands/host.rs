//! `klab host`: a class that people join over the network, until it is ended.

mod addresses;
mod announcement;
mod arguments;
mod record;
mod sign_in;
pub(super) mod stored_classes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

pub use self::arguments::Arguments;
use self::arguments::Way;
use self::record::Hosted;
use super::Context;
use super::seats::hosted;
use klab_host::code::{For, plain};
use klab_host::console::Console;
use klab_host::course::Course;
use klab_host::oidc::sign_in::SignIn;
use klab_host::register::{Entry, Times};
use klab_host::router::ClassServer;
use klab_host::secret::Secret;
use klab_host::shards::Shards;
use klab_host::state::{Host, Settings};
use klab_host::{observer, replication, state, template, timers, webhook};
use klab_lab::spec::Lab;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::provider::sim::server_lock::ServerLock;
use klab_operations::state::home::{HOSTED, state_error};
use klab_server::files::create_private_folder;
use klab_server::{Certificate, Limits, Public, Server, ServerOptions, StartError, Webhooks};

/// How long a class may take to end once the user wants it to: a second Ctrl-C ends it at once.
const LAST: Duration = Duration::from_secs(30);

/// Hosts a class until the user ends it.
///
/// # Errors
/// When it cannot be made, or its address cannot be had.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if arguments.on_kubernetes.is_wanted() {
        return on_kubernetes(context, arguments);
    }
    if arguments.health {
        let name = arguments.name.clone().map_or_else(|| only(context), Ok)?;
        hosted::serves(context, &name)?;
        context.ui.say(&format!("class `{name}` serves"));
        return Ok(());
    }
    klab_operations::allocator::begin_again()?;
    let way = arguments.way()?;
    let webhook = arguments.webhook()?;
    let sign_in = arguments.sign_in.settings(arguments.shards)?;
    let code = arguments.join_code_file.as_deref().map(read_code).transpose()?;
    let secret = arguments.shard_secret_file.as_deref().map(read_secret).transpose()?;
    let (hosted, is_new) = hosted(context, arguments)?;
    let folder = folder(context, &hosted.name);
    create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
    let server_folder = folder.join("server");
    let Some(lock) = ServerLock::take(&server_folder)? else {
        let message = format!("class `{}` is hosted already, by another klab on this machine", hosted.name);
        return Err(Error::message(Code::ClassInTheWay, message).hint("`--name` gives a second one a name of its own"));
    };
    lock.sign().map_err(|error| state_error(error, "sign the lock in", &server_folder))?;
    let labs: Vec<Lab> = hosted.labs.iter().map(record::LabRecord::load).collect::<Result<_>>()?;
    hosted.write(&folder)?;
    let settings = Settings {
        name: hosted.name.clone(),
        proxies: way.proxies.clone(),
        is_proxied: !way.proxies.is_empty(),
        certificate: match &way.certificate {
            Certificate::Given { chain, .. } => Some(chain.clone()),
            Certificate::Own(_) | Certificate::Proxied { .. } => None,
        },
        shard: hosted.shard,
        most: hosted.most,
        shards: shards(arguments, code.as_deref(), secret.as_ref())?,
        secret,
        console: console(context, arguments)?,
        code,
        sign_in: sign_in.map(|settings| Arc::new(SignIn::new(settings))),
        practice: hosted.practice,
    };
    let names: Vec<String> = labs.iter().map(|lab| lab.name.value.clone()).collect();
    let host = Arc::new(Host::open(&folder, settings, &names)?);
    let runtime = klab_operations::client::runtime()?;
    let outcome = runtime.block_on(serve(context, arguments, (way, webhook), Arc::clone(&host), labs, is_new));
    drop(lock);
    outcome
}

/// The code of the class, as a file has it.
fn read_code(file: &Path) -> Result<String> {
    let problem = || format!("could not read `{}`", file.display());
    let text = std::fs::read_to_string(file).code(Code::FileUnread, problem)?;
    let code = text.trim();
    if plain(code).len() < SHORTEST_CODE {
        let message = format!("the code in `{}` has less than {SHORTEST_CODE} letters and digits", file.display());
        return Err(Error::message(Code::ClassSettings, message).hint("people would guess it"));
    }
    Ok(code.to_owned())
}

/// Fewest letters and digits of a code that somebody chooses.
const SHORTEST_CODE: usize = 8;
/// Fewest bytes of the secret of a class: no person types it.
const SHORTEST_SECRET: usize = 32;

/// What all shards of the class know, and no learner, as a file has it.
fn read_secret(file: &Path) -> Result<Secret> {
    let problem = || format!("could not read `{}`", file.display());
    let text = std::fs::read_to_string(file).code(Code::FileUnread, problem)?;
    if text.trim().len() < SHORTEST_SECRET {
        let message = format!("the secret in `{}` has less than {SHORTEST_SECRET} letters", file.display());
        return Err(Error::message(Code::ClassSettings, message)
            .hint("`head -c 32 /dev/urandom | base64` prints one; it is not the code, which learners know"));
    }
    Ok(Secret::of_class(&text))
}

/// The other shards of the class, where it has any.
fn shards(arguments: &Arguments, code: Option<&str>, secret: Option<&Secret>) -> Result<Option<Shards>> {
    if arguments.shards == 1 {
        return Ok(None);
    }
    let (Some(address), Some(_), Some(secret)) = (arguments.shard_address.clone(), code, secret) else {
        let message =
            format!("{} shards must know where the others are, and have one code and one secret", arguments.shards);
        return Err(Error::message(Code::ClassSettings, message)
            .hint("`--shard-address http://klab-{}.klab-shards:8443 --join-code-file FILE --shard-secret-file FILE`"));
    };
    Ok(Some(Shards::new(arguments.shard, arguments.shards, address, secret)))
}

/// The learners' console, where they are to have one.
fn console(context: &Context, arguments: &Arguments) -> Result<Option<Arc<Console>>> {
    let settings =
        arguments.console.settings().code(Code::KlabFault, || "could not find klab's own program".to_owned())?;
    let Some(settings) = settings else { return Ok(None) };
    let console = Console::new(settings)?;
    context.ui.say(&format!("learners have a console, with kubectl {}", console.version()));
    for lack in console.lacks() {
        context.ui.events().warn(Code::Caveat, format!("the console's sandbox has a hole: {lack}"));
    }
    Ok(Some(Arc::new(console)))
}

/// The class as shards on a Kubernetes cluster.
fn on_kubernetes(context: &Context, arguments: &Arguments) -> Result<()> {
    let [lesson] = arguments.labs.as_slice() else {
        return Err(Error::message(Code::ClassSettings, "a class on Kubernetes has one lab"));
    };
    let hosted = Hosted::new(context, arguments)?;
    let labs: Vec<Lab> = hosted.labs.iter().map(record::LabRecord::load).collect::<Result<_>>()?;
    let Some(lab) = labs.first() else { return Ok(()) };
    let said = super::on_kubernetes::ClassFlags {
        class: &hosted.name,
        lesson: &lesson.to_string_lossy(),
        lab,
        url: arguments.url.as_deref().unwrap_or_default(),
        seats: arguments.max_seats,
        commands: arguments.console.console.then_some(u32::from(arguments.console.console_commands)),
        certificate: arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref()),
        sign_in: arguments.sign_in.on_kubernetes()?,
    };
    super::on_kubernetes::run(context, &arguments.on_kubernetes, &said)
}

/// The folder of a hosted class.
fn folder(context: &Context, name: &str) -> PathBuf {
    context.home.hosts().join(name)
}

/// The class that is meant: one that was hosted before, or a new one.
fn hosted(context: &Context, arguments: &Arguments) -> Result<(Hosted, bool)> {
    let named = arguments.name.clone();
    let is_there = |name: &str| folder(context, name).join(HOSTED).exists();
    // A class that is to be there whenever its host starts begins with the first start.
    let begins =
        || -> Result<bool> { Ok(!arguments.labs.is_empty() && !is_there(&Hosted::new(context, arguments)?.name)) };
    if arguments.resume && !begins()? {
        let name = match (named, arguments.labs.first()) {
            (Some(name), _) => name,
            (None, Some(lab)) => lab.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned(),
            (None, None) => only(context)?,
        };
        return Hosted::read(&folder(context, &name), &name).map(|hosted| (hosted, false));
    }
    let hosted = Hosted::new(context, arguments)?;
    if is_there(&hosted.name) {
        let message = format!("class `{}` was hosted before, and its seats are kept", hosted.name);
        return Err(Error::message(Code::ClassInTheWay, message)
            .hint(format!(
                "`klab host --resume --name {}` brings it back with its codes, seats and progress",
                hosted.name
            ))
            .hint(format!("`klab down {}` removes it with its seats", hosted.name))
            .hint("`--name` gives a new one a name of its own"));
    }
    Ok((hosted, true))
}

/// The only class that was hosted.
fn only(context: &Context) -> Result<String> {
    let names = context.home.hosted().map_err(|error| state_error(error, "read", &context.home.hosts()))?;
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            Err(Error::message(Code::NoSuchClass, "no class was hosted here").hint("`klab host scheduling` hosts one"))
        }
        several => {
            Err(Error::message(Code::NoSuchClass, format!("several classes were hosted here: {}", several.join(", ")))
                .hint("`--name` says which one is meant"))
        }
    }
}

async fn serve(
    context: &Context,
    arguments: &Arguments,
    (way, webhook): (Way, Option<webhook::delivery::Settings>),
    host: Arc<Host>,
    labs: Vec<Lab>,
    is_new: bool,
) -> Result<()> {
    let mut end = signal(SignalKind::terminate()).code(Code::MachineRefused, || "could not take signals".to_owned())?;
    // A learner who may write into a seat would have this machine call any address they name.
    let options = ServerOptions {
        webhooks: Webhooks::Off,
        clock_times: super::serve::clock_times(),
        limits: Limits::of_a_class(),
        ..ServerOptions::at(host.folder.join("server"))
    };
    let public = Public {
        listen: way.listen,
        certificate: way.certificate.clone(),
        url: way.url.clone(),
        folder: state::SEATS.to_owned(),
        front: Arc::new(ClassServer::new(Arc::clone(&host))),
    };
    let server = Server::start_public(options, public).await.map_err(|error| start_error(error, &way))?;
    let server = Arc::new(server);
    let courses = make_courses(context, &server, &host, labs).await?;
    let begun = (Arc::clone(&host), Arc::clone(&server));
    let begin = tokio::task::spawn_blocking(move || begun.0.begin(begun.1, courses));
    begin.await.code(Code::ClassFault, || "could not begin the class".to_owned())??;
    if is_new {
        begin_class(&host, arguments).await?;
    }
    let until = arguments.code_expires.map(|when| when.from(Timestamp::now()));
    klab_host::codes::take_code(&host, until, arguments.code_uses).await?;
    // What was decided while this shard was away.
    replication::learn_from_all(&host).await;
    observer::begin(&host)?;
    let telling = webhook.map(|settings| webhook::begin(&host, settings)).transpose()?;
    way.note(&host.folder)?;
    announcement::tell(context, &host, arguments, &way);
    let interrupted = Arc::new(Notify::new());
    context.interruption_cleans_up(Some(Box::new({
        let interrupted = Arc::clone(&interrupted);
        move || {
            interrupted.notify_one();
            // The class ends, and klab with it.
            std::thread::sleep(LAST);
        }
    })));
    let mut over = None;
    tokio::select! {
        () = server.stopped() => {}
        () = look_at_provider(context, &host) => {}
        ended = timers::run(&host, || set_aside(context, &host)) => over = Some(ended),
        () = replication::keep_agreeing(&host) => {}
        _ = end.recv() => {}
        () = interrupted.notified() => {}
    }
    server.stop();
    // Connections hear of it, and what they were given is on disk.
    server.close_down().await;
    if let Some(telling) = telling {
        telling.ended().await;
    }
    let name = &host.settings.name;
    if let Some(ended) = over {
        ended?;
        context.ui.say(&format!("class `{name}` is over, and its seats are removed"));
        return Ok(());
    }
    context.ui.advise(&format!("class `{name}` is kept; `klab host --resume --name {name}` brings it back"));
    Ok(())
}

/// Says that a class is over, and what becomes of it.
fn set_aside(context: &Context, host: &Host) {
    let name = &host.settings.name;
    let days = timers::ASIDE.as_secs() / (24 * 60 * 60);
    context.ui.say(&format!(
        "class `{name}` is over by this machine's clock, and its seats cannot be reached. They are removed when the host has run for \
         {days} days more. The instructor's page opens the class again; this removes it at once, after Ctrl-C here:\n  klab down {name}"
    ));
}

/// Says once whether people can sign in: a provider that is down, or is not the one that was meant, ends no class. Never returns.
async fn look_at_provider(context: &Context, host: &Host) {
    if let Some(sign_in) = host.sign_in()
        && let Some(trouble) = sign_in.trouble().await
    {
        let words = format!("sign-in is unavailable; everything else works: {trouble}");
        context.ui.events().warn(Code::Caveat, words);
    }
    std::future::pending::<()>().await;
}

/// Makes the templates of all labs.
async fn make_courses(
    context: &Context,
    server: &Arc<Server>,
    host: &Host,
    labs: Vec<Lab>,
) -> Result<BTreeMap<String, Course>> {
    let mut courses = BTreeMap::new();
    for lab in labs {
        let name = lab.name.value.clone();
        let (server, events) = (Arc::clone(server), context.ui.events());
        let folder = host.folder.join("templates").join(&name);
        let course = if host.settings.practice.is_some() { Course::of_practice } else { Course::new };
        let made = tokio::task::spawn_blocking(move || {
            let begins = template::make(&server, &lab, &folder, &events)?;
            Ok::<_, Error>(course(lab, begins))
        });
        courses.insert(name, made.await.code(Code::ClassFault, || "could not make a template".to_owned())??);
    }
    Ok(courses)
}

/// Writes down the times of a new class, and makes its codes.
async fn begin_class(host: &Host, arguments: &Arguments) -> Result<()> {
    let now = Timestamp::now();
    let opens = arguments.opens.map(|when| when.from(now));
    let closes = arguments.closes.from(opens.unwrap_or(now));
    let keep = SignedDuration::try_from(arguments.keep).unwrap_or(SignedDuration::MAX);
    host.record(vec![Entry::Times(Times { opens, closes: Some(closes), keep, decided: None })]).await?;
    let until = arguments.code_expires.map(|when| when.from(now));
    if host.settings.code.is_none() {
        klab_host::codes::new_codes(host, For::Class, until, arguments.code_uses, 1).await?;
    }
    // They are good at all shards: one of them makes them.
    if host.settings.shard == 0 {
        klab_host::codes::new_codes(host, For::Seat, None, Some(1), arguments.seat_codes).await?;
    }
    Ok(())
}

fn start_error(error: StartError, way: &Way) -> Error {
    match error {
        StartError::Folder(folder, error) => state_error(error, "use the server's folder", &folder),
        certificate @ StartError::Certificate(_) => Error::new(Code::ClassSettings, certificate)
            .hint("`--tls-cert` takes a certificate (and those that vouch for it) in PEM, `--tls-key` its private key"),
        other => Error::new(Code::PortInUse, other).hint(format!(
            "another program uses it, or this machine has no such address; `--listen {}:PORT` takes another port",
            way.listen.ip()
        )),
    }
}
