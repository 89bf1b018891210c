//! Thumbnails against a slow exact reference, files that are cut or damaged, and files that claim what they do not have.

use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::*;
use crate::pictures::orientation::tests::exif;

mod damaged;
mod hostile;

/// What no encoder in Rust writes: lossy WebP, and an animated one. 160 x 90, smooth.
const LOSSY: &[u8] = include_bytes!("tests/lossy.webp");
const LOSSY_ALPHA: &[u8] = include_bytes!("tests/lossy-alpha.webp");
const ANIMATED: &[u8] = include_bytes!("tests/animated.webp");

/// A picture in memory: 8 bits a channel.
#[derive(Clone, Debug)]
struct Plain {
    width: usize,
    height: usize,
    channels: usize,
    values: Vec<u8>,
}

impl Plain {
    /// A smooth one: what resampling filters agree on.
    fn smooth(width: usize, height: usize, channels: usize) -> Self {
        let value = |x: usize, y: usize, channel: usize| {
            let (x, y) = (x as f64 / width as f64, y as f64 / height as f64);
            let phase = channel as f64 * 1.3;
            let wave = 0.58 * (x * 2.5 + phase).sin() + 0.42 * (y * 2.0 - phase).cos();
            // What is hardly to be seen has hardly a colour.
            if channels.is_multiple_of(2) && channel == channels - 1 {
                (180.0 + 60.0 * wave) as u8
            } else {
                (127.5 + 120.0 * wave) as u8
            }
        };
        let all = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| (0..channels).map(move |channel| value(x, y, channel))));
        Self { width, height, channels, values: all.collect() }
    }

    fn at(&self, x: usize, y: usize) -> &[u8] {
        let at = (y * self.width + x) * self.channels;
        &self.values[at..at + self.channels]
    }

    fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    fn png(&self) -> Vec<u8> {
        self.png_with(|_| {})
    }

    fn png_with(&self, set: impl FnOnce(&mut ::png::Info<'_>)) -> Vec<u8> {
        let mut info = ::png::Info::with_size(self.width as u32, self.height as u32);
        info.bit_depth = ::png::BitDepth::Eight;
        info.color_type = match self.channels {
            1 => ::png::ColorType::Grayscale,
            2 => ::png::ColorType::GrayscaleAlpha,
            3 => ::png::ColorType::Rgb,
            _ => ::png::ColorType::Rgba,
        };
        set(&mut info);
        let mut file = Vec::new();
        let mut writer = ::png::Encoder::with_info(&mut file, info).unwrap().write_header().unwrap();
        writer.write_image_data(&self.values).unwrap();
        writer.finish().unwrap();
        file
    }

    fn jpeg(&self, set: impl FnOnce(&mut jpeg_encoder::Encoder<&mut Vec<u8>>)) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut file, 98);
        set(&mut encoder);
        let colours = match self.channels {
            1 => jpeg_encoder::ColorType::Luma,
            3 => jpeg_encoder::ColorType::Rgb,
            _ => jpeg_encoder::ColorType::Cmyk,
        };
        encoder.encode(&self.values, self.width as u16, self.height as u16, colours).unwrap();
        file
    }

    fn webp(&self, set: impl FnOnce(&mut image_webp::WebPEncoder<&mut Vec<u8>>)) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = image_webp::WebPEncoder::new(&mut file);
        set(&mut encoder);
        let colours = match self.channels {
            1 => image_webp::ColorType::L8,
            2 => image_webp::ColorType::La8,
            3 => image_webp::ColorType::Rgb8,
            _ => image_webp::ColorType::Rgba8,
        };
        encoder.encode(&self.values, self.width as u32, self.height as u32, colours).unwrap();
        file
    }

    /// A GIF of two frames, with the colours of [`posterised`](Self::posterised).
    fn gif(&self) -> Vec<u8> {
        let palette: Vec<u8> = (0..216_usize)
            .flat_map(|at| [at / 36 * 51, at / 6 % 6 * 51, at % 6 * 51].map(|level| level as u8))
            .collect();
        let mut file = Vec::new();
        let (width, height) = (self.width as u16, self.height as u16);
        let mut encoder = ::gif::Encoder::new(&mut file, width, height, &palette).unwrap();
        let level = |value: u8| (u16::from(value) + 25) / 51;
        let indexes: Vec<_> = self
            .values
            .chunks_exact(3)
            .map(|pixel| (level(pixel[0]) * 36 + level(pixel[1]) * 6 + level(pixel[2])) as u8)
            .collect();
        encoder.write_frame(&::gif::Frame::from_indexed_pixels(width, height, indexes, None)).unwrap();
        encoder.write_frame(&::gif::Frame::from_indexed_pixels(1, 1, vec![7], None)).unwrap();
        drop(encoder);
        file
    }

    /// Each channel in six levels.
    fn posterised(&self) -> Self {
        let values = self.values.iter().map(|value| ((u16::from(*value) + 25) / 51 * 51) as u8);
        Self { values: values.collect(), ..*self }
    }

    /// A PNG whose rows come in seven passes.
    fn interlaced(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        for (left, top, across, down) in
            [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        {
            for y in (top..self.height).step_by(down).filter(|_| left < self.width) {
                rows.push(0);
                (left..self.width).step_by(across).for_each(|x| rows.extend(self.at(x, y)));
            }
        }
        let mut head = [self.width as u32, self.height as u32].map(u32::to_be_bytes).concat();
        head.extend([8, [0, 4, 2, 6][self.channels - 1], 0, 0, 1]);
        let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        stream.write_all(&rows).unwrap();
        let mut file = png::SIGNATURE.to_vec();
        for (kind, data) in [(b"IHDR", head), (b"IDAT", stream.finish().unwrap()), (b"IEND", Vec::new())] {
            file.extend(chunk(kind, &data));
        }
        file
    }

    /// A file of each kind that has such channels.
    fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut files = vec![("png", self.png()), ("png, interlaced", self.interlaced()), ("webp", self.webp(|_| {}))];
        match self.channels {
            2 => {}
            4 => files.push(("jpeg of inks", self.jpeg(|_| {}))),
            _ => {
                files.push(("jpeg", self.jpeg(|_| {})));
                files.push(("jpeg, progressive", self.jpeg(|encoder| encoder.set_progressive(true))));
                files.push(("jpeg with restarts", self.jpeg(|encoder| encoder.set_restart_interval(3))));
                files.push((
                    "jpeg with halved chroma",
                    self.jpeg(|encoder| encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2)),
                ));
            }
        }
        if self.channels == 3 {
            files.push(("gif", self.gif()));
        }
        files
    }

    /// What inks let through.
    fn lit(&self) -> Self {
        let light =
            |inks: &[u8]| [0, 1, 2].map(|ink| ((255 - u32::from(inks[ink])) * (255 - u32::from(inks[3])) / 255) as u8);
        Self { channels: 3, values: self.values.chunks_exact(4).flat_map(light).collect(), ..*self }
    }

    /// Gray in three channels.
    fn coloured(&self) -> Self {
        let pixels = self.values.chunks_exact(self.channels);
        let values = pixels.flat_map(|pixel| [&[pixel[0]; 3], &pixel[1..]].concat());
        Self { channels: self.channels + 2, values: values.collect(), ..*self }
    }

    /// What a thumbnail is: the exact average of the box of each of its pixels, weighted by alpha. `turned`: what is shown.
    fn exact(&self, cut: &Cut) -> Vec<f64> {
        let mut exact = Vec::new();
        for y in 0..cut.to_height {
            for x in 0..cut.to_width {
                let side = |from: f64, length: f64, number: u32, of: u32| {
                    let step = length / f64::from(of);
                    (from + step * f64::from(number), from + step * f64::from(number + 1))
                };
                let ((left, right), (top, bottom)) =
                    (side(cut.left, cut.width, x, cut.to_width), side(cut.top, cut.height, y, cut.to_height));
                let mut sums = vec![0.0; self.channels];
                let (mut area, mut weight) = (0.0, 0.0);
                for row in top as usize..(bottom.ceil() as usize).min(self.height) {
                    for column in left as usize..(right.ceil() as usize).min(self.width) {
                        let part = |low: f64, high: f64, at: usize| high.min(at as f64 + 1.0) - low.max(at as f64);
                        let of_area = part(left, right, column) * part(top, bottom, row);
                        let pixel = self.at(column, row);
                        let alpha = if self.has_alpha() { f64::from(pixel[self.channels - 1]) / 255.0 } else { 1.0 };
                        area += of_area;
                        weight += of_area * alpha;
                        let colours = if self.has_alpha() { self.channels - 1 } else { self.channels };
                        (0..colours).for_each(|channel| sums[channel] += f64::from(pixel[channel]) * of_area * alpha);
                    }
                }
                let colours = if self.has_alpha() { self.channels - 1 } else { self.channels };
                sums[..colours].iter_mut().for_each(|sum| *sum /= if weight > 0.0 { weight } else { 1.0 });
                if self.has_alpha() {
                    sums[colours] = weight / area * 255.0;
                }
                exact.extend(sums);
            }
        }
        exact
    }

    /// What is shown of it, turned pixel by pixel.
    fn turned(&self, number: u16) -> Self {
        let (width, height, values) =
            Orientation::numbered(number).turn((self.width, self.height), self.channels, self.values.clone());
        Self { width, height, values, ..*self }
    }
}

