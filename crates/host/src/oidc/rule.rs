//! Pure: who may join, or teach, by what an identity provider says of them.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// What a provider says of somebody.
pub(crate) type Claims = Map<String, Value>;

/// Who is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Everybody whom the provider signs in.
    Anybody,
    /// A person with this e-mail address, which the provider has verified.
    Email(String),
    /// A person with an e-mail address of this domain, which the provider has verified.
    Domain(String),
    /// A person with a claim that is this value, or a list that has it.
    Claim(String, String),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "anybody" {
            return Ok(Self::Anybody);
        }
        let wrong = || {
            "expected anybody, domain=example.org, email=ann@example.org, or a claim and its value such as groups=platform".to_owned()
        };
        let (claim, value) = text.split_once('=').ok_or_else(wrong)?;
        if claim.is_empty() || value.is_empty() {
            return Err(wrong());
        }
        let lower = value.to_lowercase();
        match claim {
            "domain" if value.contains('@') => {
                Err(format!("a domain has no `@`: domain={}", lower.trim_start_matches('@')))
            }
            "domain" => Ok(Self::Domain(lower)),
            "email" if !value.contains('@') => {
                Err(format!("an e-mail address has an `@`; `domain={lower}` is for all of a domain"))
            }
            "email" => Ok(Self::Email(lower)),
            claim => Ok(Self::Claim(claim.to_owned(), value.to_owned())),
        }
    }
}

impl fmt::Display for Rule {
    /// As it is typed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anybody => formatter.write_str("anybody"),
            Self::Email(email) => write!(formatter, "email={email}"),
            Self::Domain(domain) => write!(formatter, "domain={domain}"),
            Self::Claim(claim, value) => write!(formatter, "{claim}={value}"),
        }
    }
}

impl Rule {
    /// Whether it is about somebody of whom this is said.
    pub(crate) fn holds(&self, claims: &Claims) -> bool {
        match self {
            Self::Anybody => true,
            Self::Email(wanted) => sure_email(claims).is_some_and(|email| email == *wanted),
            Self::Domain(wanted) => sure_email(claims)
                .is_some_and(|email| email.rsplit_once('@').is_some_and(|(_, domain)| domain == wanted)),
            Self::Claim(name, wanted) => match found(claims, name) {
                Some(Value::Array(all)) => all.iter().any(|one| is(one, wanted)),
                Some(one) => is(one, wanted),
                None => false,
            },
        }
    }

    /// What it needs to know that is not among this.
    pub(crate) fn lacks(&self, claims: &Claims) -> Option<&str> {
        let needed: &[&str] = match self {
            Self::Anybody => &[],
            Self::Email(_) | Self::Domain(_) => &["email", "email_verified"],
            Self::Claim(name, _) => &[name],
        };
        needed.iter().find(|name| found(claims, name).is_none()).copied()
    }
}

fn is(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Bool(truth) => wanted == if *truth { "true" } else { "false" },
        Value::Number(number) => number.to_string() == wanted,
        _ => false,
    }
}

/// A claim by its name, or by its path: some providers have `realm_access.roles`.
fn found<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let mut path = name.split('.');
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |value, step| value.get(step))
    })
}

/// The e-mail address in small letters, where the provider has made sure that it is theirs.
fn sure_email(claims: &Claims) -> Option<String> {
    let is_sure = match claims.get("email_verified")? {
        Value::Bool(sure) => *sure,
        Value::String(sure) => sure == "true",
        _ => false,
    };
    claims.get("email").and_then(Value::as_str).filter(|_| is_sure).map(str::to_lowercase)
}

/// Why none of several rules holds; nothing where one does.
pub(crate) fn why_none(rules: &[Rule], option: &str, claims: &Claims) -> Option<String> {
    if rules.iter().any(|rule| rule.holds(claims)) {
        return None;
    }
    if claims.get("email").is_some()
        && claims.get("email_verified").is_none_or(|sure| *sure != true && *sure != "true")
        && rules.iter().any(|rule| matches!(rule, Rule::Email(_) | Rule::Domain(_)))
    {
        return Some(format!("no {option} holds; the provider does not say that the e-mail address was verified"));
    }
    let lacked = rules.iter().find_map(|rule| rule.lacks(claims));
    Some(lacked.map_or_else(
        || format!("no {option} holds"),
        |claim| format!("no {option} holds; the provider says nothing of `{claim}`"),
    ))
}

/// As the provider calls somebody.
pub(crate) fn name_of(claims: &Claims) -> Option<&str> {
    let said = |name: &&str| claims.get(*name).and_then(Value::as_str).map(str::trim).filter(|said| !said.is_empty());
    ["name", "preferred_username", "nickname", "email"].iter().find_map(said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in ["anybody", "domain=example.org", "email=ann@example.org", "groups=a b", "https://x/roles=a=b"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for wrong in ["", "groups", "=x", "groups=", "domain=@example.org", "email=example.org", "everybody"] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rule_is_about_those_of_whom_the_provider_says_it() {
        let ann = claims(json!({
            "email": "Ann@Example.org", "email_verified": true, "groups": ["platform", 7], "tid": "x", "realm_access": { "roles": ["r"] },
            "https://x.org/role": "y",
        }));
        for (rule, holds) in [
            ("anybody", true),
            ("email=ann@example.org", true),
            ("email=bob@example.org", false),
            ("domain=EXAMPLE.org", true),
            ("domain=ample.org", false),
            ("domain=org", false),
            ("groups=platform", true),
            ("groups=7", true),
            ("groups=plat", false),
            ("tid=x", true),
            ("realm_access.roles=r", true),
            ("realm_access.roles=s", false),
            ("https://x.org/role=y", true),
            ("roles=r", false),
        ] {
            assert_eq!(rule.parse::<Rule>().unwrap().holds(&ann), holds, "{rule}");
        }
    }

    #[test]
    fn an_address_that_nobody_made_sure_of_counts_for_nothing() {
        let rule: Rule = "domain=example.org".parse().unwrap();
        for (claims_of, holds) in [
            (json!({ "email": "a@example.org", "email_verified": true }), true),
            (json!({ "email": "a@example.org", "email_verified": "true" }), true),
            (json!({ "email": "a@example.org", "email_verified": false }), false),
            (json!({ "email": "a@example.org", "email_verified": 1 }), false),
            (json!({ "email": "a@example.org" }), false),
            (json!({ "email": ["a@example.org"], "email_verified": true }), false),
            (json!({ "email": "a@example.org@evil.net", "email_verified": true }), false),
        ] {
            assert_eq!(rule.holds(&claims(claims_of.clone())), holds, "{claims_of}");
        }
        let unsure = claims(json!({ "email": "a@example.org" }));
        assert!(why_none(&[rule], "--oidc-allow", &unsure).unwrap().contains("verified"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let rules = ["groups=a", "groups=b"].map(|text| text.parse::<Rule>().unwrap());
        assert_eq!(
            why_none(&rules, "--oidc-allow", &claims(json!({ "sub": "x" }))).unwrap(),
            "no --oidc-allow holds; the provider says nothing of `groups`"
        );
        assert_eq!(
            why_none(&rules, "--oidc-allow", &claims(json!({ "groups": ["c"] }))).unwrap(),
            "no --oidc-allow holds"
        );
        assert_eq!(why_none(&rules, "--oidc-allow", &claims(json!({ "groups": ["b"] }))), None);
        assert_eq!(name_of(&claims(json!({ "name": " ", "email": "a@b" }))), Some("a@b"));
        assert_eq!(name_of(&claims(json!({ "name": "Ann", "email": "a@b" }))), Some("Ann"));
    }
}
