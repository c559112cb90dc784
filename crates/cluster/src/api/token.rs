//! Tokens of ServiceAccounts: made by the `token` subresource, signed by the cluster, and looked at by TokenReviews.

// upstream: pkg/serviceaccount/claims.go Claims, Validate; pkg/registry/core/serviceaccount/storage/token.go (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Response;
use jiff::Timestamp;
use klab_api_machinery::resource::{NODES, PODS, ResourceId, SECRETS, SERVICE_ACCOUNTS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{AuthenticationTokenRequest as TokenRequest, Pod};
use serde_json::{Map, Value, json};

use super::super::cluster::{Cluster, Part, WriteOptions};
use super::super::rbac::User;
use super::answer;
use super::call::{Call, Target};
use super::issuer;
use crate::account_token::{ISSUER, LEGACY_ISSUER, Signed, TokenOrder, issue, legacy, named};
use crate::body::Body;

const EXTRA: &str = "authentication.kubernetes.io";
/// Labels of Secrets whose token was used, or is to be used no more.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// What is said of a token that is none.
const INVALID: &str = "invalid bearer token";

/// Kinds that a token may be bound to, and how its claims call them.
const BOUND: [(&str, ResourceId, &str); 3] =
    [("Pod", PODS, "pod"), ("Secret", SECRETS, "secret"), ("Node", NODES, "node")];

impl Call<'_> {
    /// A token for a ServiceAccount.
    pub(super) fn token(&self, target: &Target) -> Result<Response<Body>, Status> {
        let account = self.cluster().get(target.resource, target.namespace(), target.name());
        let account = account.ok_or_else(|| Status::not_found(target.resource.row(), target.name()))?;
        let request = self.body_value(target)?;
        let spec = TokenRequest(&request).spec();
        let seconds = spec.expiration_seconds().unwrap_or(3600);
        check_expiration(seconds)?;
        let mut claimed = Map::new();
        let (bound, bound_name) = (spec.bound_object_ref(), spec.bound_object_ref().name());
        for (_, resource, claim) in BOUND.into_iter().filter(|(kind, ..)| bound.kind() == *kind) {
            let place = if resource.row().namespaced { target.namespace() } else { "" };
            let object = self.cluster().get(resource, place, bound_name);
            let object = object.ok_or_else(|| Status::not_found(resource.row(), bound_name))?;
            if !["", &object.uid].contains(&bound.uid()) {
                let because = format!(
                    "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                    bound.uid()
                );
                return Err(Status::conflict_because(resource.row(), bound_name, &because));
            }
            claimed.insert(claim.to_owned(), named(&object));
            if resource == PODS
                && let Some(node) = self.cluster().get(NODES, "", Pod(&object.value()).spec().node_name())
            {
                claimed.insert("node".to_owned(), named(&node));
            }
        }
        let audiences = if spec.audiences().is_empty() { json!([ISSUER]) } else { spec.0["audiences"].clone() };
        let now = self.cluster().now();
        let identity = self.cluster().random_suffix(24);
        let order =
            TokenOrder { account: &account, audiences: &audiences, seconds, from: now, identity, bound: claimed };
        let (token, expires) = issue(self.cluster(), order);
        let answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": target.name(), "namespace": target.namespace(), "uid": account.uid, "creationTimestamp": time_text(now),
            },
            "spec": { "audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound.0 },
            "status": { "token": token, "expirationTimestamp": time_text(expires) },
        });
        Ok(answer::json_value(201, &answer))
    }
}

/// `status` of a TokenReview.
pub(super) fn review(cluster: &Cluster, spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    let wanted: Vec<&str> = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = if wanted.is_empty() { &[ISSUER][..] } else { &wanted };
    let token = Signed::with(&cluster.token_key(), token).ok_or_else(|| INVALID.to_owned());
    match token.and_then(|token| verify(cluster, &token, wanted)) {
        Err(because) => json!({ "user": {}, "error": because }),
        Ok((user, audiences)) => {
            let mut info = json!({ "username": user.name, "uid": user.uid, "groups": user.groups });
            if !user.extra.is_empty() {
                info["extra"] = json!(user.extra);
            }
            json!({ "authenticated": true, "user": info, "audiences": audiences })
        }
    }
}

/// The ServiceAccount behind a token that this cluster has signed, if it is meant for the API server.
pub fn user_of(cluster: &Cluster, token: &Signed<'_>) -> Option<User> {
    verify(cluster, token, &[ISSUER]).ok().map(|(user, _)| user)
}

impl Call<'_> {
    /// `/openid/v1/jwks`
    pub(super) fn keys(&self) -> Response<Body> {
        issuer::keys(&self.cluster().token_key())
    }
}

