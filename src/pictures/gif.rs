//! GIF: its head, and the first frame of it, on the screen that it has.

use gif::{ColorOutput, DecodeOptions, DecodingError, MemoryLimit};

use super::cut::Cut;
use super::orientation::Orientation;
use super::pixels::{Channels, Rows, resizing_bytes};
use super::{Fault, Head, PROFILE_BYTES};

/// What every GIF begins with.
pub(super) const SIGNATURES: [&[u8]; 2] = [b"GIF87a", b"GIF89a"];

/// The application block with a colour profile.
const PROFILE: &[u8] = b"ICCRGBG1012";

/// Bytes that the decoder takes beside the frame: the table of its codes, and blocks.
const TABLE_BYTES: u64 = 1 << 20;

/// What the head of a GIF says beside what every head does: the frame's place on the screen, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gif {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    is_opaque: bool,
}

/// Bytes that are read one behind another.
struct Reading<'b>(&'b [u8]);

impl<'b> Reading<'b> {
    fn take(&mut self, number: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(number)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// The size of a table of colours that a byte announces.
    fn table(&mut self, flags: u8) -> Option<&'b [u8]> {
        self.take(if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) })
    }

    /// The next block of an extension; empty at its end.
    fn block(&mut self) -> Option<&'b [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }
}

/// Reads the head: everything before the pixels of the first frame.
///
/// # Errors
/// `Damaged` if it ends before.
pub(super) fn head(bytes: &[u8]) -> Result<(Head, Gif), Fault> {
    read(bytes).ok_or_else(|| Fault::damaged("its head is cut, or it has no frame"))
}

fn read(bytes: &[u8]) -> Option<(Head, Gif)> {
    let number = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    let mut reading = Reading(bytes);
    let screen = reading.take(13)?;
    reading.table(screen[10])?;
    let (mut is_transparent, mut profile) = (false, None);
    let frame = loop {
        match reading.byte()? {
            b'!' => {
                let (label, first) = (reading.byte()?, reading.block()?);
                let mut profile_here = (label == 0xff && first == PROFILE && profile.is_none())
                    .then(|| Vec::with_capacity(reading.0.len().min(PROFILE_BYTES + 256)));
                if let (0xf9, [flags, ..]) = (label, first) {
                    is_transparent = flags & 1 == 1;
                }
                let mut block = first;
                while !block.is_empty() {
                    block = reading.block()?;
                    let room = |profile: &&mut Vec<u8>| profile.len() <= PROFILE_BYTES;
                    if let Some(profile) = profile_here.as_mut().filter(room) {
                        profile.extend_from_slice(block);
                    }
                }
                profile = profile.or(profile_here);
            }
            b',' => break reading.take(9)?,
            _ => return None,
        }
    };
    let [left, top, width, height] = [0, 2, 4, 6].map(|at| number(frame, at).map(usize::from));
    let (left, top, width, height) = (left?, top?, width?, height?);
    // A screen without a size has that of the frame.
    let size =
        |at: usize, other: usize| number(screen, at).map(|size| if size == 0 { other } else { usize::from(size) });
    let (screen_width, screen_height) = (size(6, left + width)?, size(8, top + height)?);
    let covers = left == 0 && top == 0 && width >= screen_width && height >= screen_height;
    let gif = Gif { left, top, width, height, is_opaque: covers && !is_transparent };
    let side = |side: usize| u32::try_from(side).ok().filter(|side| *side > 0);
    let (width, height) = (side(screen_width)?, side(screen_height)?);
    (gif.width > 0 && gif.height > 0).then_some(())?;
    let profile = profile.filter(|profile: &Vec<u8>| (1..=PROFILE_BYTES).contains(&profile.len()));
    Some((Head { width, height, orientation: Orientation::default(), profile }, gif))
}

impl Gif {
    fn channels(&self) -> Channels {
        if self.is_opaque { Channels::Rgb } else { Channels::Rgba }
    }

    /// The pixels of the frame, which may be more than the screen has.
    pub(super) fn pixels(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Returns the bytes that decoding and resizing take, at most.
    pub(super) fn bytes(&self, head: &Head, file: usize, cut: &Cut) -> u64 {
        // The decoder collects what it does not show.
        let row = u64::from(head.width) * 4;
        TABLE_BYTES + file as u64 + self.pixels() + row + resizing_bytes(self.channels(), head.width, head.height, cut)
    }

    /// Decodes the first frame.
    ///
    /// # Errors
    /// `Damaged` if the file is, or has too few pixels.
    pub(super) fn decode(&self, head: &Head, bytes: &[u8], cut: &Cut) -> Result<Rows, Fault> {
        let wrong = |error: DecodingError| Fault::damaged(error.to_string());
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        options.set_memory_limit(MemoryLimit::Bytes(
            (self.pixels() + TABLE_BYTES).try_into().unwrap_or(std::num::NonZeroU64::MAX),
        ));
        let mut decoder = options.read_info(bytes).map_err(wrong)?;
        let frame = decoder.next_frame_info().map_err(wrong)?.ok_or_else(|| Fault::damaged("it has no frame"))?;
        let (size, transparent) = ((usize::from(frame.width), usize::from(frame.height)), frame.transparent);
        if size != (self.width, self.height) {
            return Err(Fault::damaged("its heads contradict each other"));
        }
        let mut pixels = vec![0; self.width * self.height];
        decoder.read_into_buffer(&mut pixels).map_err(wrong)?;
        let palette = decoder.palette().map_err(wrong)?.as_chunks::<3>().0;
        let colour = |index: u8| match palette.get(usize::from(index)) {
            Some([red, green, blue]) if transparent != Some(index) => [*red, *green, *blue, 255],
            _ => [0; 4],
        };
        let channels = self.channels();
        let (screen_width, screen_height) = (head.width as usize, head.height as usize);
        let mut rows = Rows::new(channels, head.width, head.height, cut);
        let mut row = vec![0; screen_width * channels.number()];
        for y in 0..screen_height {
            row.fill(0);
            if let Some(y) = y.checked_sub(self.top).filter(|y| *y < self.height) {
                let of_frame = pixels[y * self.width..(y + 1) * self.width].iter();
                let on_screen = row.chunks_exact_mut(channels.number()).skip(self.left);
                on_screen
                    .zip(of_frame)
                    .for_each(|(pixel, index)| pixel.copy_from_slice(&colour(*index)[..channels.number()]));
            }
            rows.push(&row);
        }
        Ok(rows)
    }
}
