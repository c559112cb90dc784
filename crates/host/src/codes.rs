//! The codes of a hosted class: made, taken from a file, shown again.

use jiff::Timestamp;

use super::code::{Code, For, plain};
use super::register::Entry;
use super::state::Host;
use klab_operations::error::Result;

/// Makes this many codes, and gives their texts.
///
/// # Errors
/// When they could not be written down.
pub async fn new_codes(
    host: &Host,
    of: For,
    until: Option<Timestamp>,
    uses: Option<u32>,
    many: u32,
) -> Result<Vec<String>> {
    if many == 0 {
        return Ok(Vec::new());
    }
    let (written, texts) = {
        let mut register = host.register();
        let first = register.next_code();
        let made = (first..first.saturating_add(many)).map(|number| {
            let (mut code, text) = Code::new(&host.class, number, of, until, uses);
            // Seats for hand-outs are spread over all shards.
            code.home = host.shards().filter(|_| of == For::Seat).map(|shards| number % shards.many());
            (Entry::Code(code), text)
        });
        let (entries, texts) = made.unzip();
        (host.take(&mut register, entries), texts)
    };
    written.on_disk().await?;
    Ok(texts)
}

/// Lets people in by the code that is given, where one is.
///
/// # Errors
/// When it could not be written down.
pub async fn take_code(host: &Host, until: Option<Timestamp>, uses: Option<u32>) -> Result<()> {
    let Some(text) = &host.settings.code else { return Ok(()) };
    let hash = host.class.hash(&plain(text));
    let written = {
        let mut register = host.register();
        if register.knows(&hash) {
            return Ok(());
        }
        let code = Code { number: register.next_code(), of: For::Class, hash, home: None, until, uses };
        host.take(&mut register, vec![Entry::Code(code)])
    };
    written.on_disk().await
}

/// The text of the newest code of the class that is good.
pub fn class_code(host: &Host) -> Option<String> {
    if let Some(code) = &host.settings.code {
        return Some(code.clone());
    }
    let register = host.register();
    let now = Timestamp::now();
    let good = register
        .codes()
        .filter(|(code, used, revoked)| code.of == For::Class && code.spent(now, *used, *revoked).is_none());
    good.last().map(|(code, ..)| code.text(&host.class))
}

/// The hash of the code of the class, where that is given and not made.
pub fn given_code(host: &Host) -> Option<String> {
    host.settings.code.as_ref().map(|code| host.class.hash(&plain(code)))
}
