//! Human-readable sizes: `64M` is 64 times 2^20 bytes.

use serde::{Deserialize, Deserializer, de};

/// Parses a number of bytes, optionally followed by `K`, `M`, `G` or `T` (powers of 1024).
///
/// # Errors
/// A message stating what is accepted.
pub fn parse(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        Some(b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    // TOML has no greater numbers.
    let bytes = bytes.filter(|bytes| *bytes <= i64::MAX as usize);
    bytes.ok_or_else(|| format!("{text:?} is not a number of bytes such as 65536, 64K or 2G, at most {}", i64::MAX))
}

/// Writes a number of bytes with the largest unit of which it is a multiple, as [`parse`] reads it.
pub fn text(bytes: i64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| bytes != 0 && bytes % (1 << shift) == 0);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Deserializes a size from a configuration file, where it may also be a number.
///
/// # Errors
/// As [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of bytes such as 65536, or a size such as \"64K\"")]
    enum Size {
        Bytes(usize),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => parse(&text).map_err(de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let sizes = [("0", 0), ("7", 7), ("1K", 1024), ("64M", 64 << 20), ("2g", 2 << 30), ("3T", 3 << 40)];
        assert_eq!(parse("9223372036854775807"), Ok(i64::MAX as usize));
        for (text, bytes) in sizes {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(self::text(bytes as i64), text.to_uppercase());
        }
        for text in [
            "",
            "9223372036854775808",
            "8388608T",
            "K",
            "M1",
            "-1",
            "1.5G",
            "64MB",
            "64 M",
            "18446744073709551615K",
            "1\u{e9}",
        ] {
            assert!(parse(text).unwrap_err().contains("64K"), "{text}");
        }
    }
}
