//! A learner whom the instructor sends away: whatever let them in ends at once, and what they did stays.

use std::sync::Arc;

use jiff::Timestamp;

use super::observer;
use super::register::Entry;
use super::seat::SeatId;
use super::state::Host;
use klab_operations::error::{Code, Context, Error, Result};

/// Ends all that lets a person in, or lets them in again. Their seats get other tokens either way: the old ones open nothing.
///
/// # Errors
/// When it could not be written down, or a token could not be changed.
pub(super) async fn bar(host: &Arc<Host>, person: u32, barred: bool) -> Result<()> {
    host.record(vec![Entry::Barred { person, barred, at: Timestamp::now() }]).await?;
    host.barred.send_replace(());
    let seats: Vec<SeatId> = host.register().seats_of(person).collect();
    for seat in &seats {
        if let Some(standing) = observer::standing(host, *seat) {
            host.standings.put(standing);
        }
    }
    let host = Arc::clone(host);
    let renewed = tokio::task::spawn_blocking(move || {
        let server = host.server().ok_or_else(|| Error::message(Code::NotInClass, "the class has not begun"))?;
        seats.iter().try_for_each(|seat| {
            server.renew_token(&seat.to_string()).map_err(|status| Error::message(Code::ClassFault, status.message))
        })
    });
    renewed.await.code(Code::ClassFault, || "could not change the tokens".to_owned())?
}

/// Returns when a person is barred.
pub(super) fn is_barred(host: &Arc<Host>, person: u32) -> impl Future<Output = ()> + Send + use<> {
    until(host, move |host| host.register().is_barred(person))
}

/// Returns when something is so, which changes only as people are barred or let in again.
pub(super) fn until<F>(host: &Arc<Host>, is_so: F) -> impl Future<Output = ()> + Send + use<F>
where
    F: Fn(&Host) -> bool + Send,
{
    let (host, mut news) = (Arc::clone(host), host.barred.subscribe());
    async move {
        while !is_so(&host) {
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
