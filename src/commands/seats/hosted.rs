//! A class that this machine hosts, for `klab verify NAME --seats` and `klab host --health`: its host is asked, on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use super::super::Context;
use crate::seat::Host;
use crate::watch::grid::{Seat, SeatResult};
use klab_host::secret::Secret;
use klab_lab::words::{plural, table};
use klab_operations::client::bearer::Trust;
use klab_operations::error::{Code, Error, Result};
use klab_operations::provider::sim::server;
use klab_operations::provider::sim::server_lock::{Attempt, ServerLock};
use klab_operations::state::home::HOSTED;
use klab_operations::ui::Format;

/// How often the class is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether this machine hosts, or hosted, a class of this name.
pub(in super::super) fn is_hosted(context: &Context, name: &str) -> bool {
    context.home.hosts().join(name).join(HOSTED).is_file()
}

/// Shows where everybody is, once or as it changes.
///
/// # Errors
/// When the host does not run, or somebody's step does not hold.
pub(in super::super) fn verify(context: &Context, name: &str, watches: bool) -> Result<()> {
    loop {
        let seen = context.block_on(look(context, name))?;
        let seats = seen["seats"].as_array().cloned().unwrap_or_default();
        let open: Vec<&Value> = seats.iter().filter(|seat| !holds(seat)).collect();
        if watches && context.ui.redraw(&text(&seats)) {
            std::thread::sleep(AGAIN);
            continue;
        }
        match context.ui.format() {
            Format::Json => context.ui.result(&seen.to_string()),
            Format::Csv => context.ui.result(&sheet(context, name)?),
            _ => context.ui.result(&text(&seats)),
        }
        if watches {
            std::thread::sleep(AGAIN);
            continue;
        }
        let total = plural(seats.len(), "seat");
        if open.is_empty() {
            return Ok(());
        }
        return Err(Error::message(Code::SeatsNotHolding, format!("{} of {total} do not hold", open.len())));
    }
}

/// All seats, as a grid shows them.
///
/// # Errors
/// When the host does not run.
pub(in super::super) fn seats(context: &Context, name: &str) -> Result<Vec<SeatResult>> {
    let seen = context.block_on(look(context, name))?;
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap_or_default()).unwrap_or_default();
    let seat = |seat: &Value| {
        let text = |key: &str| seat[key].as_str().unwrap_or_default().to_owned();
        Some(Seat {
            number: text("seat").rsplit_once('-')?.1.parse().ok()?,
            name: Some(text("name")),
            step: number(&seat["step"]),
            done: number(&seat["done"]),
            steps: number(&seat["steps"]),
            held: (number(&seat["held"][0]), number(&seat["held"][1])),
            failing: text("failing"),
            since: text("since").parse().ok(),
        })
    };
    Ok(seen["seats"].as_array().into_iter().flatten().filter_map(seat).map(Ok).collect())
}

fn holds(seat: &Value) -> bool {
    seat["held"].as_array().is_none_or(|held| held.first() == held.last())
}

fn text(seats: &[Value]) -> String {
    let mut rows =
        vec![["SEAT", "NAME", "STEP", "SINCE", "CHECKS", "FIRST THAT DOES NOT HOLD"].map(str::to_owned).to_vec()];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.extend(seats.iter().map(|seat| {
        let (done, steps, step) = (seat["done"].as_u64(), seat["steps"].as_u64(), seat["step"].as_u64().unwrap_or(0));
        let position = match step {
            _ if steps > Some(0) && done >= steps => "all done".to_owned(),
            0 => "set-up".to_owned(),
            step => format!("{step} of {} `{}`", steps.unwrap_or(0), word(&seat["step_name"])),
        };
        let held = seat["held"].as_array().map_or("-".to_owned(), |held| {
            let number = |at: usize| held.get(at).map(ToString::to_string).unwrap_or_default();
            format!("{} of {}", number(0), number(1))
        });
        let stuck = if seat["stuck"] == true { ", stuck" } else { "" };
        let since = word(&seat["since"]).get(11..16).map(|time| format!("{time} UTC{stuck}")).unwrap_or_default();
        vec![word(&seat["seat"]), word(&seat["name"]), position, since, held, word(&seat["failing"])]
    }));
    table(&rows)
}

/// The host of the class, if it runs, as its instructor reaches it on this machine.
async fn host(context: &Context, name: &str) -> Result<Host> {
    let folder = context.home.hosts().join(name);
    let server_folder = folder.join("server");
    // Only a process that holds the class's lock gets the instructor's word.
    let runs = matches!(ServerLock::take_existing(&server_folder)?, Attempt::Held);
    let access = server::access(&server_folder).filter(|_| runs).ok_or_else(|| {
        Error::message(Code::ClassUnreachable, format!("class `{name}` is not hosted at the moment"))
            .hint(format!("`klab host --resume --name {name}` brings it back"))
    })?;
    let address = match access.address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, access.address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, access.address.port())),
        _ => access.address,
    };
    let word = Secret::open(&folder)?.word("instructor", "link", 26);
    let kept = std::fs::read_to_string(folder.join("scheme")).unwrap_or_default();
    // A certificate of the user's own is good for its own name, and this is this machine.
    let (scheme, trust) = match kept.trim() {
        "http" => ("http", Trust::Machine),
        "given" => ("https", Trust::Anybody),
        _ => ("https", Trust::Authority(access.certificate.as_str())),
    };
    Host::new(&format!("{scheme}://{address}"), trust, Some(&word)).await
}

/// Asks a class that this machine hosts whether it serves.
///
/// # Errors
/// When it does not run, or does not serve yet.
pub(in super::super) fn serves(context: &Context, name: &str) -> Result<()> {
    context.block_on(async { host(context, name).await?.text("/readyz").await }).map(drop)
}

async fn look(context: &Context, name: &str) -> Result<Value> {
    host(context, name).await?.get("/teach/class.json?own=true").await
}

fn sheet(context: &Context, name: &str) -> Result<String> {
    context.block_on(async { host(context, name).await?.text("/teach/class.csv?own=true").await })
}
