//! ServiceAccounts, and Secrets that hold tokens of them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use klab_api_machinery::resource::{SECRETS, SERVICE_ACCOUNTS};

use super::*;

fn account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } })
}

fn secret(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": account } },
    })
}

fn data(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(text).expect("base64")).expect("text")
}

// upstream: pkg/controller/serviceaccount/tokens_controller_test.go TestTokenCreation (v1.36)
#[test]
fn secrets_of_accounts_are_filled_in() {
    let mut lab = Lab::new(0);
    lab.cluster.set_root_certificate("the certificate");
    lab.apply(account("robot"));
    let uid = lab.get(SERVICE_ACCOUNTS, "robot")["metadata"]["uid"].clone();
    lab.apply(secret("token", "robot"));
    let filled = lab.get(SECRETS, "token");
    assert_eq!((data(&filled, "namespace"), data(&filled, "ca.crt")), ("default".into(), "the certificate".into()));
    assert_eq!(filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);
    let token = data(&filled, "token");
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("claims")).expect("base64");
    assert_eq!(
        serde_json::from_slice::<Value>(&claims).expect("JSON"),
        json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
            "kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "token",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": uid,
        })
    );

    // What is taken out is put back, what somebody else has put in stays.
    lab.change(SECRETS, "token", |secret| {
        secret["data"] = json!({ "token": STANDARD.encode("mine"), "extra": STANDARD.encode("kept") });
    });
    let filled = lab.get(SECRETS, "token");
    let all = ["token", "extra", "namespace", "ca.crt"].map(|key| data(&filled, key));
    assert_eq!(all, ["mine", "kept", "default", "the certificate"]);
}

#[test]
fn secrets_of_accounts_go_with_them() {
    let mut lab = Lab::new(0);
    lab.apply(secret("early", "robot"));
    assert_eq!(lab.get(SECRETS, "early"), Value::Null, "there is no such account");
    lab.apply(account("robot"));
    lab.apply(account("other"));
    for (name, account) in [("token", "robot"), ("kept", "other")] {
        lab.apply(secret(name, account));
    }
    let mut of_former = secret("former", "robot");
    of_former["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("another");
    lab.apply(of_former);
    assert_eq!(lab.get(SECRETS, "former"), Value::Null, "it is of an account that had the name before");
    lab.delete(SERVICE_ACCOUNTS, "robot", Propagation::Background);
    assert_eq!(lab.get(SECRETS, "token"), Value::Null);
    assert_eq!(lab.get(SECRETS, "kept")["metadata"]["name"], "kept");
}

#[test]
fn accounts_forget_secrets_that_are_gone() {
    let mut lab = Lab::new(0);
    let mut robot = account("robot");
    robot["secrets"] = json!([{ "name": "token" }, { "name": "other" }]);
    lab.apply(robot);
    lab.apply(secret("token", "robot"));
    lab.delete(SECRETS, "token", Propagation::Background);
    assert_eq!(lab.get(SERVICE_ACCOUNTS, "robot")["secrets"], json!([{ "name": "other" }]));
}
