//! `az … wait`: asks again until what was waited for is so.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::group;
use super::session::Session;
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;
use klab_az::wait::{is_reached, state};
use klab_operations::az::{show_cluster, show_pool};

/// `aks wait`.
pub(super) fn for_cluster(session: &Session<'_>, given: &Arguments) -> Answer {
    wait(given, || show_cluster(session, given))
}

/// `aks nodepool wait`.
pub(super) fn for_pool(session: &Session<'_>, given: &Arguments) -> Answer {
    wait(given, || show_pool(session, given))
}

/// `group wait`.
pub(super) fn for_group(session: &Session<'_>, given: &Arguments) -> Answer {
    wait(given, || group::show(session, given))
}

/// How often is looked.
const LOOK: Duration = Duration::from_millis(100);

fn wait(given: &Arguments, look: impl Fn() -> Answer) -> Answer {
    if given.has_none_of(&["--created", "--updated", "--deleted", "--exists", "--custom"]) {
        return Err(Refusal::new("incorrect usage: --created | --updated | --deleted | --exists | --custom JMESPATH"));
    }
    let number = |flag: &str| given.number(flag).and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let (interval, timeout) = (number("--interval").max(1), Duration::from_secs(number("--timeout")));
    let begun = Instant::now();
    loop {
        match look() {
            // As az does, whatever was waited for.
            Ok(seen) if state(&seen) == Some("Failed") => return Err(Refusal::new("The operation failed")),
            Ok(seen) if is_reached(given, &seen)? => return Ok(Value::Null),
            Ok(_) => {}
            Err(refusal) if refusal.exit_code == 3 => {
                if given.has("--deleted") {
                    return Ok(Value::Null);
                }
                if given.has_none_of(&["--created", "--exists", "--custom"]) {
                    return Err(refusal);
                }
            }
            Err(refusal) => return Err(refusal),
        }
        // A look costs nothing here, so that what is done is not found half a minute later.
        if begun.elapsed().saturating_add(Duration::from_secs(interval)) >= timeout {
            // az has no better word for it, and ends well.
            return Ok(Value::Object(serde_json::Map::new()));
        }
        std::thread::sleep(LOOK);
    }
}
