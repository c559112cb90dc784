//! Exact Kubernetes quantities: parsing, arithmetic, rounding and the canonical text that Kubernetes prints.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

const NANOS: i128 = 1_000_000_000;
const MICROS_PER_MILLI: i128 = 1_000_000;
/// Kubernetes caps what it parses at 2⁶³ − 1, except decimal numbers of up to 18 digits.
const LIMIT: i128 = i64::MAX as i128 * NANOS;
const UNCAPPED_DIGITS: usize = 18;
/// Beyond all that can be written sensibly, far enough from overflow to add two, and a power of ten: its text is read as
/// the same amount.
const MAX_NANOS: i128 = 10_i128.pow(37);

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The family of suffixes a quantity was written with; it decides how the quantity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `m`, none, `k`, `M`, …: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, …: powers of 1024.
    BinarySi,
    /// `e3`, `E6`, ….
    DecimalExponent,
}

/// Why a text is not a quantity; the texts are those of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not look like a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number part has no digits or more than one point.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact quantity (`500m`, `1.5Gi`, `300e6`), kept in units of 10⁻⁹.
///
/// Equality and order look at the amount only, not at the format it was written in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// No amount.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A quantity of whole units (bytes, counts, cores), printed with decimal suffixes.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS, format: Format::DecimalSi }
    }

    /// A quantity of thousandths (`1500` is `1500m`), printed with decimal suffixes.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * MICROS_PER_MILLI, format: Format::DecimalSi }
    }

    /// A quantity of bytes, printed with binary suffixes.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS, format: Format::BinarySi }
    }

    /// Reads a quantity as Kubernetes does; digits finer than 10⁻⁹ round away from zero.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            None => return Err(QuantityError::Format),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() || !suffix_looks_right(suffix) {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Numeric);
        }
        let (scale, format) = Scale::parse(suffix).ok_or(QuantityError::Suffix)?;
        let capped = format == Format::BinarySi || whole.len() + fraction.len() > UNCAPPED_DIGITS;
        let mut magnitude = scale.nanos(whole, fraction).min(if capped { LIMIT } else { MAX_NANOS });
        // Departs from upstream, where such an amount is printed with more digits than are read again without a cap: what
        // is stored would change when it is copied, and a Deployment with it in its template would roll out for ever.
        if magnitude > LIMIT && strip_factor(magnitude, 1000, 9).0 >= 10_i128.pow(UNCAPPED_DIGITS as u32) {
            magnitude = LIMIT;
        }
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, format })
    }

    /// The amount in thousandths, rounded up: millicores for `cpu`.
    pub fn millis(self) -> i64 {
        saturate(div_ceil(self.nanos, MICROS_PER_MILLI))
    }

    /// The amount in whole units, rounded up: bytes, counts, cores.
    pub fn units(self) -> i64 {
        saturate(div_ceil(self.nanos, NANOS))
    }

    /// The amount in the base unit the scheduler uses for a resource: millicores for `cpu`, whole units for all else.
    pub fn base_units(self, resource: &str) -> i64 {
        if resource == "cpu" { self.millis() } else { self.units() }
    }

    /// The inverse of [`Self::base_units`]: what `amount` base units of `resource` are, printed as Kubernetes would.
    pub fn of_resource(resource: &str, amount: i64) -> Self {
        match resource {
            "cpu" => Self::from_millis(amount),
            "memory" | "ephemeral-storage" => Self::from_bytes(amount),
            name if name.starts_with("hugepages-") => Self::from_bytes(amount),
            _ => Self::from_units(amount),
        }
    }

    /// Whether the amount is nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below nothing.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The family of suffixes used for printing.
    pub const fn format(self) -> Format {
        self.format
    }

    /// The same amount printed with another family of suffixes.
    pub const fn with_format(self, format: Format) -> Self {
        Self { nanos: self.nanos, format }
    }

    /// The amount as a floating-point number of units, for ratios and charts.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }
}

