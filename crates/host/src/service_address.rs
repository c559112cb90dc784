//! Pure: addresses of services that the host asks or tells (an identity provider, a receiver of events): over TLS, or on this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// Longest address.
const MAX_ADDRESS: usize = 2000;

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Scheme, host and port.
    pub origin: String,
    /// Path and query.
    pub path: String,
    text: String,
}

impl Address {
    /// Whether it is reached over TLS.
    pub fn is_tls(&self) -> bool {
        self.origin.starts_with("https://")
    }

    /// The host, and the port where one is written: what people know the service by.
    pub fn place(&self) -> &str {
        self.origin.split_once("://").map_or("", |(_, place)| place)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        let written = self.place().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        written.unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// With parameters added to its query.
    pub fn with(&self, parameters: &[(&str, &str)]) -> String {
        let separator = if self.text.contains('?') { '&' } else { '?' };
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        format!("{}{separator}{query}", self.text)
    }
}

impl fmt::Display for Address {
    /// As it was written.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected an address such as https://name.example.org/path".to_owned();
        if text.len() > MAX_ADDRESS || !text.is_ascii() || text.contains('#') {
            return Err(wrong());
        }
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(wrong)?;
        let host = authority.host().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if authority.as_str().contains('@') || host.is_empty() {
            return Err(wrong());
        }
        match scheme {
            "https" => {}
            "http" if is_here => {}
            "http" => return Err("anyone on the network could read it: expected https://".to_owned()),
            _ => return Err(wrong()),
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { origin: format!("{scheme}://{authority}"), path, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_over_tls_or_on_this_machine() {
        for (text, origin, path, port) in [
            ("https://login.example.org", "https://login.example.org", "/", 443),
            ("https://login.example.org:8443/realms/a?x=1", "https://login.example.org:8443", "/realms/a?x=1", 8443),
            ("http://127.0.0.1:9/x", "http://127.0.0.1:9", "/x", 9),
            ("http://[::1]/", "http://[::1]", "/", 80),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(
                (address.origin.as_str(), address.path.as_str(), address.port()),
                (origin, path, port),
                "{text}"
            );
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "login.example.org",
            "http://login.example.org",
            "ftp://h",
            "https://a:b@h",
            "https://h/#x",
            "https://",
            "https://hö",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn parameters_are_added_to_what_is_there() {
        let at = |text: &str| text.parse::<Address>().unwrap().with(&[("scope", "openid profile"), ("x", "a&b")]);
        assert_eq!(at("https://h/a"), "https://h/a?scope=openid+profile&x=a%26b");
        assert_eq!(at("https://h/a?p=1"), "https://h/a?p=1&scope=openid+profile&x=a%26b");
    }
}
