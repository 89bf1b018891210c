//! Pixels on their way from a decoder to an encoder: averaged as they come, resized, turned.
//!
//! ```text
//! rows of a decoder ── box average ──► at least twice the size ── Lanczos 3 ──► the size ── turned ──► 8 bits a channel
//! ```
//! Values are averaged as they are stored (no linear light), weighted by alpha: what is transparent does not colour an edge. So what has
//! alpha is multiplied by it in 16 bits while it is averaged and resized, and divided by it at the end.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3, U16x4};
use fast_image_resize::{MulDiv, PixelTrait, ResizeOptions, Resizer};

use super::cut::Cut;
use super::orientation::Orientation;

/// The channels of a pixel, of 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
}

/// A picture of 8 bits a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: Channels,
    pub(super) values: Vec<u8>,
}

/// Rows of a decoder, averaged as they come.
pub(super) struct Rows {
    channels: Channels,
    /// The size of the picture.
    width: usize,
    height: usize,
    /// How many columns and rows become one.
    across: usize,
    down: usize,
    /// How many rows have come.
    came: usize,
    /// Sums of the rows that become one: by averaged column, its channels.
    sums: Vec<u64>,
    averaged: Averaged,
}

/// What rows have become.
enum Averaged {
    Opaque(Vec<u8>),
    /// Multiplied by alpha.
    Alpha(Vec<U16x4>),
}

impl Channels {
    /// Their number.
    pub(super) fn number(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }

    fn has_alpha(self) -> bool {
        matches!(self, Self::GrayAlpha | Self::Rgba)
    }

    /// Bytes of a pixel that is averaged.
    fn averaged_bytes(self) -> usize {
        if self.has_alpha() { size_of::<U16x4>() } else { self.number() }
    }
}

/// Pixels whose bytes, each times another byte, have a sum of 32 bits.
const PART_PIXELS: usize = 1 << 16;

/// How many pixels may become one, so that at least twice the size is left.
fn factor(from: f64, to: u32) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, and below a u32")]
    let whole = (from / (2.0 * f64::from(to))).max(1.0) as usize;
    whole
}

/// Returns the bytes that averaging and resizing take, at most.
pub(super) fn resizing_bytes(channels: Channels, width: u32, height: u32, cut: &Cut) -> u64 {
    let (across, down) = (factor(cut.width, cut.to_width), factor(cut.height, cut.to_height));
    let (width, height) = ((width as usize).div_ceil(across) as u64, (height as usize).div_ceil(down) as u64);
    let (to_width, to_height) = (u64::from(cut.to_width), u64::from(cut.to_height));
    // Averaged, resized in one direction, in both, as 8 bits, and turned.
    let pixels = width * height + to_width * height + 3 * to_width * to_height;
    // Sums of four channels for each pixel of a row.
    pixels * channels.averaged_bytes() as u64 + width * 4 * 8
}

impl Rows {
    /// Rows of a picture, of which a part is shown; the part is in its pixels.
    pub(super) fn new(channels: Channels, width: u32, height: u32, cut: &Cut) -> Self {
        let (across, down) = (factor(cut.width, cut.to_width), factor(cut.height, cut.to_height));
        let (width, height) = (width as usize, height as usize);
        let size = width.div_ceil(across) * height.div_ceil(down);
        let averaged = match channels.has_alpha() {
            false => Averaged::Opaque(Vec::with_capacity(size * channels.number())),
            true => Averaged::Alpha(Vec::with_capacity(size)),
        };
        let sums = vec![0; if across * down > 1 { width.div_ceil(across) * 4 } else { 0 }];
        Self { channels, width, height, across, down, came: 0, sums, averaged }
    }

    /// All rows of a picture without alpha, which are not copied where none becomes one with another.
    pub(super) fn whole(channels: Channels, width: u32, height: u32, values: Vec<u8>, cut: &Cut) -> Self {
        if factor(cut.width, cut.to_width) * factor(cut.height, cut.to_height) == 1 {
            let (width, height) = (width as usize, height as usize);
            let averaged = Averaged::Opaque(values);
            return Self { channels, width, height, across: 1, down: 1, came: height, sums: Vec::new(), averaged };
        }
        let mut rows = Self::new(channels, width, height, cut);
        values.chunks_exact(rows.width * channels.number()).for_each(|row| rows.push(row));
        rows
    }