/// The last part of Kubernetes' pattern: letters, then an optional sign, then digits.
fn suffix_looks_right(suffix: &str) -> bool {
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What a suffix multiplies by.
enum Scale {
    Ten(i32),
    Binary(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<(Self, Format)> {
        let decimal = |power| Some((Self::Ten(power), Format::DecimalSi));
        let binary = |power| Some((Self::Binary(power), Format::BinarySi));
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let digits = suffix.strip_prefix(['e', 'E'])?;
                let power: i32 = digits.parse().ok()?;
                Some((Self::Ten(power), Format::DecimalExponent))
            }
        }
    }

    /// `whole.fraction` times this scale in 10⁻⁹, rounded up, saturating above every limit.
    fn nanos(&self, whole: &str, fraction: &str) -> i128 {
        let digits: String = whole.chars().chain(fraction.chars()).collect();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return 0;
        }
        let (power, multiplier) = match *self {
            Self::Ten(power) => (i64::from(power), 1_i128),
            Self::Binary(bits) => (0, 1_i128 << bits),
        };
        let shift = power + 9 - fraction.len() as i64;
        // 2⁶³·10⁹ has 28 digits; whatever is longer is above the limit.
        if digits.len() as i64 + shift > 40 {
            return i128::MAX;
        }
        // Digits far below 10⁻⁹ cannot change the rounded result except by being there at all.
        let keep = digits.len().min(36);
        let dropped = digits[keep..].bytes().any(|byte| byte != b'0');
        let mantissa: i128 = digits[..keep].parse().unwrap_or(i128::MAX);
        let shift = shift + (digits.len() - keep) as i64;
        let Some(scaled) = mantissa.checked_mul(multiplier) else {
            // A number so long times a binary suffix: only the part above 10⁻⁹ matters.
            let lost = 10_i128.checked_pow(u32::try_from(-shift).unwrap_or(0)).unwrap_or(i128::MAX);
            return div_ceil(mantissa, lost).saturating_mul(multiplier);
        };
        let exact = if shift >= 0 {
            10_i128.checked_pow(shift as u32).and_then(|factor| scaled.checked_mul(factor)).unwrap_or(i128::MAX)
        } else {
            match 10_i128.checked_pow(u32::try_from(-shift).unwrap_or(u32::MAX)) {
                Some(divisor) => div_ceil(scaled, divisor),
                None => 1,
            }
        };
        if dropped && exact == 0 { 1 } else { exact }
    }
}

fn div_ceil(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl TryFrom<&ApiQuantity> for Quantity {
    type Error = QuantityError;

    fn try_from(quantity: &ApiQuantity) -> Result<Self, QuantityError> {
        Self::parse(&quantity.0)
    }
}

impl From<Quantity> for ApiQuantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        // As in Kubernetes, nothing takes the format of what is added to it.
        if self.is_zero() {
            self.format = other.format;
        }
        self.nanos = (self.nanos + other.nanos).clamp(-MAX_NANOS, MAX_NANOS);
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.nanos = (self.nanos - other.nanos).clamp(-MAX_NANOS, MAX_NANOS);
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that keeps the number exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS == 0;
        let units = self.nanos / NANOS;
        if self.format == Format::BinarySi && whole && units.abs() >= 1024 {
            let (number, power) = strip_factor(units, 1024, BINARY_SUFFIXES.len() - 1);
            return write!(f, "{number}{}", BINARY_SUFFIXES[power]);
        }
        let (number, power) = strip_factor(self.nanos, 1000, 9);
        let exponent = 3 * power as i32 - 9;
        if self.format == Format::DecimalExponent && exponent != 0 {
            return write!(f, "{number}e{exponent}");
        }
        write!(f, "{number}{}", DECIMAL_SUFFIXES[power])
    }
}

/// Divides `value` by `factor` as often as it goes without a rest, at most `most` times.
fn strip_factor(mut value: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn canonical_text() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("300e6", "300e6"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("512", "512"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1.5e3", "1500"),
            ("15e2", "1500"),
            ("12E", "12E"),
            ("0.1n", "1n"),
            ("-1500m", "-1500m"),
            ("+2Ki", "2Ki"),
            ("2.", "2"),
            (".5", "500m"),
            ("100000k", "100M"),
            ("1.0001Ki", "1024102400u"),
            ("9Ei", "9223372036854775807"),
        ] {
            assert_eq!(parse(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn rounding_is_up() {
        for (text, millis, units) in [
            ("0.0001", 1, 1),
            ("1500m", 1500, 2),
            ("100u", 1, 1),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("300e6", 300_000_000_000, 300_000_000),
            ("-0.5", -500, 0),
            ("1E3", 1_000_000, 1000),
            ("0.000000000000000000000000000000000000000000000001", 1, 1),
        ] {
            assert_eq!((parse(text).millis(), parse(text).units()), (millis, units), "{text}");
        }
    }

    #[test]
    fn errors() {
        for (text, error) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1Gi ", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1.2.3", QuantityError::Numeric),
            (".", QuantityError::Numeric),
            ("1mi", QuantityError::Suffix),
            ("1gi", QuantityError::Format),
            ("1e", QuantityError::Suffix),
            ("-", QuantityError::Format),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn arithmetic_keeps_the_first_format() {
        assert_eq!((parse("1Gi") + parse("1G")).to_string(), "2073741824");
        assert_eq!((parse("1Gi") - parse("512Mi")).to_string(), "512Mi");
        assert_eq!((Quantity::ZERO + parse("2Ki")).to_string(), "2Ki");
        assert!(parse("1Gi") > parse("1G"));
        assert_eq!(parse("1000m"), parse("1"));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(nanos in any::<i64>(), format in 0..3) {
            let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][format as usize];
            let quantity = Quantity { nanos: i128::from(nanos) * 977, format };
            prop_assert_eq!(parse(&quantity.to_string()), quantity);
        }

        #[test]
        fn what_is_printed_is_read_as_the_same(text in "[1-9][0-9]{0,20}[.]?[0-9]{0,10}(n|u|m||k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,3})") {
            let first = parse(&text).to_string();
            prop_assert_eq!(parse(&first).to_string(), first);
        }

        #[test]
        fn never_panics(text in "[+-]?[0-9.]{0,50}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
            let _ = Quantity::parse(&text);
        }
    }
}
