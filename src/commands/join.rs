//! `klab join`: a seat of a class that somebody hosts, as a lab on this machine.

use super::Context;
use crate::seat::{Host, origin};
use jiff::Timestamp;
use klab_host::fingerprint;
use klab_host::secret::new_pin;
use klab_operations::client::bearer::Trust;
use klab_operations::environment;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::state::{Joined, Record};
use klab_operations::ui::Format;
use serde_json::{Value, json};

/// What can be typed after `klab join`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address on the instructor's screen; what stands behind `#ca=` tells its certificate from all others.
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The code on the instructor's screen, on your hand-out, or on the page where you have signed in.
    #[arg(value_name = "CODE")]
    code: Option<String>,
    /// Your name; the one you have on this machine by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The lab to join, where the class has several; the first by default.
    #[arg(long, value_name = "LAB")]
    lab: Option<String>,
    /// What the lab is called on this machine.
    #[arg(long = "as", value_name = "NAME")]
    called: Option<String>,
    /// The fingerprint of the host's certificate, as the instructor's screen shows it.
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
    /// Trust whichever host answers at the address, now and later (unsafe on a shared network).
    #[arg(long, conflicts_with = "fingerprint")]
    trust_on_first_use: bool,
}

/// Joins, and writes the seat down as a lab.
///
/// # Errors
/// When the host does not let this person in, or is not the one that was meant.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let (url, print) = address(&arguments.address)?;
    let print = arguments.fingerprint.clone().or(print);
    let ask = |question: &str| context.ui.asks(question).filter(|answer| !answer.is_empty());
    let authority = context.block_on(authority(context, arguments, &url, print.as_deref()))?;
    let trust = authority.as_deref().map_or(Trust::Machine, Trust::Authority);
    let host = context.block_on(Host::new(&url, trust, None))?;
    let (code, has_signed_in) = match &arguments.code {
        Some(code) => (code.clone(), false),
        None => code(context, &host, &ask)?,
    };
    let own = environment::USER.text();
    let name = arguments.name.clone().or_else(|| match &own {
        // The provider says the name.
        _ if has_signed_in => Some(own.clone().unwrap_or_default()),
        Some(own) => ask(&format!("Your name ({own}):")).or_else(|| Some(own.clone())),
        None => ask("Your name:"),
    });
    let name = name.ok_or_else(|| Error::message(Code::JoinAddress, "a name is needed").hint("`--name` says it"))?;
    let said = environment::KLAB_PIN.text();
    let pin = said.clone().map_or_else(new_pin, Ok)?;
    let lab = arguments.lab.as_deref();
    let (joined, pin) = match context.block_on(host.join(&code, &name, &pin, lab)) {
        Ok(joined) => (joined, said.is_none().then_some(pin)),
        // Who has come before says the PIN.
        Err(error) if said.is_none() && error.to_string().contains("PIN") => {
            let asked = ask(&format!("{error}\nPIN:")).ok_or_else(|| error.hint("KLAB_PIN=… says the PIN"))?;
            (context.block_on(host.join(&code, &name, &asked, lab))?, None)
        }
        Err(error) => return Err(error),
    };
    // Who has signed in, or has a code of their own, comes back without one.
    let pin = pin.filter(|_| joined["has_pin"] != false);
    keep(context, arguments, &url, authority, &joined, pin)
}

/// The code that somebody types who has given none, and whether they signed in for it.
fn code(context: &Context, host: &Host, ask: &dyn Fn(&str) -> Option<String>) -> Result<(String, bool)> {
    let page = context.block_on(async { Ok(host.sign_in().await) })?;
    let question = match &page {
        Some(page) => {
            format!(
                "To sign in, open this page in a browser; it shows a code for your terminal:\n\n    {page}\n\nThat code, or the one on the instructor's screen:"
            )
        }
        None => "The code on the instructor's screen:".to_owned(),
    };
    let Some(code) = ask(&question) else {
        let error = Error::message(Code::JoinAddress, "a code is needed");
        return Err(match page {
            Some(page) => error.hint(format!("{page} gives you one for your terminal, once you have signed in")),
            None => error.hint("`klab join ADDRESS CODE`, as the instructor's screen shows it"),
        });
    };
    Ok((code, page.is_some()))
}

