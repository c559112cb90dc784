//! Pure: signatures of the Standard Webhooks form, with secrets as a file has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// What each secret begins with.
const PREFIX: &str = "whsec_";
/// How many bytes a secret has.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Most secrets at a time: the one that is used, and those that it replaces.
const MAX_SECRETS: usize = 4;

/// Signs messages.
pub struct Signer {
    keys: Vec<hmac::Key>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The keys are not among what is printed.
        formatter.write_str("Signer")
    }
}

impl Signer {
    /// Of the secrets in a text, one a line. While one is replaced by another, messages are signed with both.
    ///
    /// # Errors
    /// In words that do not repeat the text, where a line is no secret.
    pub fn new(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() || lines.len() > MAX_SECRETS {
            return Err(format!("expected one secret, or at most {MAX_SECRETS}, one a line"));
        }
        let key = |line: &&str| {
            let encoded = line.strip_prefix(PREFIX).ok_or_else(|| format!("expected `{PREFIX}` and base64"))?;
            let bytes = STANDARD.decode(encoded).map_err(|_| format!("what stands after `{PREFIX}` is not base64"))?;
            if BYTES.contains(&bytes.len()) {
                Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
            } else {
                Err(format!("expected {} to {} bytes, found {}", BYTES.start(), BYTES.end(), bytes.len()))
            }
        };
        Ok(Self { keys: lines.iter().map(key).collect::<Result<_, String>>()? })
    }

    /// The signatures of a message that is sent at a second, as `webhook-signature` has them.
    pub fn sign(&self, id: &str, second: i64, body: &str) -> String {
        let signed = format!("{id}.{second}.{body}");
        let of = |key: &hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes())));
        self.keys.iter().map(of).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn signatures_are_those_of_the_standards_own_example() {
        let signature = |text: &str| {
            let body = "{\"test\": 2432232314}";
            Signer::new(text).unwrap().sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body)
        };
        let wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature(&format!("{SECRET}\n")), wanted);
        let both = signature(&format!("whsec_{}\n{SECRET}\n", STANDARD.encode([7; 32])));
        assert!(both.starts_with("v1,") && both.ends_with(&format!(" {wanted}")), "{both}");
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        let many = format!("{SECRET}\n").repeat(5);
        for text in ["", "\n\n", "hunter2hunter2hunter2hunter2", "whsec_hunter2*", &short, &long, &many] {
            let words = Signer::new(text).unwrap_err();
            assert!(!words.contains("hunter2") && words.contains("expected") || words.contains("base64"), "{words}");
        }
        assert_eq!(format!("{:?}", Signer::new(SECRET).unwrap()), "Signer");
    }
}
