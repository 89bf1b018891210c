//! JPEG: its segments, read and cleaned before a decoder sees them, and its pixels, decoded to an eighth, a quarter or a half where that does.
//!
//! The decoder takes what is missing for zeros. So it is given a copy in which bits of one, which no Huffman code consists of, stand behind
//! the data of each scan and before each restart: where data is missing, it finds these and fails. Profiles, texts and thumbnails are left
//! out of the copy.

use jpeg_decoder::Decoder;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::cut::Cut;
use super::orientation::Orientation;
use super::pixels::{Channels, Rows, resizing_bytes};
use super::{Fault, Head, PROFILE_BYTES};

/// The second bytes of markers.
mod marker {
    pub(super) const SOF_BASELINE: u8 = 0xc0;
    pub(super) const SOF_PROGRESSIVE: u8 = 0xc2;
    pub(super) const DHT: u8 = 0xc4;
    pub(super) const JPG: u8 = 0xc8;
    pub(super) const DAC: u8 = 0xcc;
    pub(super) const RST: std::ops::RangeInclusive<u8> = 0xd0..=0xd7;
    pub(super) const SOI: u8 = 0xd8;
    pub(super) const EOI: u8 = 0xd9;
    pub(super) const SOS: u8 = 0xda;
    pub(super) const APP: std::ops::RangeInclusive<u8> = 0xe0..=0xef;
    pub(super) const JFIF: u8 = 0xe0;
    pub(super) const EXIF: u8 = 0xe1;
    pub(super) const ICC: u8 = 0xe2;
    pub(super) const ADOBE: u8 = 0xee;
    pub(super) const COM: u8 = 0xfe;
    pub(super) const TEM: u8 = 0x01;
}

thread_local! {
    /// A pool of this thread alone, in which it decodes. Without it the decoder would start threads of its own for each picture, which go
    /// on, and keep their memory, when it has failed.
    static ALONE: ThreadPool = {
        let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        alone.expect("the thread is in no other pool")
    };
}

/// More scans than any encoder writes: each goes over all blocks, whatever its length.
const MOST_SCANS: usize = 100;

/// Bytes of ones before a restart: few enough that the decoder reads on as far as its marker.
const ONES_BEFORE_RESTART: usize = 3;

/// Bytes of ones behind the data of a scan: more than the decoder reads ahead.
const ONES_BEHIND_SCAN: usize = 16;

/// The coefficients of a block.
const BLOCK: usize = 64;

/// What the head of a JPEG says beside what every head does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jpeg {
    components: Vec<Component>,
    is_progressive: bool,
    /// Whether Adobe's marker says how colours are transformed; then inks are inverted.
    is_adobe: bool,
    /// Restart markers, at most; each is longer in the copy.
    restarts: usize,
}

/// A component, with its horizontal and vertical sampling factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Component {
    id: u8,
    across: u8,
    down: u8,
}

/// A segment, or a marker without one.
struct Segment<'b> {
    marker: u8,
    body: &'b [u8],
    /// From its marker on.
    whole: &'b [u8],
    /// The position behind it.
    end: usize,
}

/// The next segment from a position on; none if the file ends before its end. What stands between segments is passed over, as all decoders do.
fn next(bytes: &[u8], mut at: usize) -> Option<Segment<'_>> {
    loop {
        at += memchr::memchr(0xff, bytes.get(at..)?)?;
        let start = at;
        while *bytes.get(at)? == 0xff {
            at += 1;
        }
        let marker = bytes[at];
        at += 1;
        match marker {
            0 => {}
            marker::SOI | marker::EOI | marker::TEM => {
                return Some(Segment { marker, body: &[], whole: &bytes[start..at], end: at });
            }
            marker if marker::RST.contains(&marker) => {}
            _ => {
                let length = usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
                let whole = bytes.get(start..at + length)?;
                return Some(Segment { marker, body: bytes.get(at + 2..at + length)?, whole, end: at + length });
            }
        }
    }
}

