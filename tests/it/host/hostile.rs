//! Those who want what is not theirs.

use super::running::{Running, status_of};

#[tokio::test]
async fn a_token_opens_its_own_seat_by_no_trick_another() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    let bob = host.join(&host.code, "Bob", "1357").await.unwrap();
    assert_eq!((ann["seat"].as_str(), bob["seat"].as_str()), (Some("0-1"), Some("0-2")));
    let anns = format!("Bearer {}", ann["token"].as_str().unwrap());
    let headers = [("authorization", anns.as_str())];
    assert_eq!(status_of(&host, "GET", "/seats/0/1/api/v1/nodes", &headers).await, 200);
    for path in [
        "/seats/0/2/api/v1/nodes",
        "/seats/0/02/api/v1/nodes",
        "/seats/0/1/../2/api/v1/nodes",
        "/seats/0/1/%2e%2e/2/api/v1/nodes",
        "/seats/0/1%2f..%2f2/api/v1/nodes",
        "/seats/0/1/..;/2/api/v1/nodes",
        "/seats/0//2/api/v1/nodes",
        "/seats//0/2/api/v1/nodes",
        "//seats/0/2/api/v1/nodes",
        "/Seats/0/2/api/v1/nodes",
        "/seats/0/%32/api/v1/nodes",
        "/%73eats/0/2/api/v1/nodes",
        "/seats/0/2%00/api/v1/nodes",
        "/seats/0/%EF%BC%92/api/v1/nodes",
        "/seats/0/2?x=/seats/0/1/",
        "/seats/template/scheduling/api/v1/nodes",
        "/seats/0-2/api/v1/nodes",
        "/clusters/0-2/api/v1/nodes",
        "/clusters/scheduling/api/v1/nodes",
        "/klab/v1/clusters",
        "/klab/v1/health",
        "/api/seats/0-2",
        "/api/seats/0-2/guide",
        "/api/seats/0-02",
        "/api/seats/0%2d2",
        "/api/seats/scheduling",
        "/teach/class.json",
        "/teach/seats/0-2/",
        "/teach/seats/0-2/kubeconfig",
        "/learn/scheduling/kubeconfig",
    ] {
        let (status, _, text) = host.ask("GET", path, &headers, Vec::new()).await;
        assert!([400, 401, 403, 404].contains(&status), "{path}: {status} {text}");
        assert!(!text.contains("aks-nodepool1"), "{path}: {text}");
    }
    // Even the server's own token, which stands in the host's folder, opens nothing from outside.
    let server = std::fs::read_to_string(host.home().join("hosts/scheduling/server/token")).unwrap();
    let bearer = format!("Bearer {server}");
    assert_eq!(status_of(&host, "GET", "/klab/v1/clusters", &[("authorization", &bearer)]).await, 404);
}

#[tokio::test]
async fn codes_are_not_guessed_in_bulk_whatever_address_a_guesser_claims() {
    let host = Running::start(&["scheduling"]);
    let mut codes = std::collections::BTreeMap::new();
    for number in 0..60 {
        let forged = format!("10.1.2.{number}");
        let body = format!("code=aaaa-{number:04}&name=Eve");
        let headers = [("x-forwarded-for", forged.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        let (status, answer, _) = host.ask("POST", "/api/join", &headers, body.into_bytes()).await;
        *codes.entry(status).or_insert(0) += 1;
        assert_eq!(status == 429, answer.contains_key("retry-after"));
    }
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), [403, 429], "{codes:?}");
    assert!(codes[&403] <= 42, "{codes:?}");
    // The instructor's word is guessed by nobody, either.
    let (status, ..) = host.ask("POST", "/teach/open", &[], b"0123456789".to_vec()).await;
    assert_eq!(status, 429);
}

#[tokio::test]
async fn a_pin_is_not_guessed() {
    let host = Running::start(&["scheduling"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let mut refusals = Vec::new();
    for pin in 0..12 {
        refusals.push(host.join(&host.code, "Ann", &format!("{pin:04}")).await.unwrap_err());
    }
    assert!(refusals[0].starts_with("403") && refusals[11].starts_with("429"), "{refusals:?}");
    // Whoever has another name is not held up.
    assert!(host.join(&host.code, "Bob", "").await.is_ok());
}

#[tokio::test]
async fn pages_run_and_frame_nothing_and_forms_of_others_are_refused() {
    let host = Running::start(&["scheduling"]);
    for path in ["/", "/teach/", "/nowhere", "/learn/scheduling/"] {
        let (_, headers, _) = host.ask("GET", path, &[("accept", "text/html")], Vec::new()).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        // No other place is told an address of this one; the form says where it comes from.
        let told = if path == "/" { "same-origin" } else { "no-referrer" };
        assert_eq!(headers["referrer-policy"], told, "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
    }
    let form = format!("code={}&name=Ann&pin=2468", host.code);
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let elsewhere = [kind, ("origin", "https://evil.example")];
    assert_eq!(host.ask("POST", "/join", &elsewhere, form.clone().into_bytes()).await.0, 403);
    let own = [kind, ("origin", host.url.as_str())];
    let (status, headers, _) = host.ask("POST", "/join", &own, form.into_bytes()).await;
    assert_eq!(status, 303);
    let cookie = headers["set-cookie"].to_str().unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Secure"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(status_of(&host, "GET", "/learn/scheduling/kubeconfig", &[("cookie", pair)]).await, 200);
    // A cookie alone changes nothing: a page of another place may send it.
    assert_eq!(status_of(&host, "POST", "/learn/scheduling/reset", &[("cookie", pair)]).await, 403);
    // Nor does one that was made up.
    let forged = format!("klab-learner=2.{}", pair.rsplit('.').next().unwrap());
    assert_eq!(status_of(&host, "GET", "/learn/scheduling/kubeconfig", &[("cookie", &forged)]).await, 401);
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let host = Running::start(&["scheduling"]);
    let (status, ..) = host.ask("POST", "/api/join", &[], vec![b'a'; 100_000]).await;
    assert_eq!(status, 413);
    let long = format!("code={}&name={}", host.code, "x".repeat(1000));
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(host.ask("POST", "/api/join", &kind, long.into_bytes()).await.0, 400);
}