/// The user of a token that this cluster has signed, and for which of the wanted audiences it is.
fn verify<'a>(cluster: &Cluster, token: &Signed<'_>, wanted: &[&'a str]) -> Result<(User, Vec<&'a str>), String> {
    let claims = token.claims().ok_or_else(|| INVALID.to_owned())?;
    let is_legacy = claims["iss"] == LEGACY_ISSUER;
    // A token in a Secret names no audience: it is meant for the API server.
    let own = json!([ISSUER]);
    let meant = if is_legacy { &own } else { &claims["aud"] };
    let second = |name: &str| claims[name].as_i64().and_then(|at| Timestamp::from_second(at).ok());
    let now = cluster.now();
    if !is_legacy && second("exp").is_none_or(|until| now >= until) {
        return Err(format!("[{INVALID}, service account token has expired]"));
    }
    let listed = |audience: &&str| meant.as_array().into_iter().flatten().any(|one| one == *audience);
    let audiences: Vec<&str> = wanted.iter().copied().filter(listed).collect();
    if audiences.is_empty() {
        return Err(format!("[{INVALID}, token audiences are not among those that are accepted]"));
    }
    if is_legacy {
        let user = verify_legacy(cluster, token, &claims);
        return user.map(|user| (user, audiences)).map_err(|because| format!("[{INVALID}, {because}]"));
    }
    let private = &claims["kubernetes.io"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, account) = (text(&private["namespace"]), &private["serviceaccount"]);
    let is_same = |resource: ResourceId, claim: &Value| {
        let place = if resource.row().namespaced { &*namespace } else { "" };
        let found = cluster.get(resource, place, claim["name"].as_str().unwrap_or_default());
        found.is_some_and(|object| claim["uid"] == *object.uid)
    };
    if !is_same(SERVICE_ACCOUNTS, account) {
        return Err(format!("[{INVALID}, service account token has been invalidated]"));
    }
    let mut user = user(&namespace, text(&claims["sub"]), text(&account["uid"]))
        .with_credential(format!("JTI={}", text(&claims["jti"])));
    for (_, resource, claim) in BOUND {
        let bound = &private[claim];
        if !bound.is_object() {
            continue;
        }
        if !is_same(resource, bound) {
            return Err(format!("[{INVALID}, service account token has been invalidated]"));
        }
        if resource != SECRETS {
            for field in ["name", "uid"] {
                user.extra.insert(format!("{EXTRA}/{claim}-{field}"), vec![text(&bound[field])]);
            }
        }
    }
    Ok((user, audiences))
}

/// The user of a token that a Secret holds: it is good as long as both are there, and for the API server alone.
// upstream: pkg/serviceaccount/legacy.go legacyValidator.Validate (v1.36)
fn verify_legacy(cluster: &Cluster, token: &Signed<'_>, claims: &Value) -> Result<User, String> {
    let claim = |name: &str| claims[name].as_str().unwrap_or_default();
    let (namespace, name, account) = (claim(legacy::NAMESPACE), claim(legacy::SECRET), claim(legacy::ACCOUNT));
    let secret = cluster.get(SECRETS, namespace, name).filter(|secret| !secret.deleting);
    let secret = secret.ok_or("Token has been invalidated")?.value();
    if secret["data"]["token"] != STANDARD.encode(token.text()) {
        return Err("Token does not match server's copy".to_owned());
    }
    let found = cluster.get(SERVICE_ACCOUNTS, namespace, account);
    let found = found.ok_or_else(|| format!("serviceaccounts \"{account}\" not found"))?;
    if found.deleting {
        return Err(format!("ServiceAccount {namespace}/{account} has been deleted"));
    }
    if *found.uid != *claim(legacy::UID) {
        let (is, claimed) = (&found.uid, claim(legacy::UID));
        return Err(format!("ServiceAccount UID ({is}) does not match claim ({claimed})"));
    }
    let today = cluster.now().strftime("%Y-%m-%d").to_string();
    let labels = &secret["metadata"]["labels"];
    if labels[LAST_USED] != *today {
        let use_now = |secret: &mut Value| secret["metadata"]["labels"][LAST_USED] = json!(today);
        // Where nothing can be written it is not known.
        let _used = cluster.modify(SECRETS, Part::Main, namespace, name, &WriteOptions::by("kube-apiserver"), use_now);
    }
    if !labels[INVALID_SINCE].as_str().unwrap_or_default().is_empty() {
        return Err(format!(
            "the token in secret {namespace}/{name} for service account {namespace}/{account} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        ));
    }
    Ok(user(namespace, claim("sub").to_owned(), found.uid.to_string()))
}

fn user(namespace: &str, name: String, uid: String) -> User {
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    User { name, uid, groups, ..User::default() }
}

/// Refuses a token for less than ten minutes, or for more than 2³² seconds.
// upstream: pkg/apis/authentication/validation/validation.go ValidateTokenRequest (v1.36)
fn check_expiration(seconds: i64) -> Result<(), Status> {
    let because = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let (kind, group, field) = ("TokenRequest", "authentication.k8s.io", "spec.expirationSeconds");
    let message = format!("Invalid value: {seconds}: {because}");
    Err(Status {
        details: json!({
            "group": group, "kind": kind,
            "causes": [{"reason": "FieldValueInvalid", "message": message, "field": field}],
        }),
        ..Status::new(422, "Invalid", format!("{kind}.{group} \"\" is invalid: {field}: {message}"))
    })
}