/// Reads the head: everything before the first scan.
///
/// # Errors
/// `Damaged` if it ends before; `NotAPicture` for a kind of JPEG that is not read.
pub(super) fn head(bytes: &[u8]) -> Result<(Head, Jpeg), Fault> {
    let damaged = || Fault::damaged("its head is cut");
    let (mut at, mut frame, mut orientation, mut profile, mut is_adobe) =
        (2, None, Orientation::default(), Profile::default(), false);
    loop {
        let segment = next(bytes, at).ok_or_else(damaged)?;
        let body = segment.body;
        match segment.marker {
            marker::SOS | marker::EOI => break,
            marker::EXIF => {
                if let Some(exif) = body.strip_prefix(b"Exif\0\0") {
                    orientation = Orientation::of_exif(exif);
                }
            }
            marker::ICC => profile.take(body),
            marker::ADOBE => is_adobe |= body.starts_with(b"Adobe"),
            marker::DHT | marker::JPG | marker::DAC => {}
            marker if (0xc0..=0xcf).contains(&marker) => {
                if marker > marker::SOF_PROGRESSIVE {
                    return Err(Fault::not_a_picture(
                        "a JPEG of a kind that is not read (lossless, hierarchical or arithmetic)",
                    ));
                }
                if frame.is_some() {
                    return Err(Fault::damaged("it has two frames"));
                }
                frame = Some((marker, body));
            }
            _ => {}
        }
        at = segment.end;
    }
    let (marker, body) = frame.ok_or_else(damaged)?;
    let [precision, height_high, height_low, width_high, width_low, components] =
        *body.first_chunk().ok_or_else(damaged)?;
    let (width, height) = (u16::from_be_bytes([width_high, width_low]), u16::from_be_bytes([height_high, height_low]));
    if precision != 8 || ![1, 3, 4].contains(&components) || height == 0 {
        let told = format!("{precision} bits a sample, {components} components, {height} lines");
        return Err(Fault::not_a_picture(format!("a JPEG of a kind that is not read ({told})")));
    }
    let components = body.get(6..6 + 3 * usize::from(components)).ok_or_else(damaged)?;
    let components = components.as_chunks::<3>().0.iter();
    let components: Vec<_> =
        components.map(|[id, factors, _]| Component { id: *id, across: factors >> 4, down: factors & 0xf }).collect();
    let is_wrong =
        |component: &Component| [component.across, component.down].iter().any(|factor| !(1..=4).contains(factor));
    if width == 0 || components.iter().any(is_wrong) {
        return Err(Fault::damaged("its head has numbers that no picture has"));
    }
    // A profile of inks is none of what they are converted to.
    let profile = if components.len() == 4 { None } else { profile.whole() };
    let is_progressive = marker == marker::SOF_PROGRESSIVE;
    debug_assert!(is_progressive || marker <= marker::SOF_BASELINE + 1);
    let head = Head { width: width.into(), height: height.into(), orientation, profile };
    let markers = memchr::memchr_iter(0xff, bytes).filter_map(|at| bytes.get(at + 1));
    let restarts = markers.filter(|marker| marker::RST.contains(marker)).count();
    Ok((head, Jpeg { components, is_progressive, is_adobe, restarts }))
}

/// A colour profile in segments.
#[derive(Default)]
struct Profile<'b> {
    parts: Vec<Option<&'b [u8]>>,
    is_wrong: bool,
}

impl<'b> Profile<'b> {
    fn take(&mut self, body: &'b [u8]) {
        let Some([number, of, part @ ..]) = body.strip_prefix(b"ICC_PROFILE\0") else { return };
        self.parts.resize(usize::from(*of).max(self.parts.len()), None);
        self.is_wrong |= usize::from(*of) != self.parts.len();
        match usize::from(*number).checked_sub(1).and_then(|number| self.parts.get_mut(number)) {
            Some(place @ None) => *place = Some(part),
            _ => self.is_wrong = true,
        }
    }

    /// All of it, if it is not too long.
    fn whole(self) -> Option<Vec<u8>> {
        let parts: Vec<_> = self.parts.into_iter().collect::<Option<_>>()?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        (!self.is_wrong && (1..=PROFILE_BYTES).contains(&length)).then(|| parts.concat())
    }
}

/// How many times the size that is asked for is decoded at least. Each pixel of a smaller JPEG is an average: with twice the size,
/// thumbnails are no more similar to exact ones (SSIM), and cost more.
const LEAST_LEFT: f64 = 1.5;

