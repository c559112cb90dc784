//! What the instructor sees once a class can be joined: address, code, link, and a picture for cameras.

use std::fmt::Write as _;

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;

use super::super::Context;
use super::arguments::{Arguments, Way};
use klab_host::code::For;
use klab_host::state::Host;
use klab_lab::words::plural;
use klab_operations::exec::quoted;
use klab_operations::ui::Format;

/// Says how the class is joined.
pub(super) fn tell(context: &Context, host: &Host, arguments: &Arguments, way: &Way) {
    let url = host.url();
    let code = klab_host::codes::class_code(host);
    let fingerprint = host.fingerprint();
    let join = fingerprint.as_ref().map_or_else(|| format!("{url}/"), |print| format!("{url}/#ca={print}"));
    let link = format!("{url}/teach/#open={}", host.instructor_word());
    let seats = seat_codes(host);
    let sign_in = host
        .sign_in()
        .map(|sign_in| (sign_in.settings.issuer.to_string(), klab_host::admission::sign_in_redirect(host)));
    if context.ui.format() == Format::Json {
        context.ui.result(
            &json!({
                "schema": "klab.host/1", "class": host.settings.name, "url": url, "join": join, "code": code,
                "fingerprint": fingerprint, "instructor": link, "others": way.others, "seat_codes": seats,
                "seats": host.register().seats().count(), "times": host.times(), "practice": host.settings.practice,
                "labs": host.register().labs,
                "sign_in": sign_in.map(|(issuer, redirect)| json!({ "issuer": issuer, "redirect": redirect })),
            })
            .to_string(),
        );
        return;
    }
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    row("address", &url);
    for other in &way.others {
        row("", other);
    }
    if let Some(code) = &code {
        row("code", code);
    }
    if let Some(print) = &fingerprint {
        row("certificate", print);
    }
    if let Some(closes) = host.times().closes {
        row("closes", &closes.strftime("%Y-%m-%d %H:%M UTC").to_string());
    }
    if let Some(minutes) = host.settings.practice {
        let tasks = plural(host.register().labs.len(), "task");
        row("practice", &format!("{tasks}, {} for each learner", plural(minutes.into(), "minute")));
    }
    if let Some((issuer, redirect)) = &sign_in {
        row("sign-in", &format!("{issuer}, which is to lead back to {redirect}"));
    }
    row("learners", &format!("klab join {} {}", quoted(&join), code.as_deref().unwrap_or("CODE")));
    row("instructor", &link);
    if arguments.seat_codes > 0 {
        let _ = writeln!(text, "\nCodes for one seat each:\n\n  {}", seats.join("\n  "));
    }
    context.ui.result(&text);
    if context.ui.is_interactive()
        && let Ok(picture) = QrCode::new(join.as_bytes())
    {
        context.ui.say(&picture.render::<Dense1x2>().quiet_zone(true).build());
    }
    context.ui.say("The link of the instructor is a secret. Ctrl-C ends the class; it is kept.");
}

fn seat_codes(host: &Host) -> Vec<String> {
    let register = host.register();
    let codes = register.codes().filter(|(code, used, revoked)| code.of == For::Seat && *used == 0 && !revoked);
    codes.map(|(code, ..)| code.text(&host.class)).collect()
}
