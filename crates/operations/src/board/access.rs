//! Pure: who may see the page. A link is good for one browser; that browser has a cookie from then on.

use std::sync::{Mutex, PoisonError};

use klab_server::{Digest, Token};

/// Who has come in.
pub(super) struct PageAccess {
    port: u16,
    /// What the link says; none after somebody has used it.
    link: Mutex<Option<Token>>,
    browser: Token,
}

impl PageAccess {
    /// A door for a server on a port, and what its link says.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn new(port: u16) -> std::io::Result<(Self, String)> {
        let link = Token::random()?;
        let text = link.text().to_owned();
        Ok((Self { port, link: Mutex::new(Some(link)), browser: Token::random()? }, text))
    }

    /// The cookie for who comes with the link for the first time. It is sent also where a page of another place leads here, as
    /// the file does that opens the browser; what changes something asks for the page's own origin besides.
    pub(super) fn enter(&self, presented: &str) -> Option<String> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if !link.as_ref()?.is(&Digest::of(presented.as_bytes())) {
            return None;
        }
        *link = None;
        Some(format!("{}={}; Path=/; HttpOnly; SameSite=Lax", self.cookie(), self.browser.text()))
    }

    /// Whether a request's cookies are of the browser that came in.
    pub(super) fn knows(&self, cookies: &str) -> bool {
        let name = self.cookie();
        let own = cookies.split(';').filter_map(|cookie| cookie.trim().split_once('=')).find(|(key, _)| *key == name);
        own.is_some_and(|(_, value)| self.browser.is(&Digest::of(value.as_bytes())))
    }

    /// Whether a `Host` or `Origin` is this server's: a page of another name that leads here is not served.
    pub(super) fn is_here(&self, host: &str) -> bool {
        let here = ["127.0.0.1", "localhost", "[::1]"];
        host.rsplit_once(':').is_some_and(|(name, port)| here.contains(&name) && port.parse() == Ok(self.port))
    }

    /// Cookies are of a host, whatever the port: each server has a name of its own.
    fn cookie(&self) -> String {
        format!("klab-board-{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_once_and_its_browser_stays() {
        let (door, link) = PageAccess::new(4000).unwrap();
        assert_eq!(door.enter("0"), None);
        let cookie = door.enter(&link).unwrap();
        assert_eq!(door.enter(&link), None);
        let (pair, rest) = cookie.split_once(';').unwrap();
        assert_eq!(rest, " Path=/; HttpOnly; SameSite=Lax");
        assert!(door.knows(pair) && door.knows(&format!("other=1; {pair}")));
        for cookies in ["", "klab-board-4000=", "klab-board-4000=0", &pair.replace("4000", "4001")] {
            assert!(!door.knows(cookies), "{cookies}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_here() {
        let (door, _) = PageAccess::new(4000).unwrap();
        for (host, wanted) in [
            ("127.0.0.1:4000", true),
            ("localhost:4000", true),
            ("[::1]:4000", true),
            ("127.0.0.1:4001", false),
            ("127.0.0.1", false),
            ("evil.example:4000", false),
            ("127.0.0.1.evil.example:4000", false),
            ("", false),
        ] {
            assert_eq!(door.is_here(host), wanted, "{host}");
        }
    }
}
