//! Pure: one sign-in on its way to the provider and back. All of it follows from the host's secret, the browser's word and the state,
//! so that nothing is kept for those who never come back, and a host that begins again meanwhile still knows the others.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use crate::secret::Secret;

/// For how many seconds a sign-in that was begun is good.
pub(crate) const LONG: i64 = 600;
/// Longest state that is read.
const MAX_STATE: usize = 400;

/// What somebody wants who signs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Their seat.
    Seat,
    /// Lines for their own terminal, at their seat.
    Terminal,
    /// The instructor's page.
    Teach,
}

impl Purpose {
    /// What people's links say.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seat => "seat",
            Self::Terminal => "terminal",
            Self::Teach => "teach",
        }
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        [Self::Seat, Self::Terminal, Self::Teach].into_iter().find(|aim| aim.word() == word)
    }
}

/// What a sign-in is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginState {
    /// The shard that it was begun at.
    pub(crate) shard: u32,
    /// In seconds.
    pub(crate) begun: i64,
    pub(crate) aim: Purpose,
    /// The lab; nothing: the first.
    pub(crate) lab: String,
    /// The number of the class's code that was said, where one was.
    pub(crate) code: Option<u32>,
    /// Whether another shard led here.
    pub(crate) is_led: bool,
}

/// A sign-in that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthRequest {
    /// What the provider brings back.
    pub(crate) state: String,
    /// What stands in its token.
    pub(crate) nonce: String,
    /// What only this host can say for the code (PKCE).
    pub(crate) verifier: String,
}

impl AuthRequest {
    /// A new one of a browser; `salt` is a word that was there never before.
    pub(crate) fn begin(secret: &Secret, browser: &str, wish: &LoginState, salt: &str) -> Self {
        let code = wish.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let (aim, led) = (wish.aim.word(), u8::from(wish.is_led));
        let text = format!("{}.{}.{aim}.{led}.{code}.{salt}.{}", wish.shard, wish.begun, wish.lab);
        Self::of(secret, browser, &text)
    }

    fn of(secret: &Secret, browser: &str, text: &str) -> Self {
        let what = format!("{browser}\0{text}");
        Self {
            state: format!("{text}.{}", secret.proof("sign-in state", &what)),
            nonce: secret.proof("sign-in nonce", &what),
            verifier: secret.proof("sign-in verifier", &what),
        }
    }

    /// The sign-in of this browser that a state is of; none where it is of another one, or was made up.
    pub(crate) fn back(secret: &Secret, browser: &str, state: &str) -> Option<(Self, LoginState)> {
        let (text, proof) = state.rsplit_once('.').filter(|_| state.len() <= MAX_STATE)?;
        secret.is_proof("sign-in state", &format!("{browser}\0{text}"), proof).then_some(())?;
        let parts: Vec<&str> = text.splitn(7, '.').collect();
        let [shard, begun, aim, led, code, _, lab] = parts.as_slice() else { return None };
        let wish = LoginState {
            shard: shard.parse().ok()?,
            begun: begun.parse().ok()?,
            aim: Purpose::of(aim)?,
            lab: (*lab).to_owned(),
            code: if *code == "-" { None } else { Some(code.parse().ok()?) },
            is_led: *led == "1",
        };
        Some((Self::of(secret, browser, text), wish))
    }

    /// What the provider compares the verifier with.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.as_bytes()))
    }
}

/// The shard that a state says it is of, unverified.
pub(crate) fn shard_of(state: &str) -> Option<u32> {
    state.split_once('.').filter(|_| state.len() <= MAX_STATE)?.0.parse().ok()
}

impl LoginState {
    /// Whether it was begun a short while ago.
    pub(crate) fn is_fresh(&self, now: i64) -> bool {
        (0..=LONG).contains(&now.saturating_sub(self.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> LoginState {
        LoginState {
            shard: 2,
            begun: 1000,
            aim: Purpose::Terminal,
            lab: "scheduling".into(),
            code: Some(3),
            is_led: true,
        }
    }

    #[test]
    fn a_round_is_known_again_by_its_browser_and_its_host_alone() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [secret, other] = [0, 1].map(|folder| Secret::open(folders[folder].path()).unwrap());
        let round = AuthRequest::begin(&secret, "browser", &wish(), "salt");
        assert_eq!(AuthRequest::back(&secret, "browser", &round.state), Some((round.clone(), wish())));
        assert_eq!(shard_of(&round.state), Some(2));
        assert_eq!(AuthRequest::back(&secret, "another", &round.state), None);
        assert_eq!(AuthRequest::back(&other, "browser", &round.state), None);
        // Each letter counts.
        for at in 0..round.state.len() {
            let mut text = round.state.clone().into_bytes();
            text[at] = if text[at] == b'a' { b'b' } else { b'a' };
            assert_eq!(AuthRequest::back(&secret, "browser", &String::from_utf8(text).unwrap()), None, "{at}");
        }
        for made_up in ["", ".", "2.1000", "2.1000.seat.0.-.x.lab.", &"a.".repeat(300)] {
            assert_eq!(AuthRequest::back(&secret, "browser", made_up), None, "{made_up}");
        }
        let next = AuthRequest::begin(&secret, "browser", &wish(), "other salt");
        assert!(next.state != round.state && next.nonce != round.nonce && next.verifier != round.verifier);
        let plain = LoginState { code: None, is_led: false, lab: String::new(), aim: Purpose::Seat, ..wish() };
        let round = AuthRequest::begin(&secret, "browser", &plain, "salt");
        assert_eq!(AuthRequest::back(&secret, "browser", &round.state).unwrap().1, plain);
    }

    #[test]
    fn a_round_is_good_for_ten_minutes() {
        for (now, is) in [(999, false), (1000, true), (1600, true), (1601, false), (i64::MIN, false)] {
            assert_eq!(wish().is_fresh(now), is, "{now}");
        }
    }

    #[test]
    fn pkce_is_as_the_specification_shows_it() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let round = AuthRequest { state: String::new(), nonce: String::new(), verifier };
        assert_eq!(round.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