    /// Takes the next row.
    pub(super) fn push(&mut self, row: &[u8]) {
        self.came += 1;
        if self.sums.is_empty() {
            return self.averaged.extend(self.channels, row);
        }
        let cells = self.sums.chunks_exact_mut(4).zip(row.chunks(self.across * self.channels.number()));
        match self.channels {
            Channels::Gray => {
                cells.for_each(|(sum, cell)| sum[0] += cell.iter().map(|value| u64::from(*value)).sum::<u64>())
            }
            Channels::Rgb => cells.for_each(|(sum, cell)| {
                for part in cell.chunks(3 * PART_PIXELS) {
                    let mut of_part = [0_u32; 3];
                    for pixel in part.as_chunks::<3>().0 {
                        (0..3).for_each(|channel| of_part[channel] += u32::from(pixel[channel]));
                    }
                    (0..3).for_each(|channel| sum[channel] += u64::from(of_part[channel]));
                }
            }),
            Channels::GrayAlpha => cells.for_each(|(sum, cell)| {
                for [gray, alpha] in cell.as_chunks::<2>().0 {
                    sum[0] += u64::from(*gray) * u64::from(*alpha);
                    sum[3] += u64::from(*alpha);
                }
            }),
            Channels::Rgba => cells.for_each(|(sum, cell)| {
                for part in cell.chunks(4 * PART_PIXELS) {
                    let mut of_part = [0_u32; 4];
                    for [red, green, blue, alpha] in part.as_chunks::<4>().0 {
                        let alpha = u32::from(*alpha);
                        of_part[0] += u32::from(*red) * alpha;
                        of_part[1] += u32::from(*green) * alpha;
                        of_part[2] += u32::from(*blue) * alpha;
                        of_part[3] += alpha;
                    }
                    (0..4).for_each(|channel| sum[channel] += u64::from(of_part[channel]));
                }
            }),
        }
        if self.came.is_multiple_of(self.down) || self.came == self.height {
            let rows = (self.came - 1) % self.down + 1;
            self.average(rows);
        }
    }

    /// Ends rows that become one.
    fn average(&mut self, rows: usize) {
        let last = self.width.div_ceil(self.across) - 1;
        let last_columns = self.width - last * self.across;
        let (across, channels) = (self.across, self.channels);
        let number = |column: usize| (if column == last { last_columns } else { across } * rows) as u64;
        #[expect(clippy::cast_possible_truncation, reason = "an average of bytes is one, and 257 times it a u16")]
        let byte = |sum: u64, number: u64| ((sum + number / 2) / number) as u8;
        let sums = self.sums.as_chunks::<4>().0.iter().enumerate();
        match &mut self.averaged {
            Averaged::Opaque(values) => sums.for_each(|(column, sum)| {
                let number = number(column);
                values.extend(sum[..channels.number()].iter().map(|sum| byte(*sum, number)));
            }),
            Averaged::Alpha(pixels) => pixels.extend(sums.map(|(column, [red, green, blue, alpha])| {
                let number = number(column);
                #[expect(clippy::cast_possible_truncation, reason = "an average of bytes times 257 is a u16")]
                let colour = |sum: u64| ((sum * 257 + number * 255 / 2) / (number * 255)) as u16;
                #[expect(clippy::cast_possible_truncation, reason = "an average of bytes times 257 is a u16")]
                let alpha = ((alpha * 257 + number / 2) / number) as u16;
                let [red, green, blue] = match channels {
                    Channels::GrayAlpha => [colour(*red); 3],
                    _ => [colour(*red), colour(*green), colour(*blue)],
                };
                U16x4::new([red, green, blue, alpha])
            })),
        }
        self.sums.fill(0);
    }

