//! Whether a request is for a page (RFC 9110, section 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

use crate::handlers::fields::{members, with_quality};

/// Returns whether the client accepts HTML explicitly, as browsers do for a page and other clients do not for data.
pub fn accepts_html(headers: &HeaderMap) -> bool {
    members(headers, ACCEPT).any(|member| {
        let (name, quality) = with_quality(member);
        name.eq_ignore_ascii_case(b"text/html") && quality > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn html_is_asked_for_by_name() {
        let asks = |value| accepts_html(&headers(&[(ACCEPT, value)]));
        assert!(asks("text/html,application/xhtml+xml,*/*;q=0.8") && asks("image/png, Text/HTML;q=0.1"));
        assert!(!asks("*/*") && !asks("text/*") && !asks("text/html;q=0") && !asks("application/json"));
    }
}
