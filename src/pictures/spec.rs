//! What is asked for: a box, how a picture is put into it, and what of a picture of a size that is.

use std::fmt;
use std::str::FromStr;

/// The longest side that can be asked for, in pixels.
pub const LONGEST_SIDE: u16 = 4096;

/// The box of a thumbnail, and how the picture is put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// 0 if it follows from the height.
    width: u16,
    /// 0 if it follows from the width.
    height: u16,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// The surplus is cut off at both ends.
    Fill,
    /// What is too high is cut off at the bottom.
    FillFromTop,
    /// What is too high is cut off at the top.
    FillFromBottom,
    /// Nothing is cut off.
    Fit,
}

/// The part of a picture that is shown, in its pixels, and the size at which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) to_width: u32,
    pub(super) to_height: u32,
}

/// A regular expression of sides, 1 to 4096.
macro_rules! side {
    () => {
        "([1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])"
    };
}

impl Spec {
    /// A regular expression of sizes.
    pub const PATTERN: &str = concat!("^(", side!(), "x", side!(), "[tbf]?|", side!(), "x0|0x", side!(), ")$");

    /// Returns the part of a picture of a size, not 0, that is shown. Nothing is enlarged.
    pub(super) fn cut(&self, width: u32, height: u32) -> Cut {
        let (whole_width, whole_height) = (f64::from(width), f64::from(height));
        let scales = [(self.width, whole_width), (self.height, whole_height)].map(|(to, from)| f64::from(to) / from);
        let scale = match (self.width, self.height, self.mode) {
            (0, _, _) => scales[1],
            (_, 0, _) => scales[0],
            (.., Mode::Fit) => scales[0].min(scales[1]),
            _ => scales[0].max(scales[1]),
        };
        if self.width == 0 || self.height == 0 || self.mode == Mode::Fit {
            let scale = scale.min(1.0);
            let (to_width, to_height) = (side(whole_width * scale, width), side(whole_height * scale, height));
            return Cut { left: 0.0, top: 0.0, width: whole_width, height: whole_height, to_width, to_height };
        }
        // Where the picture is smaller than the box, the box shrinks.
        let shrink = scale.max(1.0);
        let to_width = side(f64::from(self.width) / shrink, width);
        let to_height = side(f64::from(self.height) / shrink, height);
        let (cut_width, cut_height) = match scale > 1.0 {
            true => (f64::from(to_width), f64::from(to_height)),
            false => (f64::from(self.width) / scale, f64::from(self.height) / scale),
        };
        let (cut_width, cut_height) = (cut_width.min(whole_width), cut_height.min(whole_height));
        let surplus = whole_height - cut_height;
        let top = match self.mode {
            Mode::FillFromTop => 0.0,
            Mode::FillFromBottom => surplus,
            Mode::Fill | Mode::Fit => surplus / 2.0,
        };
        // What is not made smaller is not moved by a part of a pixel either.
        let place = |from: f64| if scale >= 1.0 { from.floor() } else { from };
        let left = place((whole_width - cut_width) / 2.0);
        Cut { left, top: place(top), width: cut_width, height: cut_height, to_width, to_height }
    }
}

/// The nearest whole number of pixels, at least 1 and at most those that there are.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32")]
fn side(exact: f64, at_most: u32) -> u32 {
    exact.round().clamp(1.0, f64::from(at_most)) as u32
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no size of a thumbnail: WIDTHxHEIGHT, each 0 to {LONGEST_SIDE} and not both 0; behind two sides t or b cuts off at the \
                 bottom or at the top alone, f cuts nothing off"
            )
        };
        let (sides, mode) = match text.as_bytes().last() {
            Some(b't') => (&text[..text.len() - 1], Mode::FillFromTop),
            Some(b'b') => (&text[..text.len() - 1], Mode::FillFromBottom),
            Some(b'f') => (&text[..text.len() - 1], Mode::Fit),
            _ => (text, Mode::Fill),
        };
        let (width, height) = sides.split_once('x').ok_or_else(wrong)?;
        let side = |digits: &str| {
            let is_plain =
                digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
            digits.parse().ok().filter(|side| is_plain && *side <= LONGEST_SIDE).ok_or_else(wrong)
        };
        let spec = Self { width: side(width)?, height: side(height)?, mode };
        let has_two_sides = spec.width > 0 && spec.height > 0;
        let has_a_side = spec.width > 0 || spec.height > 0;
        if has_two_sides || has_a_side && mode == Mode::Fill { Ok(spec) } else { Err(wrong()) }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Fill => "",
            Mode::FillFromTop => "t",
            Mode::FillFromBottom => "b",
            Mode::Fit => "f",
        };
        write!(out, "{}x{}{mode}", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(spec: &str, width: u32, height: u32) -> (f64, f64, f64, f64, u32, u32) {
        let cut = spec.parse::<Spec>().unwrap().cut(width, height);
        (cut.left, cut.top, cut.width, cut.height, cut.to_width, cut.to_height)
    }

    #[test]
    fn each_mode_shows_its_part() {
        assert_eq!(cut("200x100", 800, 800), (0.0, 200.0, 800.0, 400.0, 200, 100));
        assert_eq!(cut("200x100t", 800, 800), (0.0, 0.0, 800.0, 400.0, 200, 100));
        assert_eq!(cut("200x100b", 800, 800), (0.0, 400.0, 800.0, 400.0, 200, 100));
        assert_eq!(cut("100x200t", 800, 800), (200.0, 0.0, 400.0, 800.0, 100, 200));
        assert_eq!(cut("200x100f", 800, 800), (0.0, 0.0, 800.0, 800.0, 100, 100));
        assert_eq!(cut("200x0", 800, 600), (0.0, 0.0, 800.0, 600.0, 200, 150));
        assert_eq!(cut("0x100", 800, 600), (0.0, 0.0, 800.0, 600.0, 133, 100));
        assert_eq!(cut("1x0", 4000, 3), (0.0, 0.0, 4000.0, 3.0, 1, 1));
    }

    #[test]
    fn nothing_is_enlarged() {
        assert_eq!(cut("200x100", 100, 100), (0.0, 25.0, 100.0, 50.0, 100, 50));
        assert_eq!(cut("200x100", 300, 50), (100.0, 0.0, 100.0, 50.0, 100, 50));
        assert_eq!(cut("200x100f", 20, 10), (0.0, 0.0, 20.0, 10.0, 20, 10));
        assert_eq!(cut("200x0", 150, 3000), (0.0, 0.0, 150.0, 3000.0, 150, 3000));
        assert_eq!(cut("4096x4096", 1, 1), (0.0, 0.0, 1.0, 1.0, 1, 1));
    }

    #[test]
    fn what_is_no_size_is_refused_and_what_is_one_is_printed_as_it_was() {
        let pattern = regex::Regex::new(Spec::PATTERN).unwrap();
        for spec in ["200x100", "200x100t", "200x100b", "200x100f", "200x0", "0x100", "4096x4096", "1x1", "4000x999"] {
            assert_eq!(spec.parse::<Spec>().unwrap().to_string(), spec);
            assert!(pattern.is_match(spec), "{spec}");
        }
        for spec in [
            "", "x", "200", "200x", "x100", "0x0", "0x0f", "200x0f", "0x100t", "4097x1", "1x4097", "-1x1", "+1x1",
            "01x1", "1x1 ", "1x1g", "1X1", "1x1x1", "65536x1", "1x1ff", "１x1", "é",
        ] {
            assert!(spec.parse::<Spec>().is_err() && !pattern.is_match(spec), "{spec}");
        }
    }
}