/// Writes down what a host has given.
fn keep(
    context: &Context,
    arguments: &Arguments,
    url: &str,
    authority: Option<String>,
    joined: &Value,
    pin: Option<String>,
) -> Result<()> {
    let word = |key: &str| joined[key].as_str().unwrap_or_default().to_owned();
    let url = &of_the_seat(url, &word("url"));
    let lab = arguments.called.clone().unwrap_or_else(|| word("lab"));
    if !is_name(&lab) {
        return Err(Error::message(Code::JoinAddress, format!("`{lab}` is no name for a lab"))
            .hint("`--as` takes small letters, digits and hyphens, a letter first"));
    }
    let home = &context.home;
    let known = Joined::read(home, &lab)?;
    let is_other = known.as_ref().is_some_and(|known| known.url != *url || known.seat != word("seat"));
    let is_lab = Record::read(&home.lab(&lab), &lab)?.record.is_some();
    if is_lab || is_other || klab_operations::state::class::Class::read(home, &lab)?.is_some() {
        let what = if is_other { "is your seat of another class" } else { "is up on this machine" };
        return Err(Error::message(Code::ClassInTheWay, format!("lab `{lab}` {what}"))
            .hint(format!("`--as {lab}-2` gives this one another name; `klab down {lab}` ends the other one")));
    }
    let seat = Joined {
        schema: Joined::SCHEMA.to_owned(),
        lab: lab.clone(),
        of: Some(word("lab")),
        class: word("class"),
        url: url.clone(),
        authority,
        seat: word("seat"),
        token: word("token"),
        page: word("page"),
        joined: Timestamp::now(),
    };
    seat.write(home, &word("kubeconfig"))?;
    let Joined { class, seat: number, page, .. } = &seat;
    context
        .ui
        .events()
        .about(About::Lab, &lab)
        .note(Verb::JoinClass, format!("class `{class}` at {url}: seat {number} is lab `{lab}` here"));
    if context.ui.format() == Format::Json {
        let path = Joined::kubeconfig(home, &lab);
        context.ui.result(
            &json!({
                "schema": "klab.join/1", "lab": lab, "class": class, "seat": number, "url": url, "page": page,
                "kubeconfig": path, "pin": pin,
            })
            .to_string(),
        );
        return Ok(());
    }
    if let Some(pin) = pin {
        context.ui.say(&format!(
            "\n  Your PIN is {pin}. With it and your name you come back to this seat from another machine."
        ));
    }
    context.ui.say(&format!("\n  klab guide {lab}    klab shell {lab}    klab verify {lab}\n  page: {page}"));
    Ok(())
}

/// Where a seat is asked: at the host that was reached, below the path that the class says. Each shard has a path of its own.
fn of_the_seat(reached: &str, said: &str) -> String {
    format!("{}{}", origin(reached), &said[origin(said).len()..])
}

fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    (1..=40).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(plain)
}

/// The URL in an address, and the fingerprint that it says.
fn address(typed: &str) -> Result<(String, Option<String>)> {
    let (url, rest) = typed.split_once('#').unwrap_or((typed, ""));
    let print = rest.split('&').find_map(|pair| pair.strip_prefix("ca=")).map(str::to_owned);
    let url = url.trim();
    let url = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    let url = url.trim_end_matches('/').to_owned();
    let wrong = || Error::message(Code::JoinAddress, format!("`{typed}` is no address such as https://10.0.0.7:8443"));
    let uri: http::Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?;
    let here = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    match uri.scheme_str() {
        Some("https") => Ok((url, print)),
        Some("http") if here => Ok((url, print)),
        Some("http") => {
            Err(Error::message(Code::JoinAddress, "the code and all that follows would go over an open line")
                .hint(format!("`https://{}` is secured", url.trim_start_matches("http://"))))
        }
        _ => Err(wrong()),
    }
}

/// The certificate authority of a host, if it needs one of its own, compared with what the person was given.
async fn authority(context: &Context, arguments: &Arguments, url: &str, print: Option<&str>) -> Result<Option<String>> {
    if url.starts_with("http://") {
        return Ok(None);
    }
    if print.is_none() && Host::new(url, Trust::Machine, None).await?.text("/healthz").await.is_ok() {
        return Ok(None);
    }
    let pem = Host::new(url, Trust::Anybody, None).await?.text("/ca.pem").await?;
    let found = fingerprint::of(&pem);
    match print {
        Some(print) if fingerprint::is_of(print, &pem) => return Ok(Some(pem)),
        Some(_) => {
            let message = format!("who answers at {url} is not the host that was meant: its fingerprint is {found}");
            return Err(Error::message(Code::JoinFingerprint, message)
                .hint("compare it with `certificate` on the instructor's screen; nothing was sent there"));
        }
        None if arguments.trust_on_first_use => return Ok(Some(pem)),
        None => {}
    }
    let question = format!(
        "This machine does not know the certificate of {url}. Its fingerprint is\n\n    {found}\n\nIs it the one on the instructor's screen?"
    );
    match context.ui.agrees(&question) {
        Some(true) => Ok(Some(pem)),
        Some(false) => Err(Error::message(Code::UntrustedHost, "nothing was sent")),
        None => {
            let message = format!("this machine does not know the certificate of {url}; its fingerprint is {found}");
            Err(Error::message(Code::UntrustedHost, message)
                .hint(
                    "`--fingerprint` takes the one on the instructor's screen; the address with `#ca=…` has it already",
                )
                .hint("`--trust-on-first-use` trusts any server that answers, which is unsafe on a shared network"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_where_it_was_reached_and_below_the_path_of_its_shard() {
        for (reached, said, wanted) in [
            ("https://h", "https://h/shards/2", "https://h/shards/2"),
            ("https://h/labs", "https://h/labs", "https://h/labs"),
            ("https://10.0.0.7:8443", "https://lab7:8443", "https://10.0.0.7:8443"),
            ("https://h/labs", "https://h/labs/shards/0", "https://h/labs/shards/0"),
        ] {
            assert_eq!(of_the_seat(reached, said), wanted);
        }
    }

    #[test]
    fn an_address_says_where_and_who() {
        for (typed, wanted) in [
            ("https://h:8443/#ca=abc", Some(("https://h:8443", Some("abc")))),
            ("h:8443", Some(("https://h:8443", None))),
            ("https://h/labs/", Some(("https://h/labs", None))),
            ("http://127.0.0.1:9", Some(("http://127.0.0.1:9", None))),
            ("http://h", None),
            ("ftp://h", None),
            ("https://", None),
        ] {
            let read = address(typed).ok();
            assert_eq!(read.as_ref().map(|(url, print)| (url.as_str(), print.as_deref())), wanted, "{typed}");
        }
    }
}
