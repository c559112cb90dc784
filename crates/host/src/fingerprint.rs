//! Pure: what tells a certificate authority from all others, short enough to be compared by eye: 130 bits of its SHA-256.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Letters and digits that are not mistaken for each other; five bits each.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;

/// Of a certificate in PEM; of what is none, that of its text.
pub fn of(pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map(|der| der.to_vec());
    let digest = ring::digest::digest(&ring::digest::SHA256, der.as_deref().unwrap_or(pem.as_bytes()));
    let bits = digest.as_ref().iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1));
    let bits: Vec<u8> = bits.take(LENGTH * 5).collect();
    let letter = |five: &[u8]| {
        let number = five.iter().fold(0_usize, |number, bit| (number << 1) | usize::from(*bit));
        LETTERS.get(number).copied().map_or(' ', char::from)
    };
    bits.chunks(5).map(letter).collect()
}

/// Whether a fingerprint that somebody was given is that of a certificate.
pub fn is_of(given: &str, pem: &str) -> bool {
    let given: String = given.chars().filter(char::is_ascii_alphanumeric).collect();
    given.len() == LENGTH && given.eq_ignore_ascii_case(&of(pem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_one_certificate_however_it_is_typed() {
        let print = of("one");
        assert_eq!(print.len(), LENGTH);
        assert!(is_of(&print, "one") && is_of(&print.to_uppercase(), "one"));
        let grouped: Vec<&str> = [&print[..13], &print[13..]].to_vec();
        assert!(is_of(&grouped.join("-"), "one"));
        assert!(!is_of(&print, "two") && !is_of(&print[1..], "one") && !is_of("", "one"));
    }
}
