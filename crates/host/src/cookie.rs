//! Pure: cookies of the class's pages: read, and written so that only these pages send them.

use http::HeaderMap;
use http::header::COOKIE;

/// Who has joined in this browser.
pub const LEARNER: &str = "klab-learner";
/// Whose browser is the instructor's.
pub const INSTRUCTOR: &str = "klab-instructor";

/// Whose browser is that of an instructor who has signed in.
pub const TEACHING: &str = "klab-teaching";
/// What tells a browser from others while somebody signs in.
const SIGN_IN: &str = "klab-sign-in";
/// The same where browsers reach the class by TLS: they take a cookie of such a name from this host alone, and from no sibling of it.
const SIGN_IN_OF_HOST: &str = "__Host-klab-sign-in";

/// How long a browser keeps it: as long as the longest classes.
const AGE: u32 = 60 * 60 * 24 * 60;

/// What the cookie of a sign-in is called.
pub fn sign_in(is_secure: bool) -> &'static str {
    if is_secure { SIGN_IN_OF_HOST } else { SIGN_IN }
}

/// The value of a cookie, if the browser sent exactly one of that name.
pub fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut own = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    let first = own.next();
    // Two of one name: somebody else of this host name has set one.
    first.filter(|_| own.next().is_none())
}

/// The header that sets a cookie.
pub fn set(name: &str, value: &str, base: &str, is_secure: bool) -> String {
    // A link in a mail or a chat leads a learner back to the page.
    let same_site = if name == INSTRUCTOR { "Strict" } else { "Lax" };
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; Path={base}/; Max-Age={AGE}; HttpOnly; SameSite={same_site}{secure}")
}

/// The header that sets a cookie for a number of seconds. A provider leads back to the class from another site.
pub fn set_for(seconds: i64, name: &str, value: &str, base: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; Path={base}/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cookie_of_a_name_is_read_and_two_are_none() {
        for (sent, read) in [
            (vec!["klab-learner=1.a"], Some("1.a")),
            (vec!["a=b; klab-learner=1.a; c"], Some("1.a")),
            (vec!["a=b", "klab-learner=1.a"], Some("1.a")),
            (vec!["klab-learner=1.a; klab-learner=2.b"], None),
            (vec!["klab-learner=1.a", "klab-learner=2.b"], None),
            (vec!["xklab-learner=1.a"], None),
            (vec![], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in &sent {
                headers.append(COOKIE, value.parse().unwrap());
            }
            assert_eq!(value(&headers, LEARNER), read, "{sent:?}");
        }
        assert_eq!(
            set(INSTRUCTOR, "x", "/labs", true),
            "klab-instructor=x; Path=/labs/; Max-Age=5184000; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            set_for(600, sign_in(false), "x", "", false),
            "klab-sign-in=x; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            set_for(600, sign_in(true), "x", "", true),
            "__Host-klab-sign-in=x; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"
        );
    }
}
