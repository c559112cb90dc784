//! Every address at which a class is reached, as browsers ask there: over HTTP/2, with the origin of the page.

use std::process::Command;

use serde_json::Value;

use super::running::{Running, free_port};
use crate::skipped::is_there;

/// What a form of a page that was loaded from `origin` gets at an address: the version of HTTP, the status, the body.
fn sends_form(address: &str, origin: &str, form: &str) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sSk", "--http2", "-H", "accept: text/html", "-w", "\n%{http_version} %{http_code}", "-d", form]);
    let output = curl.arg("-H").arg(format!("origin: {origin}")).arg(format!("{address}/join")).output().unwrap();
    assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, facts) = text.rsplit_once('\n').unwrap();
    (facts.to_owned(), body.to_owned())
}

#[test]
fn a_form_is_taken_at_every_address_and_refused_in_a_sentence() {
    if !is_there("curl") {
        return;
    }
    let port = free_port();
    let host = Running::start(&["scheduling", "--listen", &format!("0.0.0.0:{port}")]);
    let printed = [&host.document["url"]].into_iter().chain(host.document["others"].as_array().unwrap());
    let mut addresses: Vec<String> = printed.filter_map(Value::as_str).map(str::to_owned).collect();
    addresses.extend(["localhost", "127.0.0.1"].map(|name| format!("https://{name}:{port}")));
    for (number, address) in addresses.iter().enumerate() {
        let form = format!("code={}&name=L{number}&pin=2468", host.code);
        assert_eq!(sends_form(address, address, &form).0, "2 303", "{address}");
        let (facts, page) = sends_form(address, "https://evil.example", &form);
        assert_eq!(facts, "2 403");
        assert!(
            page.starts_with("<!doctype html>")
                && page.contains(&format!("{}/", host.url))
                && page.contains("href=\"/\""),
            "{page}"
        );
    }
}
