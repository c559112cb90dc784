//! Query parameters of a request.

use klab_api_machinery::status::Status;

pub(super) use super::super::rbac::quoted;

/// The decoded query string; of repeated parameters the first counts.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The value, where it is there and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(have, _)| have == name)?;
        (!value.is_empty()).then_some(value.as_str())
    }

    /// All values of a repeated parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is there, and says neither `0` nor `false`.
    // upstream: apimachinery pkg/runtime/conversion.go Convert_Slice_string_To_bool (v1.36)
    pub(super) fn flag(&self, name: &str) -> bool {
        let said = self.0.iter().find(|(have, _)| have == name);
        said.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number, with the words of Go's parser for what is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Status::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(text)))),
        }
    }

    /// How long the client is ready to wait: it may say so, and must say it as Go writes durations.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go parseTimeout (v1.36)
    pub(super) fn check_timeout(&self) -> Result<(), Status> {
        let fault = self.get("timeout").and_then(duration_fault);
        fault.map_or(Ok(()), |fault| {
            Err(Status::bad_request(format!("invalid timeout specified in the request URL - {fault}")))
        })
    }
}

/// What Go says of a text that is no duration, like `1h30m` or `-1.5s`.
fn duration_fault(text: &str) -> Option<String> {
    let invalid = || Some(format!("time: invalid duration {}", quoted(text)));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let digits =
            rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.').len();
        if rest[..digits].parse::<f64>().is_err() {
            return invalid();
        }
        rest = &rest[digits..];
        let unit = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        match &rest[..unit] {
            "" => return Some(format!("time: missing unit in duration {}", quoted(text))),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => {}
            other => return Some(format!("time: unknown unit {} in duration {}", quoted(other), quoted(text))),
        }
        rest = &rest[unit..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, wanted) in [
            ("32s", None),
            ("-1s", None),
            ("1h2.5m", None),
            ("0", None),
            ("invalid", Some("time: invalid duration \"invalid\"")),
            ("5", Some("time: missing unit in duration \"5\"")),
            ("5d", Some("time: unknown unit \"d\" in duration \"5d\"")),
        ] {
            assert_eq!(duration_fault(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc&watch=1&limit=abc&x=&command=a&command=b"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert!(query.flag("watch"));
        assert_eq!(query.get("x"), None);
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(query.number("limit").unwrap_err().message, "strconv.ParseInt: parsing \"abc\": invalid syntax");
    }
}