/// A chunk of a PNG.
fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = flate2::Crc::new();
    sum.update(kind);
    sum.update(data);
    [&(data.len() as u32).to_be_bytes()[..], kind, data, &sum.sum().to_be_bytes()].concat()
}

/// The pixels of a file: by decoders of tests' own choice.
fn pixels(thumbnail: &Thumbnail) -> Plain {
    match thumbnail.media_type {
        "image/png" => {
            let mut reader = ::png::Decoder::new(Cursor::new(&thumbnail.bytes[..])).read_info().unwrap();
            let mut values = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut values).unwrap();
            assert_eq!(info.bit_depth, ::png::BitDepth::Eight);
            Plain {
                width: info.width as usize,
                height: info.height as usize,
                channels: info.color_type.samples(),
                values,
            }
        }
        "image/jpeg" => {
            let mut decoder = jpeg_decoder::Decoder::new(&thumbnail.bytes[..]);
            let values = decoder.decode().unwrap();
            let info = decoder.info().unwrap();
            Plain {
                width: info.width.into(),
                height: info.height.into(),
                channels: info.pixel_format.pixel_bytes(),
                values,
            }
        }
        other => panic!("{other}"),
    }
}

fn thumbnail(file: &[u8], spec: &str) -> Result<Thumbnail, Fault> {
    Picture::open(file)?.thumbnail(&spec.parse().unwrap())
}

