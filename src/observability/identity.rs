//! Request ids, and traces that began elsewhere (W3C Trace Context, <https://www.w3.org/TR/trace-context/>).
//!
//! An id is a counter scrambled by a bijection, combined with random bits drawn once: unique, without a lock, a system call or an
//! allocation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

/// The ids of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The trace: all requests with a common cause, here or elsewhere.
    pub trace: u128,
    /// The span: this request.
    pub span: u64,
    /// The span of the request that caused this one, as given by the client.
    pub parent: Option<u64>,
}

/// As shown in the log and in responses: the trace, 32 hexadecimal digits.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.trace)
    }
}

/// Generates ids.
pub struct Ids {
    /// Random bits, drawn once: for the two halves of a trace, and for spans.
    bases: [u64; 3],
    made: AtomicU64,
}

/// 2^64 divided by the golden ratio, odd: its multiples visit every number once.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Ids {
    /// Seeds it with fresh random bits, so that no other process or generator makes the same ids.
    #[expect(clippy::new_without_default, reason = "two that are new are not equal")]
    pub fn new() -> Self {
        let random = || uuid::Uuid::new_v4().as_u64_pair();
        let ((_, first), (_, second), (_, third)) = (random(), random(), random());
        Self { bases: [first, second, third], made: AtomicU64::new(0) }
    }

    /// Returns the identity of a request that continues the trace in its headers, or begins one.
    pub fn of(&self, headers: &HeaderMap) -> Identity {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let [high, low, span] = self.bases.map(|base| scatter(base.wrapping_add(number.wrapping_mul(STEP))));
        let (trace, parent) = match headers.get("traceparent").and_then(|text| parse(text.as_bytes())) {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (u128::from(high) << 64 | u128::from(low), None),
        };
        Identity { trace, span, parent }
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection.
fn scatter(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// Parses the trace and the parent of a `traceparent`. An invalid one is ignored, as the specification requires; later versions may have
/// more fields after the flags.
fn parse(text: &[u8]) -> Option<(u128, u64)> {
    let separated = text.len() >= 55 && text[2] == b'-' && text[35] == b'-' && text[52] == b'-';
    let version = separated.then(|| digits(&text[..2])).flatten()?;
    let ends = text.len() == 55 || version > 0 && text[55] == b'-';
    let (trace, parent) = (digits(&text[3..35])?, digits(&text[36..52])?);
    digits(&text[53..55])?;
    let right = version != 0xFF && ends && trace != 0 && parent != 0;
    right.then(|| (trace, u64::try_from(parent).expect("sixteen digits")))
}

/// Parses a number of at most 32 lower-case hexadecimal digits.
fn digits(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::collections::HashSet;

    #[test]
    fn no_two_are_alike() {
        let (ids, others, none) = (Ids::new(), Ids::new(), HeaderMap::new());
        let made: Vec<_> = (0..1000).flat_map(|_| [ids.of(&none), others.of(&none)]).collect();
        assert_eq!(made.iter().map(|identity| identity.trace).collect::<HashSet<_>>().len(), 2000);
        assert_eq!(made.iter().map(|identity| identity.span).collect::<HashSet<_>>().len(), 2000);
        assert!(made.iter().all(|identity| identity.parent.is_none() && identity.to_string().len() == 32));
    }

    #[test]
    fn a_trace_is_continued_if_it_is_one() {
        let ids = Ids::new();
        let of = |text: &'static str| {
            ids.of(&HeaderMap::from_iter([(
                http::HeaderName::from_static("traceparent"),
                HeaderValue::from_static(text),
            )]))
        };
        for right in [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-bring",
        ] {
            let identity = of(right);
            assert_eq!(identity.to_string(), "0af7651916cd43dd8448eb211c80319c", "{right}");
            assert_eq!(identity.parent, Some(0xb7ad_6b71_6920_3331), "{right}");
            assert_ne!(identity.span, 0xb7ad_6b71_6920_3331, "{right}");
        }
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(wrong).parent, None, "{wrong}");
        }
    }
}
