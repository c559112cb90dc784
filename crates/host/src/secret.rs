//! The host's secret: what makes its codes, links and cookies, and what those are kept as.
//!
//! Codes and links are made from the secret and a number, so that a host that begins again after a reboot can say them
//! again; on disk stands only a keyed hash (HMAC-SHA-256) of each. The hash needs no slow function: a code has at least 40
//! random bits, guesses go through the rate limits, and without the secret, which is no part of what is hashed, the hash is
//! of no use to anybody. PINs are short and are used elsewhere by the same people: of them a slow, salted hash is kept.

use std::num::NonZeroU32;
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{hmac, pbkdf2};

use klab_operations::error::{Code, Context, Result};
use klab_server::Digest;
use klab_server::files::write_private;

const FILE: &str = "secret";
const BYTES: usize = 32;
/// Rounds for a PIN: about two milliseconds, so that a hundred may join in a second.
const ROUNDS: u32 = 4000;
/// Letters and digits that are not mistaken for each other.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// What only the host knows.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
}

impl Secret {
    /// The secret kept in a folder; made where there is none.
    ///
    /// # Errors
    /// When the folder cannot be used, or the system gives no random numbers.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let failed = || format!("could not use `{}`", path.display());
        let bytes = match std::fs::read(&path) {
            Ok(bytes) if bytes.len() == BYTES => bytes,
            Ok(_) => return Err(anyhow::anyhow!("it is damaged")).code(Code::ClassJournal, failed),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let bytes = random(BYTES)?;
                write_private(&path, &bytes).code(Code::ClassJournal, failed)?;
                bytes
            }
            Err(error) => return Err(error).code(Code::ClassJournal, failed),
        };
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// The secret that all shards of a class share, as they are given it.
    pub fn of_class(text: &str) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, text.trim().as_bytes()) }
    }

    fn of(&self, purpose: &str, what: &str) -> hmac::Tag {
        hmac::sign(&self.key, format!("{purpose}\0{what}").as_bytes())
    }

    /// A word of this many letters for a purpose: always the same one.
    pub fn word(&self, purpose: &str, what: &str, letters: usize) -> String {
        let tag = self.of(purpose, what);
        tag.as_ref().iter().take(letters).map(|byte| char::from(LETTERS[usize::from(byte & 31)])).collect()
    }

    /// A proof in hexadecimal digits, for links and cookies: 256 bits.
    pub fn proof(&self, purpose: &str, what: &str) -> String {
        hexadecimal(self.of(purpose, what).as_ref())
    }

    /// Whether somebody presented a proof. Takes the same time whatever they presented.
    pub fn is_proof(&self, purpose: &str, what: &str, presented: &str) -> bool {
        let wanted = self.proof(purpose, what);
        ring_equal(wanted.as_bytes(), presented.as_bytes())
    }

    /// What is kept of a code.
    pub fn hash(&self, code: &str) -> String {
        hexadecimal(self.of("code", code).as_ref())
    }

    /// What is kept of a PIN of somebody; the name is the salt.
    pub fn pin(&self, person: &str, pin: &str) -> String {
        let salt = self.of("pin", person);
        let mut out = [0; 32];
        let rounds = NonZeroU32::new(ROUNDS).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt.as_ref(), pin.as_bytes(), &mut out);
        hexadecimal(&out)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Whether two texts are equal, in a time that does not say where they differ: their digests are compared.
pub fn ring_equal(one: &[u8], other: &[u8]) -> bool {
    Digest::of(one).equals(&Digest::of(other))
}

fn random(bytes: usize) -> Result<Vec<u8>> {
    let mut random = vec![0; bytes];
    let filled = SystemRandom::new().fill(&mut random).map_err(|_| anyhow::anyhow!("the system gives none"));
    filled.code(Code::MachineRefused, || "could not get random numbers".to_owned())?;
    Ok(random)
}

/// A PIN that klab chooses: six digits.
///
/// # Errors
/// When the system gives no random numbers.
pub fn new_pin() -> Result<String> {
    let bytes = random(8)?;
    let number = bytes.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    Ok(format!("{:06}", number % 1_000_000))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_begins_again_says_the_same_and_another_does_not() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, again, other] = [0, 0, 1].map(|folder| Secret::open(folders[folder].path()).unwrap());
        assert_eq!(first.word("class", "1", 8), again.word("class", "1", 8));
        assert_ne!(first.word("class", "1", 8), first.word("class", "2", 8));
        assert_ne!(first.word("class", "1", 8), other.word("class", "1", 8));
        let proof = first.proof("learner", "7");
        assert!(again.is_proof("learner", "7", &proof));
        for (purpose, what, presented) in
            [("learner", "8", proof.as_str()), ("instructor", "7", &proof), ("learner", "7", ""), ("learner", "7", "0")]
        {
            assert!(!again.is_proof(purpose, what, presented), "{purpose} {what}");
        }
        assert!(!other.is_proof("learner", "7", &proof));
        assert_eq!(first.hash("abc"), again.hash("abc"));
        assert_ne!(first.hash("abc"), other.hash("abc"));
        assert_ne!(first.pin("ann", "1234"), first.pin("bob", "1234"));
        assert_eq!(new_pin().unwrap().len(), 6);
    }

    #[test]
    fn shards_that_are_given_one_secret_say_the_same() {
        let [one, other, third] = ["a long secret\n", " a long secret", "another secret"].map(Secret::of_class);
        assert_eq!(one.word("instructor", "link", 26), other.word("instructor", "link", 26));
        assert_eq!(one.hash("abc"), other.hash("abc"));
        assert_ne!(one.hash("abc"), third.hash("abc"));
    }

    #[test]
    fn a_damaged_secret_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "short").unwrap();
        assert!(Secret::open(folder.path()).is_err());
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), b"short");
    }
}
