//! The similarity of a thumbnail to an exact average of the pixels of its picture: SSIM of lightness, over windows of 8 x 8.

use std::path::Path;

use image::{DynamicImage, ImageReader};

/// Values from 0 to 255 by row.
struct Gray {
    width: usize,
    height: usize,
    values: Vec<f64>,
}

impl Gray {
    /// Transparent pixels are seen on white.
    fn of(picture: &DynamicImage) -> Self {
        let rgba = picture.to_rgba8();
        let light = |pixel: &image::Rgba<u8>| {
            let [red, green, blue, alpha] = pixel.0.map(f64::from);
            (0.299 * red + 0.587 * green + 0.114 * blue) * alpha / 255.0 + 255.0 - alpha
        };
        Self {
            width: rgba.width() as usize,
            height: rgba.height() as usize,
            values: rgba.pixels().map(light).collect(),
        }
    }

    /// The middle of it in another shape, each value the average of the area that it stands for.
    fn averaged(&self, width: usize, height: usize) -> Self {
        let scale = (self.width as f64 / width as f64).min(self.height as f64 / height as f64);
        let left = (self.width as f64 - scale * width as f64) / 2.0;
        let top = (self.height as f64 - scale * height as f64) / 2.0;
        let average = |x: usize, y: usize| {
            let (x, y) = (left + scale * x as f64, top + scale * y as f64);
            let (mut sum, mut area) = (0.0, 0.0);
            for row in y as usize..((y + scale).ceil() as usize).min(self.height) {
                for column in x as usize..((x + scale).ceil() as usize).min(self.width) {
                    let part = |low: f64, at: usize| (low + scale).min(at as f64 + 1.0) - low.max(at as f64);
                    let of_area = part(x, column) * part(y, row);
                    sum += of_area * self.values[row * self.width + column];
                    area += of_area;
                }
            }
            sum / area
        };
        let values = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| average(x, y));
        Self { width, height, values: values.collect() }
    }

    fn window(&self, left: usize, top: usize) -> impl Iterator<Item = f64> {
        (top..top + WINDOW).flat_map(move |y| (left..left + WINDOW).map(move |x| self.values[y * self.width + x]))
    }
}

const WINDOW: usize = 8;

/// The mean of the SSIM of all windows, from -1 to 1.
pub fn similarity(picture: &Path, thumbnail: &Path) -> f64 {
    let [picture, made] = [picture, thumbnail].map(|path| {
        let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format).expect("it was written");
        Gray::of(&reader.decode().expect("a picture"))
    });
    let exact = picture.averaged(made.width, made.height);
    let (mut sum, mut number) = (0.0, 0.0);
    for top in (0..=made.height - WINDOW).step_by(WINDOW / 2) {
        for left in (0..=made.width - WINDOW).step_by(WINDOW / 2) {
            sum += of_window(&exact, &made, left, top);
            number += 1.0;
        }
    }
    sum / number
}

fn of_window(one: &Gray, other: &Gray, left: usize, top: usize) -> f64 {
    const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
    const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);
    let number = (WINDOW * WINDOW) as f64;
    let mean = |gray: &Gray| gray.window(left, top).sum::<f64>() / number;
    let (m1, m2) = (mean(one), mean(other));
    let pairs = one.window(left, top).zip(other.window(left, top));
    let (v1, v2, both) = pairs.fold((0.0, 0.0, 0.0), |(v1, v2, both), (a, b)| {
        (v1 + (a - m1) * (a - m1), v2 + (b - m2) * (b - m2), both + (a - m1) * (b - m2))
    });
    let (v1, v2, both) = (v1 / number, v2 / number, both / number);
    (2.0 * m1 * m2 + C1) * (2.0 * both + C2) / ((m1 * m1 + m2 * m2 + C1) * (v1 + v2 + C2))
}
