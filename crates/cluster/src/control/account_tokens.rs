//! Secrets that hold a token of a ServiceAccount: filled in, and deleted with their account.

// upstream: pkg/controller/serviceaccount/tokens_controller.go syncSecret, generateTokenIfNeeded (v1.36)

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{SECRETS, SERVICE_ACCOUNTS};
use klab_api_machinery::value::{list_mut, map_mut};
use klab_api_machinery::views::{ConfigMap, ObjectReference, Secret, ServiceAccount, metadata};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::account_token::{LEGACY_ISSUER, Signed, claims, legacy, sign};
use crate::cluster::{DeleteOptions, Part};

/// The type of such a Secret.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Annotations that say whose token it is.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Fills in the Secrets that are to hold a token.
#[derive(Default)]
pub(super) struct AccountTokens {
    /// The accounts that Secrets which are gone were for.
    gone: BTreeMap<ObjectName, (String, String)>,
}

fn key(secret: ObjectName) -> Key {
    Key::new(Controller::AccountToken, SECRETS, secret)
}

impl Reconciler for AccountTokens {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == SECRETS {
            if !is_token(change.object) {
                return;
            }
            if change.gone {
                let secret = change.object.value();
                let [account, uid] = [ACCOUNT, ACCOUNT_UID].map(|name| annotation(&secret, name).to_owned());
                self.gone.insert(change.name(), (account, uid));
            }
            plane.queue.add(key(change.name()));
        } else if change.gone {
            let (secrets, _) = plane.cluster.list(SECRETS, Some(&change.object.namespace));
            let of_account =
                |secret: &Object| is_token(secret) && annotation(&secret.value(), ACCOUNT) == &*change.object.name;
            for secret in secrets.iter().filter(|secret| of_account(secret)) {
                plane.queue.add(key(ObjectName::of(secret)));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let gone = self.gone.remove(name);
        match plane.cluster.get(SECRETS, &name.namespace, &name.name).filter(|secret| is_token(secret)) {
            Some(secret) => plane.fill_in_token(&secret),
            None => gone.into_iter().for_each(|(account, uid)| plane.forget_token(name, &account, &uid)),
        }
    }

    fn forget(&mut self) {
        self.gone.clear();
    }
}

/// Whether a Secret is to hold a token. Reading the text first spares decoding the others.
fn is_token(secret: &Object) -> bool {
    std::str::from_utf8(&secret.json).is_ok_and(|json| json.contains(TYPE)) && Secret(&secret.value()).type_() == TYPE
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    metadata(object).annotations().get(name).unwrap_or_default()
}

impl Plane {
    fn fill_in_token(&mut self, secret: &Object) {
        let value = secret.value();
        let (name, uid) = (annotation(&value, ACCOUNT), annotation(&value, ACCOUNT_UID));
        let account = self.cluster.get(SERVICE_ACCOUNTS, &secret.namespace, name);
        let Some(account) = account.filter(|account| uid.is_empty() || *uid == *account.uid) else {
            let options = DeleteOptions { uid: Some(secret.uid.to_string()), ..DeleteOptions::default() };
            let _deleted = self.cluster.delete(SECRETS, &secret.namespace, &secret.name, &options);
            return;
        };
        let certificate = self.cluster.root_certificate();
        let certificate = STANDARD.encode(ConfigMap(&certificate).data().get("ca.crt").unwrap_or_default());
        let data = |key: &str| Secret(&value).data().get(key).unwrap_or_default();
        let mut missing: Vec<(&str, String)> = Vec::new();
        if !certificate.is_empty() && data("ca.crt") != certificate {
            missing.push(("ca.crt", certificate));
        }
        if data("namespace").is_empty() {
            missing.push(("namespace", STANDARD.encode(&*secret.namespace)));
        }
        if data("token").is_empty() || self.is_of_other_cluster(data("token")) {
            let claims = json!({
                "iss": LEGACY_ISSUER, legacy::NAMESPACE: secret.namespace, legacy::SECRET: secret.name,
                legacy::ACCOUNT: account.name, legacy::UID: account.uid,
                "sub": format!("system:serviceaccount:{}:{}", secret.namespace, account.name),
            });
            missing.push(("token", STANDARD.encode(sign(&self.cluster, &claims))));
        }
        if missing.is_empty() {
            return;
        }
        let fill_in = |secret: &mut Value| {
            let filled = map_mut(&mut secret["data"]);
            filled.extend(missing.into_iter().map(|(key, text)| (key.to_owned(), json!(text))));
            let annotations = map_mut(&mut secret["metadata"]["annotations"]);
            annotations.insert(ACCOUNT.to_owned(), json!(account.name));
            annotations.insert(ACCOUNT_UID.to_owned(), json!(account.uid));
        };
        let _filled = self.cluster.modify(SECRETS, Part::Main, &secret.namespace, &secret.name, &writes(), fill_in);
    }

    /// Whether a token comes from the cluster that this one is a copy of, and opens only that.
    fn is_of_other_cluster(&self, token: &str) -> bool {
        let token = STANDARD.decode(token).ok().and_then(|token| String::from_utf8(token).ok()).unwrap_or_default();
        claims(&token).is_some_and(|claims| claims["iss"] == LEGACY_ISSUER)
            && Signed::with(&self.cluster.token_key(), &token).is_none()
    }

    /// Takes a Secret that is gone out of the list of its account.
    fn forget_token(&mut self, secret: &ObjectName, name: &str, uid: &str) {
        let Some(account) = self.cluster.get(SERVICE_ACCOUNTS, &secret.namespace, name) else { return };
        let is_other = |listed: ObjectReference<'_>| listed.name() != &*secret.name;
        let is_same = uid.is_empty() || *uid == *account.uid;
        if is_same && !ServiceAccount(&account.value()).secrets().all(is_other) {
            let take_out = |account: &mut Value| {
                list_mut(&mut account["secrets"]).retain(|listed| is_other(ObjectReference(listed)));
            };
            let _written =
                self.cluster.modify(SERVICE_ACCOUNTS, Part::Main, &secret.namespace, name, &writes(), take_out);
        }
    }
}
