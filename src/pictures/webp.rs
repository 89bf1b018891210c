//! WebP: its chunks, and the first frame of it, on the canvas that it has.
//!
//! The decoder is given a copy with the chunks of that frame alone. So what it reserves follows from numbers that were read before.

use std::io::Cursor;

use image_webp::{DecodingError, WebPDecoder};

use super::cut::Cut;
use super::lossless;
use super::orientation::Orientation;
use super::pixels::{Channels, Rows, resizing_bytes};
use super::{Fault, Head, PROFILE_BYTES};

/// Bytes of the head of a chunk.
const CHUNK_HEAD: usize = 8;

/// Bytes of the head of a lossy frame, and of a lossless one.
const LOSSY_HEAD: usize = 10;
const LOSSLESS_HEAD: usize = 5;

/// Bytes that the decoder of lossy ones takes before it reads them: a part says its length in three bytes.
const PART_BYTES: u64 = 1 << 24;

/// The flag of alpha in the head of an extended file.
const ALPHA: u8 = 0x10;

/// What the head of a WebP says beside what every head does: the frame, and its place on the canvas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebP<'b> {
    frame: Frame<'b>,
    left: usize,
    top: usize,
}

/// Whether bytes are a WebP.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(CHUNK_HEAD..).is_some_and(|rest| rest.starts_with(b"WEBP"))
}

/// All chunks: their types and their data. What is cut has what is left.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, behind) = rest.split_first_chunk()?;
        let (length, behind) = behind.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let data = &behind[..length.min(behind.len())];
        rest = behind.get(length.saturating_add(length % 2)..).unwrap_or_default();
        Some((kind, data))
    })
}

/// A number of three bytes.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let [low, middle, high] = *bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes([low, middle, high, 0]))
}

/// Reads the head.
///
/// # Errors
/// `Damaged` if it is cut, or has numbers that no picture has.
pub(super) fn head(bytes: &[u8]) -> Result<(Head, WebP<'_>), Fault> {
    let damaged = || Fault::damaged("its head is cut, or has numbers that no picture has");
    let all = || chunks(bytes.get(CHUNK_HEAD + 4..).unwrap_or_default());
    let of = |kind: &[u8; 4]| all().find(|chunk| chunk.0 == kind).map(|chunk| chunk.1);
    let extended = of(b"VP8X");
    let animated = of(b"ANMF").filter(|_| extended.is_some());
    let (frame, left, top) = match animated {
        Some(frame) => {
            let place = |at: usize| number(frame, at).map(|half| half as usize * 2).ok_or_else(damaged);
            (Frame::read(chunks(frame.get(16..).unwrap_or_default())), place(0)?, place(3)?)
        }
        None => (Frame::read(all()), 0, 0),
    };
    let frame = frame.ok_or_else(damaged)?;
    let (width, height) = (frame.width, frame.height);
    let canvas = |at: usize, side: usize| match extended.filter(|_| animated.is_some()) {
        Some(extended) => number(extended, at).map(|side| side + 1),
        None => u32::try_from(side).ok(),
    };
    let (canvas_width, canvas_height) = (canvas(4, width).ok_or_else(damaged)?, canvas(7, height).ok_or_else(damaged)?);
    let is_outside = left + width > canvas_width as usize || top + height > canvas_height as usize;
    if width == 0 || height == 0 || is_outside {
        return Err(damaged());
    }
    let orientation = of(b"EXIF").map(|exif| Orientation::of_exif(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif)));
    let profile = of(b"ICCP").filter(|profile| (1..=PROFILE_BYTES).contains(&profile.len())).map(<[u8]>::to_vec);
    let webp = WebP { frame, left, top };
    let head =
        Head { width: canvas_width, height: canvas_height, orientation: orientation.unwrap_or_default(), profile };
    Ok((head, webp))
}

/// The chunks of a frame, and what their heads say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame<'b> {
    alpha: Option<&'b [u8]>,
    image: &'b [u8],
    is_lossy: bool,
    has_alpha: bool,
    width: usize,
    height: usize,
}

impl<'b> Frame<'b> {
    /// Finds the first of them.
    fn read(chunks: impl Iterator<Item = (&'b [u8; 4], &'b [u8])>) -> Option<Self> {
        let mut alpha = None;
        for (kind, data) in chunks {
            match kind {
                b"ALPH" => alpha = Some(data),
                b"VP8 " => {
                    let [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1] = *data.first_chunk::<LOSSY_HEAD>()? else {
                        return None;
                    };
                    let side = |bytes: [u8; 2]| usize::from(u16::from_le_bytes(bytes) & 0x3fff);
                    let (width, height) = (side([w0, w1]), side([h0, h1]));
                    return Some(Self {
                        alpha,
                        image: data,
                        is_lossy: true,
                        has_alpha: alpha.is_some(),
                        width,
                        height,
                    });
                }
                b"VP8L" => {
                    let [0x2f, bits @ ..] = *data.first_chunk::<LOSSLESS_HEAD>()? else { return None };
                    let bits = u32::from_le_bytes(bits);
                    let side = |bits: u32| (bits & 0x3fff) as usize + 1;
                    let (width, height, has_alpha) = (side(bits), side(bits >> 14), bits >> 28 & 1 == 1);
                    return Some(Self { alpha: None, image: data, is_lossy: false, has_alpha, width, height });
                }
                _ => {}
            }
        }
        None
    }
}