    /// Returns the part that is shown, of its size and as it is turned. All rows have come.
    pub(super) fn show(self, cut: &Cut, orientation: Orientation) -> Pixels {
        let (across, down) = (self.across as f64, self.down as f64);
        let whole = (self.width.div_ceil(self.across), self.height.div_ceil(self.down));
        let cut = Cut {
            left: cut.left / across,
            top: cut.top / down,
            width: cut.width / across,
            height: cut.height / down,
            ..*cut
        };
        let values = match self.averaged {
            Averaged::Opaque(values) if self.channels == Channels::Gray => resized::<U8>(&values, whole, &cut),
            Averaged::Opaque(values) => resized::<U8x3>(&values, whole, &cut),
            Averaged::Alpha(pixels) => {
                let from = TypedImageRef::new(side(whole.0), side(whole.1), &pixels).expect("of that size");
                let mut image = TypedImage::new(cut.to_width, cut.to_height);
                let resized = Resizer::new().resize_typed(&from, &mut image, &part(whole, &cut));
                resized.expect("the part is in the picture");
                MulDiv::new().divide_alpha_inplace_typed(&mut image).expect("it has alpha");
                #[expect(clippy::cast_possible_truncation, reason = "a u16 over 257 is a byte")]
                let byte = |value: u16| ((u32::from(value) + 128) / 257) as u8;
                match self.channels {
                    Channels::GrayAlpha => {
                        image.pixels().iter().flat_map(|pixel| [byte(pixel.0[0]), byte(pixel.0[3])]).collect()
                    }
                    _ => image.pixels().iter().flat_map(|pixel| pixel.0.map(byte)).collect(),
                }
            }
        };
        let size = (cut.to_width as usize, cut.to_height as usize);
        let (width, height, values) = orientation.turn(size, self.channels.number(), values);
        Pixels { width, height, channels: self.channels, values }
    }
}

impl Averaged {
    /// Takes a row as it is.
    fn extend(&mut self, channels: Channels, row: &[u8]) {
        match self {
            Self::Opaque(values) => values.extend_from_slice(row),
            Self::Alpha(pixels) if channels == Channels::GrayAlpha => {
                pixels.extend(row.as_chunks::<2>().0.iter().map(|[gray, alpha]| multiplied([*gray; 3], *alpha)));
            }
            Self::Alpha(pixels) => {
                pixels.extend(
                    row.as_chunks::<4>()
                        .0
                        .iter()
                        .map(|[red, green, blue, alpha]| multiplied([*red, *green, *blue], *alpha)),
                );
            }
        }
    }
}

/// A pixel multiplied by its alpha, in 16 bits.
fn multiplied(colours: [u8; 3], alpha: u8) -> U16x4 {
    let by = u32::from(alpha);
    #[expect(clippy::cast_possible_truncation, reason = "255 times 255 times 257 over 255 is a u16")]
    let [red, green, blue] = colours.map(|colour| ((u32::from(colour) * by * 257 + 127) / 255) as u16);
    U16x4::new([red, green, blue, u16::from(alpha) * 257])
}

/// The part of a picture without alpha, in another size. By the type of its pixels: else this is compiled for all types that there are.
fn resized<P: PixelTrait>(values: &[u8], whole: (usize, usize), cut: &Cut) -> Vec<u8> {
    let (width, height) = (cut.to_width, cut.to_height);
    let mut made = vec![0; width as usize * height as usize * P::size()];
    let from = TypedImageRef::<P>::from_buffer(side(whole.0), side(whole.1), values).expect("of that size");
    let mut image = TypedImage::from_buffer(width, height, &mut made).expect("of that size");
    Resizer::new().resize_typed(&from, &mut image, &part(whole, cut)).expect("the part is in the picture");
    made
}

fn side(side: usize) -> u32 {
    u32::try_from(side).expect("it was one")
}

/// How a part of a picture of a size is resized.
fn part((width, height): (usize, usize), cut: &Cut) -> ResizeOptions {
    // What ends beyond the last pixel by a rounding error does not.
    let (left, top) = (cut.left.max(0.0), cut.top.max(0.0));
    let (part_width, part_height) = (cut.width.min(width as f64 - left), cut.height.min(height as f64 - top));
    ResizeOptions::new().use_alpha(false).crop(left, top, part_width, part_height)
}
