//! The contents of the head of a picture: its type and its size.

use serde::{Deserialize, Serialize};

/// The type and the size that a picture must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Its media type: `image/png` or `image/jpeg`.
    pub r#type: String,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
}

impl Picture {
    /// Reads the head of a body, and whether it has the end of one.
    pub fn read(body: &[u8]) -> Option<Self> {
        let (name, (width, height)) = match body {
            [0x89, b'P', b'N', b'G', ..] => ("image/png", size_of_png(body)?),
            [0xff, 0xd8, ..] => ("image/jpeg", size_of_jpeg(body)?),
            _ => return None,
        };
        Some(Self { r#type: name.to_owned(), width, height })
    }

    /// Returns true if its type is one of those that are read.
    pub fn is_readable(&self) -> bool {
        ["image/png", "image/jpeg"].contains(&self.r#type.as_str())
    }
}

fn size_of_png(body: &[u8]) -> Option<(u32, u32)> {
    let head = body.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?;
    let number = |at: usize| head.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    body.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82").then_some(())?;
    Some((number(0)?, number(4)?))
}

fn size_of_jpeg(body: &[u8]) -> Option<(u32, u32)> {
    body.ends_with(&[0xff, 0xd9]).then_some(())?;
    let mut rest = &body[2..];
    loop {
        let [0xff, marker, high, low, ..] = *rest else { return None };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // The frame: all of SOF0 to SOF15 but DHT, JPG and DAC, which are numbered among them.
        if (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) {
            let [h0, h1, w0, w1] = *rest.get(5..)?.first_chunk()?;
            return Some((u16::from_be_bytes([w0, w1]).into(), u16::from_be_bytes([h0, h1]).into()));
        }
        rest = rest.get(2 + length..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heads_of_both_kinds_are_read_and_nothing_else_is_one() {
        let png =
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\xc8\0\0\x03\xe8\x08\x06\0\0\0....\0\0\0\0IEND\xae\x42\x60\x82";
        let jpeg =
            b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x02\xff\xc2\0\x0b\x08\x03\xe8\0\xc8\x01\x01\x11\0\xff\xda..\xff\xd9";
        let picture = |name: &str| Picture { r#type: name.to_owned(), width: 200, height: 1000 };
        assert_eq!(Picture::read(png), Some(picture("image/png")));
        assert_eq!(Picture::read(jpeg), Some(picture("image/jpeg")));
        for whole in [&png[..], jpeg] {
            for length in 0..whole.len() {
                assert_eq!(Picture::read(&whole[..length]), None);
            }
        }
        assert_eq!(Picture::read(b"{\"type\":\"not-a-picture\"}"), None);
    }
}