impl WebP<'_> {
    fn channels(&self, head: &Head) -> Channels {
        let covers = (self.frame.width, self.frame.height) == (head.width as usize, head.height as usize);
        if self.frame.has_alpha || !covers { Channels::Rgba } else { Channels::Rgb }
    }

    /// Returns the bytes that decoding and resizing take, at most.
    ///
    /// # Errors
    /// `Damaged` if its codes are.
    pub(super) fn bytes(&self, head: &Head, cut: &Cut) -> Result<u64, Fault> {
        let pixels = (self.frame.width.next_multiple_of(16) * self.frame.height.next_multiple_of(16)) as u64;
        // What is given back has four bytes a pixel at most. A lossy one is 1.5 before, and its alpha 4, 1 and 1 at a time; a lossless one has
        // 4, two images of a sixteenth that say how to get at pixels, and one that assigns codes, which is there twice.
        let decoded =
            4 * pixels + if self.frame.is_lossy && self.frame.alpha.is_none() { 2 * pixels } else { 8 * pixels };
        let copied = 2 * (self.frame.image.len() + self.frame.alpha.map_or(0, <[u8]>::len)) as u64;
        let row = u64::from(head.width) * 4;
        let resizing = resizing_bytes(self.channels(head), head.width, head.height, cut);
        let part = if self.frame.is_lossy { PART_BYTES } else { 0 };
        Ok(copied + part + decoded + self.codes()? + (1 << 20) + row + resizing)
    }

    /// Decodes the first frame.
    ///
    /// # Errors
    /// `Damaged` if the file is, or has too few pixels.
    pub(super) fn decode(&self, head: &Head, cut: &Cut) -> Result<Rows, Fault> {
        let wrong = |error: DecodingError| Fault::damaged(error.to_string());
        let mut decoder = WebPDecoder::new(Cursor::new(self.still())).map_err(wrong)?;
        let of_frame = if decoder.has_alpha() { 4 } else { 3 };
        let mut pixels = vec![0; self.frame.width * self.frame.height * of_frame];
        decoder.read_image(&mut pixels).map_err(wrong)?;
        let channels = self.channels(head);
        let mut rows = Rows::new(channels, head.width, head.height, cut);
        let mut row = vec![0; head.width as usize * channels.number()];
        for y in 0..head.height as usize {
            row.fill(0);
            if let Some(y) = y.checked_sub(self.top).filter(|y| *y < self.frame.height) {
                let from = pixels[y * self.frame.width * of_frame..(y + 1) * self.frame.width * of_frame]
                    .chunks_exact(of_frame);
                for (pixel, from) in row.chunks_exact_mut(channels.number()).skip(self.left).zip(from) {
                    pixel[channels.number() - 1] = 255;
                    pixel[..of_frame.min(channels.number())].copy_from_slice(from);
                }
            }
            rows.push(&row);
        }
        Ok(rows)
    }

    /// The bytes of its Huffman codes, at most.
    fn codes(&self) -> Result<u64, Fault> {
        let stream = match (self.frame.is_lossy, self.frame.alpha) {
            (false, _) => self.frame.image.get(LOSSLESS_HEAD..),
            // Its lowest bits say how alpha is compressed.
            (true, Some([head, stream @ ..])) => (head & 3 == 1).then_some(stream),
            (true, _) => None,
        };
        stream.map_or(Ok(0), |stream| lossless::bytes(stream, self.frame.width, self.frame.height))
    }

    /// A file that has the chunks of the frame.
    fn still(&self) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WEBP".to_vec();
        let mut chunk = |kind: &[u8; 4], data: &[u8]| {
            file.extend_from_slice(kind);
            file.extend(u32::try_from(data.len()).expect("it was a chunk").to_le_bytes());
            file.extend_from_slice(data);
            file.extend_from_slice(&[0][..data.len() % 2]);
        };
        if let Some(alpha) = self.frame.alpha {
            let side = |side: usize| u32::try_from(side - 1).expect("of 14 bits").to_le_bytes();
            let ([w0, w1, w2, _], [h0, h1, h2, _]) = (side(self.frame.width), side(self.frame.height));
            chunk(b"VP8X", &[ALPHA, 0, 0, 0, w0, w1, w2, h0, h1, h2]);
            chunk(b"ALPH", alpha);
        }
        chunk(if self.frame.is_lossy { b"VP8 " } else { b"VP8L" }, self.frame.image);
        let length = u32::try_from(file.len() - CHUNK_HEAD).unwrap_or(u32::MAX);
        file[4..CHUNK_HEAD].copy_from_slice(&length.to_le_bytes());
        file
    }
}
