//! Query parameters of a request.

pub(super) use super::super::rbac::quoted;
use super::super::status::Status;

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

    /// `true`, `1` and the like.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(have, _)| have == name)
            .is_some_and(|(_, value)| matches!(value.as_str(), "" | "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// A number, with the words of Go's parser for what is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Status::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(text)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
