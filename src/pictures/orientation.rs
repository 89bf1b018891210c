//! How a picture is turned before it is shown, as EXIF says it.

use super::cut::Cut;

/// One of the eight orientations: a pixel of what is shown is looked up with swapped coordinates, and then from the other sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orientation {
    is_transposed: bool,
    from_the_right: bool,
    from_below: bool,
}

/// The tag of the orientation, and the type of its value.
const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;

/// The bytes of a directory's entry.
const ENTRY_BYTES: usize = 12;

impl Orientation {
    /// The one with a number; the first where there is none such.
    pub(super) fn numbered(number: u16) -> Self {
        let (is_transposed, from_the_right, from_below) = match number {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (true, true, false),
            _ => (false, false, false),
        };
        Self { is_transposed, from_the_right, from_below }
    }

    /// That of EXIF data, which begin with the head of a TIFF; the first where they have none.
    pub(super) fn of_exif(exif: &[u8]) -> Self {
        Self::numbered(number(exif).unwrap_or(1))
    }

    /// Returns the size of what is shown of a picture of a size.
    pub(super) fn shown(self, width: u32, height: u32) -> (u32, u32) {
        if self.is_transposed { (height, width) } else { (width, height) }
    }

    /// Returns the part of a picture of a size, as it is stored, that is a part of what is shown.
    pub(super) fn stored(self, cut: Cut, width: u32, height: u32) -> Cut {
        let cut = match self.is_transposed {
            true => Cut {
                left: cut.top,
                top: cut.left,
                width: cut.height,
                height: cut.width,
                to_width: cut.to_height,
                to_height: cut.to_width,
            },
            false => cut,
        };
        let left = if self.from_the_right { f64::from(width) - cut.left - cut.width } else { cut.left };
        let top = if self.from_below { f64::from(height) - cut.top - cut.height } else { cut.top };
        Cut { left, top, ..cut }
    }

    /// Turns pixels of `channels` bytes; returns the size and the pixels of what is shown.
    pub(super) fn turn(
        self,
        (width, height): (usize, usize),
        channels: usize,
        pixels: Vec<u8>,
    ) -> (usize, usize, Vec<u8>) {
        if self == Self::default() {
            return (width, height, pixels);
        }
        let (shown_width, shown_height) = if self.is_transposed { (height, width) } else { (width, height) };
        let mut shown = Vec::with_capacity(pixels.len());
        for y in 0..shown_height {
            for x in 0..shown_width {
                let (x, y) = if self.is_transposed { (y, x) } else { (x, y) };
                let x = if self.from_the_right { width - 1 - x } else { x };
                let y = if self.from_below { height - 1 - y } else { y };
                let at = (y * width + x) * channels;
                shown.extend_from_slice(&pixels[at..at + channels]);
            }
        }
        (shown_width, shown_height, shown)
    }
}

/// The number of the orientation in the first directory.
fn number(exif: &[u8]) -> Option<u16> {
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = exif.get(at..)?.first_chunk().copied()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let first = exif.get(4..)?.first_chunk().copied()?;
    let first = if is_little { u32::from_le_bytes(first) } else { u32::from_be_bytes(first) };
    let first = usize::try_from(first).ok()?;
    let entry = (0..usize::from(short(first)?)).map(|entry| first.saturating_add(2 + entry * ENTRY_BYTES));
    let found = entry.take_while(|at| *at < exif.len()).find(|at| short(*at) == Some(ORIENTATION))?;
    (short(found + 2) == Some(SHORT)).then(|| short(found + 8)).flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// EXIF data with an orientation.
    pub(in crate::server_layers::pictures) fn exif(number: u16, is_little: bool) -> Vec<u8> {
        let word = |value: u16| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let long = |value: u32| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let mut exif = if is_little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        exif.extend(long(8));
        exif.extend(word(2));
        for (tag, value) in [(0x0100, 77), (ORIENTATION, number)] {
            exif.extend([word(tag), word(SHORT)].concat());
            exif.extend(long(1));
            exif.extend([word(value), word(0)].concat());
        }
        exif.extend(long(0));
        exif
    }

    #[test]
    fn each_orientation_shows_the_corner_that_it_names() {
        // Stored: 3 wide, 2 high.
        let stored = b"abcdef";
        for (number, width, shown) in [
            (1, 3, b"abcdef"),
            (2, 3, b"cbafed"),
            (3, 3, b"fedcba"),
            (4, 3, b"defabc"),
            (5, 2, b"adbecf"),
            (6, 2, b"daebfc"),
            (7, 2, b"fcebda"),
            (8, 2, b"cfbead"),
        ] {
            let orientation = Orientation::numbered(number);
            assert_eq!(orientation.turn((3, 2), 1, stored.to_vec()), (width, 6 / width, shown.to_vec()), "{number}");
            // A part of what is shown is the same pixels of what is stored.
            let (shown_width, shown_height) = orientation.shown(3, 2);
            let part = Cut { left: 1.0, top: 0.0, width: 1.0, height: 1.0, to_width: 1, to_height: 1 };
            let of_stored = orientation.stored(part, 3, 2);
            let at =
                |cut: Cut, width: u32, pixels: &[u8]| pixels[cut.top as usize * width as usize + cut.left as usize];
            assert_eq!(at(of_stored, 3, stored), at(part, shown_width, shown), "{number}");
            assert_eq!(shown_width * shown_height, 6);
        }
    }

    #[test]
    fn exif_data_say_it_in_both_orders_and_broken_ones_say_nothing() {
        for number in 1..=8 {
            for is_little in [true, false] {
                let exif = exif(number, is_little);
                assert_eq!(Orientation::of_exif(&exif), Orientation::numbered(number));
                for length in 0..exif.len() - 12 {
                    assert_eq!(Orientation::of_exif(&exif[..length]), Orientation::default(), "{length}");
                }
            }
        }
        for exif in [&b"II*\0\xff\xff\xff\xff"[..], b"MM\0*\xff\xff\xff\xfe\0\x01", b"II*\0\x08\0\0\0\xff\xff", b""] {
            assert_eq!(Orientation::of_exif(exif), Orientation::default());
        }
        assert_eq!(Orientation::of_exif(&exif(9, true)), Orientation::default());
    }
}