/// The greatest difference of the pixels of a thumbnail to the exact ones.
fn difference(file: &[u8], shown: &Plain, spec: &str) -> f64 {
    let spec = spec.parse::<ThumbSize>().unwrap();
    let made = Picture::open(file).unwrap().shown(&spec).unwrap();
    let cut = Cut::of(spec, shown.width as u32, shown.height as u32);
    assert_eq!((made.width, made.height), (cut.to_width as usize, cut.to_height as usize), "{spec}");
    assert_eq!(made.channels.number(), shown.channels);
    let differences =
        shown.exact(&cut).into_iter().zip(&made.values).map(|(exact, made)| (exact - f64::from(*made)).abs());
    differences.fold(0.0, f64::max)
}

const SPECS: [&str; 8] = ["40x40", "40x20t", "20x40b", "33x21", "64x64f", "50x0", "0x31", "7x7"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn thumbnails_are_within_4_of_the_exact_ones(
        width in 40_usize..300, height in 40_usize..300, channels in 1_usize..=4, spec in 0..SPECS.len(),
    ) {
        let plain = Plain::smooth(width, height, channels);
        let difference = difference(&plain.png(), &plain, SPECS[spec]);
        prop_assert!(difference <= 4.0, "{difference}");
    }
}

#[test]
fn each_orientation_is_applied_before_sizes_are_computed() {
    let plain = Plain::smooth(160, 90, 3);
    for number in 1..=8 {
        let exif = exif(number, number % 2 == 0);
        let shown = plain.turned(number);
        let png = plain.png_with(|info| info.exif_metadata = Some(exif.clone().into()));
        let webp = plain.webp(|encoder| encoder.set_exif_metadata(exif.clone()));
        let jpeg = plain.jpeg(|encoder| encoder.add_exif_metadata(&exif).unwrap());
        for spec in ["40x40t", "40x20", "30x0", "20x40b"] {
            assert!(difference(&png, &shown, spec) <= 3.0, "png {number} {spec}");
            assert!(difference(&webp, &shown, spec) <= 3.0, "webp {number} {spec}");
            assert!(difference(&jpeg, &shown, spec) <= 6.0, "jpeg {number} {spec}");
        }
    }
}