/// By how much it is made smaller while it is decoded.
fn divisor(cut: &Cut) -> u32 {
    let fits = |divisor: &u32| {
        let by = LEAST_LEFT * f64::from(*divisor);
        cut.width >= by * f64::from(cut.to_width) && cut.height >= by * f64::from(cut.to_height)
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// A part of a picture, in the pixels of one that is made smaller.
fn divided(cut: &Cut, divisor: u32) -> Cut {
    let by = f64::from(divisor);
    Cut { left: cut.left / by, top: cut.top / by, width: cut.width / by, height: cut.height / by, ..*cut }
}

impl Jpeg {
    fn channels(&self) -> Channels {
        if self.components.len() == 1 { Channels::Gray } else { Channels::Rgb }
    }

    /// Returns the bytes that decoding and resizing take, at most.
    pub(super) fn bytes(&self, head: &Head, file: usize, cut: &Cut) -> u64 {
        let divisor = divisor(cut);
        let most = |of: fn(&Component) -> u8| u64::from(self.components.iter().map(of).max().unwrap_or(1));
        let across = u64::from(head.width).div_ceil(8 * most(|component| component.across));
        let units = across * u64::from(head.height).div_ceil(8 * most(|component| component.down));
        let of_unit = |component: &Component| u64::from(component.across) * u64::from(component.down);
        let blocks = units * self.components.iter().map(of_unit).sum::<u64>();
        // Of a progressive one all coefficients, and those that wait for a thread which makes pixels of them; else a row of units.
        let in_row = across * self.components.iter().map(of_unit).sum::<u64>();
        let coefficients = 2 * BLOCK as u64 * if self.is_progressive { 2 * blocks + in_row } else { in_row };
        let planes = blocks * (8 / u64::from(divisor)).pow(2);
        let (width, height) = (head.width.div_ceil(divisor), head.height.div_ceil(divisor));
        // Inks are there beside the colours that are made of them.
        let values = if self.components.len() == 4 { 7 } else { self.components.len() };
        let decoded = u64::from(width) * u64::from(height) * values as u64;
        self.copied_bytes(file) as u64
            + coefficients
            + planes
            + decoded
            + resizing_bytes(self.channels(), width, height, &divided(cut, divisor))
    }

    /// The bytes of the copy, at most.
    fn copied_bytes(&self, file: usize) -> usize {
        file + 2 * ONES_BEFORE_RESTART * self.restarts + 2 * ONES_BEHIND_SCAN * MOST_SCANS + 64
    }

    /// Decodes a part, which is in its pixels; returns rows and the part in theirs.
    ///
    /// # Errors
    /// `Damaged` if the file is, or has too few pixels.
    pub(super) fn decode(&self, head: &Head, bytes: &[u8], cut: &Cut) -> Result<(Rows, Cut), Fault> {
        let copy = self.cleaned(bytes)?;
        let mut decoder = Decoder::new(&copy[..]);
        let divisor = divisor(cut);
        let side = |side: u32| u16::try_from(side.div_ceil(divisor)).expect("a JPEG has such sides");
        let wrong = |error: jpeg_decoder::Error| match error {
            jpeg_decoder::Error::Unsupported(feature) => {
                Fault::not_a_picture(format!("a JPEG of a kind that is not read ({feature:?})"))
            }
            error => Fault::damaged(error.to_string()),
        };
        // It takes the smallest size that reaches one of the sides, which for the shorter one may be a much smaller picture than for the other.
        let wanted =
            if head.width >= head.height { (side(head.width), u16::MAX) } else { (u16::MAX, side(head.height)) };
        let (width, height) = decoder.scale(wanted.0, wanted.1).map_err(wrong)?;
        let pixels = ALONE.with(|alone| alone.install(|| decoder.decode())).map_err(wrong)?;
        let cut = divided(cut, divisor);
        if pixels.len() != usize::from(width) * usize::from(height) * self.components.len() {
            return Err(Fault::damaged("it has too few pixels"));
        }
        let pixels = match self.components.len() {
            4 => pixels.as_chunks::<4>().0.iter().flat_map(|inks| self.light(*inks)).collect(),
            _ => pixels,
        };
        Ok((Rows::whole(self.channels(), width.into(), height.into(), pixels, &cut), cut))
    }

    /// The colour of inks, which the decoder gives as if they were stored inverted.
    fn light(&self, inks: [u8; 4]) -> [u8; 3] {
        let light = inks.map(|ink| u32::from(if self.is_adobe { 255 - ink } else { ink }));
        #[expect(clippy::cast_possible_truncation, reason = "a product of bytes over 255 is one")]
        [0, 1, 2].map(|ink| ((light[ink] * light[3] + 127) / 255) as u8)
    }

    /// A copy of what makes pixels.
    fn cleaned(&self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut copy = Vec::with_capacity(self.copied_bytes(bytes.len()));
        copy.extend([0xff, marker::SOI]);
        let (mut at, mut scans, mut progress) = (2, 0, Progress::new(&self.components));
        let mut ends = false;
        while let Some(segment) = next(bytes, at) {
            at = segment.end;
            match segment.marker {
                marker::EOI => {
                    ends = true;
                    break;
                }
                marker::SOI | marker::TEM | marker::COM => {}
                marker if marker::APP.contains(&marker) && ![marker::JFIF, marker::ADOBE].contains(&marker) => {}
                marker::SOS => {
                    scans += 1;
                    if scans > MOST_SCANS {
                        return Err(Fault::too_large(format!("it has more than {MOST_SCANS} scans")));
                    }
                    progress.note(segment.body);
                    copy.extend_from_slice(segment.whole);
                    at += copy_scan(&bytes[at..], &mut copy);
                }
                _ => copy.extend_from_slice(segment.whole),
            }
        }
        // What has no end may have all that is shown.
        if !ends && self.is_progressive && !progress.is_complete() {
            return Err(Fault::damaged("it ends before its last scan"));
        }
        copy.extend([0xff, marker::EOI]);
        Ok(copy)
    }
}

/// Copies the data of a scan with its restarts; returns where it ends.
fn copy_scan(data: &[u8], copy: &mut Vec<u8>) -> usize {
    let ones = |copy: &mut Vec<u8>, bytes: usize| (0..bytes).for_each(|_| copy.extend([0xff, 0]));
    let mut at = 0;
    loop {
        let Some(found) = memchr::memchr(0xff, &data[at..]) else {
            copy.extend_from_slice(&data[at..]);
            at = data.len();
            break;
        };
        copy.extend_from_slice(&data[at..at + found]);
        at += found;
        match data.get(at + 1) {
            Some(0) => copy.extend([0xff, 0]),
            Some(marker) if marker::RST.contains(marker) => {
                ones(copy, ONES_BEFORE_RESTART);
                copy.extend([0xff, *marker]);
            }
            // Fill.
            Some(0xff) => {
                at += 1;
                continue;
            }
            Some(_) | None => break,
        }
        at += 2;
    }
    ones(copy, ONES_BEHIND_SCAN);
    at
}

/// Which coefficients of a progressive JPEG have come as a whole.
struct Progress<'j> {
    components: &'j [Component],
    /// By component, a bit for each.
    complete: Vec<u64>,
}

impl<'j> Progress<'j> {
    fn new(components: &'j [Component]) -> Self {
        Self { components, complete: vec![0; components.len()] }
    }

    /// Takes the head of a scan: a number of components, each with two bytes, and the coefficients from and to, and their bits.
    fn note(&mut self, head: &[u8]) {
        let [number, rest @ ..] = head else { return };
        let Some((selectors, [from, to, bits, ..])) = rest.split_at_checked(2 * usize::from(*number)) else { return };
        if bits & 0xf != 0 || from > to || *to > 63 {
            return;
        }
        let coefficients = (*from..=*to).fold(0, |all, coefficient| all | 1_u64 << coefficient);
        for [id, _] in selectors.as_chunks::<2>().0 {
            let of_it = self.components.iter().zip(&mut self.complete).filter(|(component, _)| component.id == *id);
            of_it.for_each(|(_, complete)| *complete |= coefficients);
        }
    }

    fn is_complete(&self) -> bool {
        self.complete.iter().all(|complete| *complete == u64::MAX)
    }
}
