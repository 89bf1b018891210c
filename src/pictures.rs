//! Pictures: a file and the size that is asked for in, a smaller file out, within bounds that are known before a pixel is decoded.
//!
//! ```text
//! file ── head: format, size, orientation, profile ──► bytes that all of it takes at most ── reserved ──► pixels ──► smaller ──► file
//! ```
//! JPEG, PNG, GIF and WebP are read, told by their bytes; of an animation the first frame. What was JPEG is written as JPEG, all else as PNG.
//! The head is read by code of this layer and reserves nothing but a profile of 1 MiB. From its numbers follows what decoding takes at most;
//! the decoders' own limits are set besides. Profiles are kept; texts, places and thumbnails are left out of what is decoded, or passed over.
//!
//! No decoder is given a file before what it takes at most was computed from the head and reserved. A JPEG is decoded to an eighth, a
//! quarter or a half where at least 1.5 times the size remains; the rows of other formats are averaged over boxes, as they come, to at
//! least twice the size (`pixels`).
//!
//! Non-goals: which thread does this, how much memory there is for all of them, and what is cached (`handlers`, `ingress`).

mod cut;
mod encode;
mod gif;
mod jpeg;
mod lossless;
mod orientation;
mod pixels;
mod png;
#[cfg(test)]
mod tests;
mod webp;

use crate::schema::ThumbSize;
use cut::Cut;
use orientation::Orientation;
use pixels::Pixels;

/// Bytes of a colour profile at most; a longer one is left out.
const PROFILE_BYTES: usize = 1 << 20;

/// A picture of which the head was read.
#[derive(Debug)]
pub struct Picture<'b> {
    bytes: &'b [u8],
    head: Head,
    format: Format<'b>,
}

/// What the head of each format says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    /// As it is stored, before it is turned.
    width: u32,
    height: u32,
    orientation: Orientation,
    profile: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Format<'b> {
    Jpeg(jpeg::Jpeg),
    Png(png::Png),
    Gif(gif::Gif),
    WebP(webp::WebP<'b>),
}

/// A smaller picture.
#[derive(Debug)]
pub struct Thumbnail {
    /// Its media type.
    pub media_type: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Why there is no smaller picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In what way.
    pub kind: FaultKind,
    /// What is wrong.
    pub detail: String,
}

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No picture, or of a kind that is not read.
    NotAPicture,
    /// A picture that is cut, or contradicts itself.
    Damaged,
    /// It would take more than there is.
    TooLarge,
}

impl Fault {
    fn not_a_picture(detail: impl Into<String>) -> Self {
        Self { kind: FaultKind::NotAPicture, detail: detail.into() }
    }

    fn damaged(detail: impl Into<String>) -> Self {
        Self { kind: FaultKind::Damaged, detail: detail.into() }
    }

    fn too_large(detail: impl Into<String>) -> Self {
        Self { kind: FaultKind::TooLarge, detail: detail.into() }
    }
}

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Jpeg,
    Png,
    Gif,
    WebP,
}

impl Kind {
    /// Recognises the format of a file by its first bytes, of which a dozen are enough.
    ///
    /// # Errors
    /// `NotAPicture` if it is none of those that are read.
    pub(crate) fn of(beginning: &[u8]) -> Result<Self, Fault> {
        let has = |signature: &&[u8]| beginning.starts_with(signature);
        Ok(match () {
            () if has(&&b"\xff\xd8\xff"[..]) => Self::Jpeg,
            () if has(&png::SIGNATURE) => Self::Png,
            () if gif::SIGNATURES.iter().any(has) => Self::Gif,
            () if webp::is_one(beginning) => Self::WebP,
            () => return Err(Fault::not_a_picture("the blob is no JPEG, PNG, GIF or WebP")),
        })
    }
}

impl<'b> Picture<'b> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// `NotAPicture` if it is none of those that are read; `Damaged` if its head is.
    pub fn open(bytes: &'b [u8]) -> Result<Self, Fault> {
        let (head, format) = match Kind::of(bytes)? {
            Kind::Jpeg => jpeg::head(bytes).map(|(head, jpeg)| (head, Format::Jpeg(jpeg)))?,
            Kind::Png => png::head(bytes).map(|(head, png)| (head, Format::Png(png)))?,
            Kind::Gif => gif::head(bytes).map(|(head, gif)| (head, Format::Gif(gif)))?,
            Kind::WebP => webp::head(bytes).map(|(head, webp)| (head, Format::WebP(webp)))?,
        };
        Ok(Self { bytes, head, format })
    }

    /// Returns the number of its pixels.
    pub fn pixels(&self) -> u64 {
        let shown = u64::from(self.head.width) * u64::from(self.head.height);
        if let Format::Gif(gif) = &self.format { shown.max(gif.pixels()) } else { shown }
    }

    /// Returns the bytes that it takes to make a thumbnail, at most, beside the file.
    ///
    /// # Errors
    /// `Damaged` if that is not to be read in the file.
    pub fn needed_bytes(&self, spec: &ThumbSize) -> Result<u64, Fault> {
        let (cut, head) = (self.stored(spec), &self.head);
        let decoding = match &self.format {
            Format::Jpeg(jpeg) => jpeg.bytes(head, self.bytes.len(), &cut),
            Format::Png(png) => png.bytes(head, &cut),
            Format::Gif(gif) => gif.bytes(head, self.bytes.len(), &cut),
            Format::WebP(webp) => webp.bytes(head, &cut)?,
        };
        // The file that is written, which is longer than its pixels by little, and the profile in it.
        let written = u64::from(cut.to_width) * u64::from(cut.to_height) * 6;
        let profile = self.head.profile.as_ref().map_or(0, |profile| profile.len() as u64);
        Ok(decoding + 2 * written + 2 * profile + (1 << 16))
    }

    /// Makes a thumbnail.
    ///
    /// # Errors
    /// `Damaged` if the file is; `TooLarge` if it takes too long.
    pub fn thumbnail(&self, spec: &ThumbSize) -> Result<Thumbnail, Fault> {
        let (pixels, profile) = (self.shown(spec)?, self.head.profile.as_deref());
        Ok(match &self.format {
            Format::Jpeg(_) => Thumbnail { media_type: "image/jpeg", bytes: encode::jpeg(&pixels, profile) },
            _ => Thumbnail { media_type: "image/png", bytes: encode::png(&pixels, profile) },
        })
    }

    /// The pixels of a thumbnail.
    fn shown(&self, spec: &ThumbSize) -> Result<Pixels, Fault> {
        let (cut, head) = (self.stored(spec), &self.head);
        let (rows, cut) = match &self.format {
            Format::Jpeg(jpeg) => jpeg.decode(head, self.bytes, &cut)?,
            Format::Png(png) => (png.decode(head, self.bytes, &cut)?, cut),
            Format::Gif(gif) => (gif.decode(head, self.bytes, &cut)?, cut),
            Format::WebP(webp) => (webp.decode(head, &cut)?, cut),
        };
        Ok(rows.show(&cut, head.orientation))
    }

    /// The part that is shown, in pixels as they are stored.
    fn stored(&self, spec: &ThumbSize) -> Cut {
        let Head { width, height, orientation, .. } = self.head;
        let (shown_width, shown_height) = orientation.shown(width, height);
        orientation.stored(Cut::of(*spec, shown_width, shown_height), width, height)
    }
}