#[test]
fn all_kinds_of_each_format_are_read() {
    for channels in 1..=4 {
        let plain = Plain::smooth(160, 90, channels);
        for (kind, file) in plain.files() {
            let (shown, allowed) = match kind {
                "jpeg of inks" => (plain.lit(), 6.0),
                kind if kind.starts_with("jpeg") => (plain.clone(), 6.0),
                "gif" => (plain.posterised(), 3.0),
                "webp" if channels < 3 => (plain.coloured(), 3.0),
                _ => (plain.clone(), 3.0),
            };
            // What has few colours is not smooth.
            let difference = difference(&file, &shown, if kind == "gif" { "160x90" } else { "40x20" });
            assert!(difference <= allowed, "{kind} of {channels} channels: {difference}");
        }
    }
    let plain = Plain::smooth(160, 90, 3);
    assert!(difference(LOSSY, &plain, "40x20") <= 12.0);
    assert!(difference(LOSSY_ALPHA, &Plain::smooth(160, 90, 4), "40x20") <= 25.0);
    assert!(difference(ANIMATED, &plain, "40x20") <= 3.0, "of an animation the first frame");
}

/// Bits of a depth, as PNG has them: 16 are cut to 8, fewer are spread.
#[test]
fn png_of_all_depths_are_read() {
    for depth in [1, 2, 4, 16] {
        let plain = Plain::smooth(160, 90, 1);
        let most = if depth < 8 { (1 << depth) - 1 } else { 255 };
        let spread = |value: u8| (u32::from(value) * most + 127) / 255 * 255 / most;
        let shown = Plain { values: plain.values.iter().map(|value| spread(*value) as u8).collect(), ..plain.clone() };
        let row = |row: &[u8]| match depth {
            16 => row.iter().flat_map(|value| [*value, 77]).collect(),
            _ => row
                .chunks(8 / depth)
                .map(|cell| {
                    cell.iter().fold(0, |all, value| (all << depth) | ((u32::from(*value) * most + 127) / 255)) as u8
                })
                .collect::<Vec<_>>(),
        };
        let bits: Vec<u8> = plain.values.chunks(plain.width).flat_map(row).collect();
        let mut file = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut file, 160, 90);
        encoder.set_depth(::png::BitDepth::from_u8(depth as u8).unwrap());
        encoder.write_header().unwrap().write_image_data(&bits).unwrap();
        assert_eq!(pixels(&thumbnail(&file, "160x90").unwrap()).values, shown.values, "{depth} bits");
    }
}

#[test]
fn what_is_transparent_does_not_colour_an_edge() {
    // Every other column is red that is not to be seen; the others are blue.
    let pixel = |at: usize| if at.is_multiple_of(2) { [255, 0, 0, 0] } else { [0, 0, 255, 255] };
    let plain = Plain { width: 64, height: 64, channels: 4, values: (0..64 * 64).flat_map(pixel).collect() };
    let mut gif = Vec::new();
    let mut encoder = ::gif::Encoder::new(&mut gif, 64, 64, &[255, 0, 0, 0, 0, 255]).unwrap();
    let indexes: Vec<u8> = (0..64 * 64).map(|at| u8::from(at % 2 == 1)).collect();
    let frame = ::gif::Frame { transparent: Some(0), ..::gif::Frame::from_indexed_pixels(64, 64, indexes, None) };
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    for (format, file) in [("png", plain.png()), ("webp", plain.webp(|_| {})), ("gif", gif)] {
        for spec in ["16x16", "32x32", "9x9"] {
            let made = pixels(&thumbnail(&file, spec).unwrap());
            for pixel in made.values.chunks_exact(4).filter(|pixel| pixel[3] > 0) {
                assert!(pixel[..3] == [0, 0, 255], "{format} {spec}: {pixel:?}");
            }
            let alphas = made.values.chunks_exact(4).map(|pixel| i32::from(pixel[3]));
            assert!(spec != "16x16" || alphas.clone().all(|alpha| (alpha - 128).abs() <= 1), "{format} {spec}");
            assert!(alphas.clone().all(|alpha| (100..156).contains(&alpha)), "{format} {spec}");
        }
    }
    // Gray, with and without alpha in the file.
    let pixel = |at: usize| if at.is_multiple_of(2) { [255, 0] } else { [64, 255] };
    let plain = Plain { channels: 2, values: (0..64 * 64).flat_map(pixel).collect(), ..plain };
    let made = pixels(&thumbnail(&plain.png(), "16x16").unwrap());
    assert!(made.values.chunks_exact(2).all(|pixel| pixel == [64, 128]), "{:?}", &made.values[..8]);
}

