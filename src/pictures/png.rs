//! PNG: its head, read without inflating more than a profile may have, and its rows, averaged as they come.

use std::io::{Cursor, Read};

use flate2::read::ZlibDecoder;
use png::{ColorType, DecodingError, Limits, Transformations};

use super::cut::Cut;
use super::orientation::Orientation;
use super::pixels::{Channels, Rows, resizing_bytes};
use super::{Fault, Head, PROFILE_BYTES};

/// What every PNG begins with.
pub(super) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Bytes that the decoder takes beside rows: its window and tables.
const WINDOW_BYTES: u64 = 1 << 20;

/// What the head of a PNG says beside what every head does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Png {
    /// Bits of a pixel.
    bits: u64,
    channels: Channels,
    is_interlaced: bool,
}

/// A chunk: its type and its data.
type Chunk<'b> = (&'b [u8; 4], &'b [u8]);

/// All chunks that are whole, up to the end.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let (kind, behind) = behind.split_first_chunk()?;
        let (data, behind) = behind.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        rest = behind.get(4..)?;
        Some((kind, data))
    })
}

/// Reads the head.
///
/// # Errors
/// `Damaged` if there is none, or one with numbers that no picture has.
pub(super) fn head(bytes: &[u8]) -> Result<(Head, Png), Fault> {
    let damaged = || Fault::damaged("its head is cut, or has numbers that no picture has");
    let mut chunks = chunks(bytes);
    let Some((b"IHDR", data)) = chunks.next() else { return Err(damaged()) };
    let [w0, w1, w2, w3, h0, h1, h2, h3, depth, colours, _, _, interlacing] = *data.as_array().ok_or_else(damaged)?;
    let (width, height) = (u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]));
    let (mut orientation, mut profile, mut is_transparent) = (None, None, false);
    // What is about pixels stands before them; and only the first of several is read.
    let mut has_pixels = false;
    for (kind, data) in chunks {
        match kind {
            b"tRNS" if !has_pixels => is_transparent = true,
            b"iCCP" if !has_pixels => profile = profile.or_else(|| Some(inflated(data))),
            b"eXIf" => orientation = orientation.or_else(|| Some(Orientation::of_exif(data))),
            b"IDAT" => has_pixels = true,
            b"IEND" => break,
            _ => {}
        }
    }
    let (orientation, profile) = (orientation.unwrap_or_default(), profile.flatten());
    let (samples, channels) = match (colours, is_transparent) {
        (0, false) => (1, Channels::Gray),
        (0, true) => (1, Channels::GrayAlpha),
        (2, false) => (3, Channels::Rgb),
        (2, true) => (3, Channels::Rgba),
        (3, false) => (1, Channels::Rgb),
        (3, true) => (1, Channels::Rgba),
        (4, _) => (2, Channels::GrayAlpha),
        (6, _) => (4, Channels::Rgba),
        _ => return Err(damaged()),
    };
    if width == 0 || height == 0 || width.max(height) > i32::MAX.cast_unsigned() || ![1, 2, 4, 8, 16].contains(&depth) {
        return Err(damaged());
    }
    let png = Png { bits: samples * u64::from(depth), channels, is_interlaced: interlacing != 0 };
    Ok((Head { width, height, orientation, profile }, png))
}

/// The profile in a chunk: a name, 0, the number of the compression, and a zlib stream. None if it is too long, or none.
fn inflated(data: &[u8]) -> Option<Vec<u8>> {
    let name = memchr::memchr(0, data)?;
    let stream = data.get(name + 2..)?;
    // As long as it may get, so that it does not grow.
    let mut profile = Vec::with_capacity(PROFILE_BYTES + 1);
    ZlibDecoder::new(stream).take(PROFILE_BYTES as u64 + 1).read_to_end(&mut profile).ok()?;
    profile.shrink_to_fit();
    (1..=PROFILE_BYTES).contains(&profile.len()).then_some(profile)
}

impl Png {
    /// Returns the bytes that decoding and resizing take, at most.
    pub(super) fn bytes(&self, head: &Head, cut: &Cut) -> u64 {
        let (width, height) = (u64::from(head.width), u64::from(head.height));
        // The decoder keeps two rows and what is inflated before them, and writes one of ours.
        let row = width * self.bits.div_ceil(8) + width * self.channels.number() as u64;
        let whole = if self.is_interlaced { width * height * self.channels.number() as u64 } else { 0 };
        WINDOW_BYTES + 8 * row + whole + resizing_bytes(self.channels, head.width, head.height, cut)
    }

    /// Decodes it.
    ///
    /// # Errors
    /// `Damaged` if the file is, or has too few pixels.
    pub(super) fn decode(&self, head: &Head, bytes: &[u8], cut: &Cut) -> Result<Rows, Fault> {
        let wrong = |error: DecodingError| Fault::damaged(error.to_string());
        let bytes_at_most = usize::try_from(self.bytes(head, cut)).unwrap_or(usize::MAX);
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: bytes_at_most });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        let mut reader = decoder.read_info().map_err(wrong)?;
        let channels = match reader.output_color_type().0 {
            ColorType::Grayscale => Channels::Gray,
            ColorType::GrayscaleAlpha => Channels::GrayAlpha,
            ColorType::Rgba => Channels::Rgba,
            // None has a palette when it is expanded.
            ColorType::Rgb | ColorType::Indexed => Channels::Rgb,
        };
        if (channels, reader.info().size()) != (self.channels, (head.width, head.height)) {
            return Err(Fault::damaged("its chunks contradict each other"));
        }
        let mut rows = Rows::new(channels, head.width, head.height, cut);
        if self.is_interlaced {
            let row_bytes = head.width as usize * channels.number();
            let mut pixels = vec![0; row_bytes * head.height as usize];
            reader.next_frame(&mut pixels).map_err(wrong)?;
            pixels.chunks_exact(row_bytes).for_each(|row| rows.push(row));
        } else {
            for _ in 0..head.height {
                let row = reader.next_row().map_err(wrong)?;
                rows.push(row.ok_or_else(|| Fault::damaged("it has too few rows"))?.data());
            }
        }
        Ok(rows)
    }
}
