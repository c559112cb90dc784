//! Those who guess, and those who are let in all the same.

use super::running::Running;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

#[tokio::test(flavor = "multi_thread")]
async fn guesses_that_come_at_once_are_counted_and_shut_nobody_out_who_has_a_right_to_come() {
    let host = Running::start(&["scheduling", "--seat-codes", "1"]);
    let seat_code = host.document["seat_codes"][0].as_str().unwrap().to_owned();
    let form = format!("code={}&name=Ann&pin=2468", host.code);
    let own = [FORM, ("origin", host.url.as_str())];
    let (_, headers, _) = host.ask("POST", "/join", &own, form.clone().into_bytes()).await;
    let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();

    let guesses = (0..200).map(|number| guess(&host, number));
    let guesses: Vec<String> = futures::future::join_all(guesses).await;
    let count = |status: &str| guesses.iter().filter(|guess| guess.starts_with(status)).count();
    // One may be forgotten meanwhile, where this takes minutes.
    assert!((8..=9).contains(&count("403")), "{:?}", &guesses[..20]);
    assert_eq!(count("403") + count("429"), 200);
    let refused = host.join(&host.code, "Ann", "2468").await.unwrap_err();
    assert!(refused.contains("wrong PINs were tried for this name"), "{refused}");

    // From this address come no more codes either.
    let wrong = futures::future::join_all((0..60).map(|_| host.join("0000-0000", "Eve", ""))).await;
    assert!(wrong.iter().any(|one| one.as_ref().is_err_and(|words| words.starts_with("429"))));
    assert!(host.join(&host.code, "Zoe", "1111").await.unwrap_err().contains("too many tries from here"));
    // Ann comes from the browser in which she joined, Bob with a code of his own, and the instructor with the link.
    let browser = [FORM, ("origin", host.url.as_str()), ("cookie", cookie.as_str()), ("accept", "application/json")];
    let (status, _, text) = host.ask("POST", "/api/join", &browser, form.into_bytes()).await;
    assert_eq!(status, 200, "{text}");
    host.join(&seat_code, "Bob", "").await.unwrap();
    host.join(&seat_code, "Bob", "").await.unwrap();
    host.instruct("GET", "/teach/class.json").await.unwrap();
    // Someone else's cookie is not Ann's.
    let form = format!("code={seat_code}&name=Bob");
    let (_, headers, _) = host.ask("POST", "/join", &own, form.into_bytes()).await;
    let bob = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let browser = [FORM, ("origin", host.url.as_str()), ("cookie", bob.as_str())];
    let form = format!("code={}&name=Ann&pin=2468", host.code);
    assert_eq!(host.ask("POST", "/api/join", &browser, form.into_bytes()).await.0, 429);
}

/// The refusal of a guess at Ann's PIN.
async fn guess(host: &Running, number: u32) -> String {
    host.join(&host.code, "Ann", &format!("{number:04}")).await.unwrap_err()
}