#[test]
fn nothing_is_enlarged_and_what_keeps_its_size_keeps_its_values() {
    for channels in 1..=4 {
        let plain = Plain::smooth(61, 47, channels);
        for spec in ["61x47", "400x0", "4096x4096f"] {
            let made = pixels(&thumbnail(&plain.png(), spec).unwrap());
            assert_eq!((made.width, made.height), (61, 47));
            let furthest = made.values.iter().zip(&plain.values).map(|(made, was)| made.abs_diff(*was)).max();
            // What has alpha was multiplied by it and divided.
            assert!(furthest <= Some(u8::from(plain.has_alpha())), "{spec} {channels}: {furthest:?}");
        }
        let made = pixels(&thumbnail(&plain.png(), "200x100").unwrap());
        assert_eq!((made.width, made.height), (61, 31), "the box shrinks with its shape kept");
    }
}

#[test]
fn profiles_are_kept_and_all_else_is_dropped() {
    let place = exif(1, true);
    for length in [1, 3000, 70_000, PROFILE_BYTES, PROFILE_BYTES + 1] {
        let plain = Plain::smooth(64, 48, 3);
        let profile: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let png = plain.png_with(|info| {
            (info.icc_profile, info.exif_metadata) = (Some(profile.clone().into()), Some(place.clone().into()));
        });
        let jpeg = plain.jpeg(|encoder| {
            encoder.add_exif_metadata(&place).unwrap();
            encoder.add_icc_profile(&profile).unwrap();
        });
        let webp = plain.webp(|encoder| {
            encoder.set_icc_profile(profile.clone());
            encoder.set_exif_metadata(place.clone());
            encoder.set_xmp_metadata(b"Exif by another name".to_vec());
        });
        for (format, file) in [("png", &png), ("jpeg", &jpeg), ("webp", &webp)] {
            let made = thumbnail(file, "20x20").unwrap();
            let (head, _) = head_of(&made.bytes);
            let kept = (length <= PROFILE_BYTES).then_some(&profile);
            assert_eq!(head.profile.as_ref().map(Vec::len), kept.map(Vec::len), "{format} {length}");
            assert_eq!(head.profile.as_ref(), kept, "{format} {length}");
            let has = |text: &[u8]| memchr::memmem::find(&made.bytes, text).is_some();
            assert!(!has(b"Exif") && !has(b"eXIf") && !has(&place), "{format}");
        }
    }
    // That of inks is none of what they become.
    let inks = Plain::smooth(64, 48, 4).jpeg(|encoder| encoder.add_icc_profile(b"of inks").unwrap());
    assert_eq!(head_of(&thumbnail(&inks, "20x20").unwrap().bytes).0.profile, None);
}

fn head_of(file: &[u8]) -> (Head, &'static str) {
    let Picture { head, format, .. } = Picture::open(file).unwrap();
    (head, if matches!(format, Format::Jpeg(_)) { "jpeg" } else { "png" })
}

