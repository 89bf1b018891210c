//! What of a picture is shown, and in what size, when a thumbnail is asked for.

use crate::schema::{ThumbMode, ThumbSize};

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

impl Cut {
    /// Returns the part of a picture of a size, not 0, that is shown as asked for. Nothing is enlarged.
    pub(super) fn of(asked: ThumbSize, width: u32, height: u32) -> Self {
        let (whole_width, whole_height) = (f64::from(width), f64::from(height));
        let scales = [(asked.width, whole_width), (asked.height, whole_height)].map(|(to, from)| f64::from(to) / from);
        let scale = match (asked.width, asked.height, asked.mode) {
            (0, _, _) => scales[1],
            (_, 0, _) => scales[0],
            (.., ThumbMode::Fit) => scales[0].min(scales[1]),
            _ => scales[0].max(scales[1]),
        };
        if asked.width == 0 || asked.height == 0 || asked.mode == ThumbMode::Fit {
            let scale = scale.min(1.0);
            let (to_width, to_height) = (side(whole_width * scale, width), side(whole_height * scale, height));
            return Self { left: 0.0, top: 0.0, width: whole_width, height: whole_height, to_width, to_height };
        }
        // Where the picture is smaller than the box, the box shrinks.
        let shrink = scale.max(1.0);
        let to_width = side(f64::from(asked.width) / shrink, width);
        let to_height = side(f64::from(asked.height) / shrink, height);
        let (cut_width, cut_height) = match scale > 1.0 {
            true => (f64::from(to_width), f64::from(to_height)),
            false => (f64::from(asked.width) / scale, f64::from(asked.height) / scale),
        };
        let (cut_width, cut_height) = (cut_width.min(whole_width), cut_height.min(whole_height));
        let surplus = whole_height - cut_height;
        let top = match asked.mode {
            ThumbMode::FillFromTop => 0.0,
            ThumbMode::FillFromBottom => surplus,
            ThumbMode::Fill | ThumbMode::Fit => surplus / 2.0,
        };
        // What is not made smaller is not moved by a part of a pixel either.
        let place = |from: f64| if scale >= 1.0 { from.floor() } else { from };
        let left = place((whole_width - cut_width) / 2.0);
        Self { left, top: place(top), width: cut_width, height: cut_height, to_width, to_height }
    }
}

/// The nearest whole number of pixels, at least 1 and at most those that there are.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32")]
fn side(exact: f64, at_most: u32) -> u32 {
    exact.round().clamp(1.0, f64::from(at_most)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(size: &str, width: u32, height: u32) -> (f64, f64, f64, f64, u32, u32) {
        let cut = Cut::of(size.parse().unwrap(), width, height);
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
}
