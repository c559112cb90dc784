//! Tokens: made at random, kept in files only the user can read, compared in constant time.

use std::io;
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use crate::files::write_private;

/// Random bytes of a token: 256 bit.
const BYTES: usize = 32;

/// A bearer token: 256 random bits. Its text is not among what is printed of it.
pub struct Token {
    text: String,
    digest: [u8; 32],
}

impl Token {
    /// The token in a file; made, and written, when there is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) if text.trim().len() == BYTES * 2 => return Ok(Self::of(text.trim())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let token = Self::random()?;
        write_private(path, token.text.as_bytes())?;
        Ok(token)
    }

    /// The token in a file, if there is one.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        (text.trim().len() == BYTES * 2).then(|| Self::of(text.trim()))
    }

    /// A token that is like no other.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
        let mut text = String::with_capacity(BYTES * 2);
        for byte in bytes {
            text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
            text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        }
        Ok(Self::of(&text))
    }

    /// The token of this text.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), digest: digest(text.as_bytes()) }
    }

    /// What is presented: hexadecimal digits.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A secret for one purpose. Neither the token nor the secrets for other purposes follow from it.
    pub(super) fn secret(&self, purpose: &str) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.text.as_bytes());
        let mut secret = [0; 32];
        secret.copy_from_slice(hmac::sign(&key, purpose.as_bytes()).as_ref());
        secret
    }

    /// Its digest.
    pub(super) fn digest(&self) -> Digest {
        Digest(self.digest)
    }

    /// Whether somebody presented this token. Takes the same time whatever they presented.
    pub fn is(&self, presented: &Digest) -> bool {
        self.digest.ct_eq(&presented.0).into()
    }
}

/// Digest of a credential that somebody presented.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of what was presented.
    pub fn of(credential: &[u8]) -> Self {
        Self(digest(credential))
    }

    /// Whether it is of the same. Takes the same time wherever they differ.
    pub fn equals(&self, other: &Self) -> bool {
        self.is(other)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The digest whose hexadecimal digits these are.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        (text.len() == 64).then_some(Self(digest))
    }

    /// As hexadecimal digits.
    pub(super) fn text(&self) -> String {
        use std::fmt::Write;
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_kept_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::open(&path).unwrap();
        assert_eq!(token.text().len(), 64);
        assert_eq!(Token::open(&path).unwrap().text(), token.text());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(token.is(&Digest::of(token.text().as_bytes())));
        assert!(!token.is(&Digest::of(b"")));
        assert_ne!(Token::random().unwrap().text(), token.text());
    }
}