#[test]
fn thin_pictures_are_made_smaller() {
    for (width, height) in [(1, 1), (2, 1), (1, 2000), (2000, 1), (3, 1500), (1500, 7), (9, 9)] {
        for channels in [1, 3, 4] {
            let plain = Plain::smooth(width, height, channels);
            for ((kind, file), spec) in plain.files().iter().flat_map(|file| SPECS.map(|spec| (file, spec))) {
                let made = pixels(
                    &thumbnail(file, spec)
                        .unwrap_or_else(|fault| panic!("{kind}, {width} x {height} to {spec}: {fault:?}")),
                );
                let cut = Cut::of(spec.parse().unwrap(), width as u32, height as u32);
                assert_eq!(
                    (made.width, made.height),
                    (cut.to_width as usize, cut.to_height as usize),
                    "{kind}, {width} x {height} to {spec}"
                );
            }
        }
    }
}

#[test]
fn a_pixel_is_the_average_of_any_number() {
    for channels in 1..=4 {
        let plain = Plain { width: 200_000, height: 1, channels, values: vec![255; 200_000 * channels] };
        let made = pixels(&thumbnail(&plain.png(), "1x0").unwrap());
        assert!(made.values.iter().all(|value| *value == 255), "{:?}", made.values);
    }
}

#[test]
fn what_follows_the_pixels_of_a_png_does_not_matter_and_of_profiles_the_first_is_kept() {
    let plain = Plain::smooth(40, 30, 3);
    let first = plain.png_with(|info| info.icc_profile = Some(vec![7; 500].into()));
    let second = plain.png_with(|info| info.icc_profile = Some(vec![8; 500].into()));
    let part = |file: &[u8], from: &[u8], to: &[u8]| {
        let at = |kind: &[u8]| memchr::memmem::find(file, kind).unwrap() - 4;
        file[at(from)..at(to)].to_vec()
    };
    let with = |before: &[u8], behind: &[u8]| {
        let (idat, end) = (part(&first, b"IDAT", b"IEND"), &first[first.len() - 12..]);
        [&first[..8 + 25], &part(&first, b"iCCP", b"IDAT"), before, &idat, behind, end].concat()
    };
    let transparent = chunk(b"tRNS", &[0, 1, 0, 2, 0, 3]);
    let plainly = thumbnail(&first, "20x15").unwrap().bytes;
    assert_eq!(thumbnail(&with(&part(&second, b"iCCP", b"IDAT"), &[]), "20x15").unwrap().bytes, plainly);
    assert_eq!(thumbnail(&with(&[], &transparent), "20x15").unwrap().bytes, plainly);
    assert_ne!(thumbnail(&with(&transparent, &[]), "20x15").unwrap().bytes, plainly);
}

#[test]
fn what_is_written_has_the_pixels() {
    for channels in 1..=4 {
        for (kind, file) in Plain::smooth(160, 90, channels).files() {
            let spec: ThumbSize = "80x45".parse().unwrap();
            let picture = Picture::open(&file).unwrap();
            let (shown, written) = (picture.shown(&spec).unwrap(), pixels(&picture.thumbnail(&spec).unwrap()));
            assert_eq!(
                (written.width, written.height, written.channels),
                (shown.width, shown.height, shown.channels.number())
            );
            let furthest =
                written.values.iter().zip(&shown.values).map(|(written, shown)| written.abs_diff(*shown)).max();
            assert!(
                furthest <= Some(if kind.starts_with("jpeg") { 16 } else { 0 }),
                "{kind} of {channels} channels: {furthest:?}"
            );
        }
    }
}

#[test]
fn what_was_jpeg_stays_jpeg_and_all_else_becomes_png() {
    let plain = Plain::smooth(64, 48, 3);
    for (kind, file) in plain.files() {
        let made = thumbnail(&file, "20x20").unwrap();
        let is_jpeg = kind.starts_with("jpeg");
        assert_eq!(made.media_type, if is_jpeg { "image/jpeg" } else { "image/png" }, "{kind}");
        assert_eq!(head_of(&made.bytes).1, if is_jpeg { "jpeg" } else { "png" }, "{kind}");
    }
}

#[test]
fn what_is_no_picture_is_refused() {
    for file in [
        &b""[..],
        b"\xff\xd8",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"BM\x46\0\0\0",
        b"II*\0\x08\0\0\0",
        b"GIF88a",
        b"RIFF\x04\0\0\0WAVE",
        b"\0\0\0\x1cftypavif",
        b"lorem ipsum",
    ] {
        assert_eq!(Picture::open(file).unwrap_err().kind, FaultKind::NotAPicture, "{file:?}");
    }
}
