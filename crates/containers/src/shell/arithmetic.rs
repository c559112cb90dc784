//! Whole numbers in shell scripts: `$((…))`.

/// Deeper expressions are not followed.
const MAX_DEPTH: usize = 32;

/// What an expression comes to; `None` where it holds what is not known.
pub(super) fn arithmetic(expression: &str, variable: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut reader = Reader { rest: expression.trim(), variable, depth: 0 };
    let value = reader.sum()?;
    reader.rest.trim_start().is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> Option<i64>,
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, operators: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let letter = self.rest.chars().next().filter(|letter| operators.contains(letter))?;
        self.rest = self.rest.get(1..)?;
        Some(letter)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut left = self.product()?;
        while let Some(operator) = self.takes(&['+', '-']) {
            let right = self.product()?;
            left = if operator == '+' { left.checked_add(right)? } else { left.checked_sub(right)? };
        }
        Some(left)
    }

    fn product(&mut self) -> Option<i64> {
        let mut left = self.atom()?;
        while let Some(operator) = self.takes(&['*', '/', '%']) {
            let right = self.atom()?;
            left = match operator {
                '*' => left.checked_mul(right)?,
                '/' => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
        Some(left)
    }

    fn atom(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = if self.takes(&['(']).is_some() {
            let inner = self.sum()?;
            self.takes(&[')'])?;
            inner
        } else if self.takes(&['-']).is_some() {
            self.atom()?.checked_neg()?
        } else {
            self.rest = self.rest.trim_start().trim_start_matches('$');
            let end = self.rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            if word.starts_with(|letter: char| letter.is_ascii_digit()) {
                decimal(word)?
            } else {
                (self.variable)(word)?
            }
        };
        self.depth -= 1;
        Some(value)
    }
}

/// A number without a sign, as all shells read it: one with a zero in front is octal in some.
pub(super) fn decimal(text: &str) -> Option<i64> {
    let is_plain = text == "0" || !text.starts_with(['0', '+', '-']);
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reckoned_with() {
        let variable = |name: &str| (name == "i").then_some(7);
        for (expression, expected) in [
            ("1 + 2 * 3", Some(7)),
            ("(1+2)*3", Some(9)),
            ("$i % 2", Some(1)),
            ("i+1", Some(8)),
            ("-i", Some(-7)),
            ("7/0", None),
            ("$RANDOM / 2", None),
            ("1 +", None),
            ("9223372036854775807 + 1", None),
            ("010", None),
        ] {
            assert_eq!(arithmetic(expression, &variable), expected, "{expression}");
        }
        assert_eq!(arithmetic(&"(".repeat(5000), &variable), None);
    }
}
