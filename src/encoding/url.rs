//! The URL paths of records and of their blobs.
//!
//! They are part of the encoding because the value of a blob in the text of its record is its path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters to encode in a path segment: all but the unreserved ones (RFC 3986).
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the path of a record.
pub fn record(table: &str, id: &str) -> String {
    let mut path = String::with_capacity(table.len() + id.len() + 2);
    path.push('/');
    path.push_str(table);
    path.push('/');
    path.extend(utf8_percent_encode(id, &ENCODED));
    path
}

/// Returns the path of a blob: that of its record, and the name of the attribute.
pub fn blob(table: &str, id: &str, attribute: &str) -> String {
    let mut path = record(table, id);
    path.push('/');
    path.push_str(attribute);
    path
}

/// Returns whether no URL can carry an id: clients remove the segments `.` and `..` from every path, encoded or not (RFC 3986, 5.2.4 and
/// 6.2.2; WHATWG URL). All other text reaches the server, percent-encoded.
pub fn is_dot_segment(id: &str) -> bool {
    matches!(id, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment() {
        assert_eq!(record("Product", "a-b.c_d~1"), "/Product/a-b.c_d~1");
        assert_eq!(blob("Product", "a b/c?é", "picture"), "/Product/a%20b%2Fc%3F%C3%A9/picture");
        assert_eq!(record("Product", "%2e%2e"), "/Product/%252e%252e");
        assert_eq!(record("Product", "..\\\n\0"), "/Product/..%5C%0A%00");
    }
}
