//! Thumbnails of the pictures of the load tests: a file is read, made smaller and written, in CPU time.
//!
//! `thumbnail` has vipsthumbnail as its floor (Debian's `libvips-tools`; without it, its rows are left out): one thread, four copies of a picture
//! less one, so that its start does not count. Its files are held against ours before the clock starts: ours are at most 1.1 times as long,
//! and at most 0.0005 less similar (SSIM) to an exact average of the pixels. `rescale` has the way of the published test as its floor: the crate
//! `image` decodes all, resizes with a triangle, and writes PNG.

#[path = "pictures/similarity.rs"]
mod similarity;
#[path = "pictures/vips.rs"]
mod vips;

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat};
use rustix::time::{ClockId, clock_gettime};
use strata::pictures::Picture;
use strata_harness::{Depth, Facts, State, Suite, Unit, memory_directory, suite, temporary_directory};
use tempfile::TempDir;

/// A picture, and to what size it is made smaller.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    file: &'static str,
    size: u32,
    at_least: f64,
    aim: f64,
}

const LOGO: &str = "logo-2000.png";
const PHOTOGRAPH: &str = "photograph-12mp.jpg";
const PROGRESSIVE: &str = "photograph-12mp-progressive.jpg";

const CASES: [Case; 5] = [
    Case { name: "logo_to_200", file: LOGO, size: 200, at_least: 2.0, aim: 3.0 },
    Case { name: "logo_to_1000", file: LOGO, size: 1000, at_least: 2.0, aim: 2.8 },
    Case { name: "photograph_to_200", file: PHOTOGRAPH, size: 200, at_least: 0.9, aim: 1.1 },
    Case { name: "photograph_to_1000", file: PHOTOGRAPH, size: 1000, at_least: 1.5, aim: 2.0 },
    Case { name: "progressive_to_200", file: PROGRESSIVE, size: 200, at_least: 0.8, aim: 1.0 },
];

fn main() {
    suite("pictures", |suite| {
        let has_vips = vips::is_there();
        CASES.into_iter().for_each(|case| thumbnail(suite, case, has_vips));
        rescale(suite, "logo_to_200_and_1000", LOGO, &[200, 1000], (1.2, 1.5));
        rescale(suite, "photograph_to_200", PHOTOGRAPH, &[200], (2.5, 3.0));
    });
}

/// A folder in memory with pictures and what is made of them.
struct Pictures {
    folder: TempDir,
    file: PathBuf,
}

impl Pictures {
    fn new(file: &'static str) -> Self {
        let folder = memory_directory().unwrap_or_else(temporary_directory);
        let path = folder.path().join(file);
        fs::write(&path, bytes_of(file)).expect("the folder takes files");
        Self { folder, file: path }
    }

    /// Reads the picture, makes it smaller and writes what comes of it.
    fn make(&self, size: u32) -> PathBuf {
        let file = fs::read(&self.file).expect("it was written");
        let spec = format!("{size}x{size}").parse().expect("a size");
        let made = Picture::open(&file).and_then(|picture| picture.thumbnail(&spec)).expect("a picture");
        let path = self.folder.path().join("ours");
        fs::write(&path, made.bytes).expect("the folder takes files");
        path
    }
}

impl State for Pictures {
    fn cpu(&self) -> Option<Duration> {
        let read = clock_gettime(ClockId::ProcessCPUTime);
        Some(Duration::new(read.tv_sec as u64, read.tv_nsec as u32))
    }
}

fn in_scenarios(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("load/scenarios").join(file)
}

/// A picture of the load tests; the progressive one is made of the other one.
fn bytes_of(file: &str) -> Vec<u8> {
    let read = |file| fs::read(in_scenarios(file)).expect("it is in the repository");
    if file != PROGRESSIVE {
        return read(file);
    }
    let decoded =
        image::load_from_memory_with_format(&read(PHOTOGRAPH), ImageFormat::Jpeg).expect("a JPEG").into_rgb8();
    let mut progressive = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut progressive, 75);
    encoder.set_progressive(true);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    let (width, height) = (decoded.width() as u16, decoded.height() as u16);
    encoder.encode(decoded.as_raw(), width, height, jpeg_encoder::ColorType::Rgb).expect("into memory");
    progressive
}

fn facts(op: String, file: &str) -> Facts {
    let data = match file {
        PROGRESSIVE => format!("{PHOTOGRAPH}, written progressively"),
        file => format!("{file}, {} bytes", fs::metadata(in_scenarios(file)).expect("it is in the repository").len()),
    };
    Facts::new(op)
        .data(data)
        .state(if memory_directory().is_some() {
            "files on a memory file system"
        } else {
            "files on disk, cached by the system"
        })
        .cpu_clock()
        .depth(Depth::Full)
}

fn thumbnail(suite: &mut Suite, case: Case, has_vips: bool) {
    let Case { name, file, size, at_least, aim } = case;
    let counted = vips::COUNTED;
    let about = facts(format!("reads a picture, makes it {size} x {size} and writes it, {counted} times"), file);
    let about = about.unit(Unit::Elements, counted);
    let about = if has_vips { about.floor("vipsthumbnail", at_least, aim) } else { about };
    suite.row(
        "thumbnail",
        "strata",
        name,
        about,
        || Pictures::new(file),
        move |pictures: Arc<Pictures>| move |_| (0..counted).filter(|_| pictures.make(size).exists()).count() as u64,
    );
    if !has_vips {
        eprintln!("pictures/thumbnail/vipsthumbnail is left out: apt-get install libvips-tools");
        return;
    }
    let about = facts(
        format!("reads {counted} copies, makes them {size} x {size} and writes them, less one more: vipsthumbnail"),
        file,
    );
    let setup = || vips::Vips::beside(Pictures::new(file), size);
    suite.row(
        "thumbnail",
        "vipsthumbnail",
        name,
        about.unit(Unit::Elements, counted),
        setup,
        |vips: Arc<vips::Vips>| move |_| vips.make(),
    );
}

/// The published way, and ours to the same sizes.
fn rescale(suite: &mut Suite, name: &str, file: &'static str, sizes: &'static [u32], (at_least, aim): (f64, f64)) {
    let number = sizes.len() as u64;
    // A photograph takes too long for a default run, as pictures of vipsthumbnail do.
    let depth = if file == LOGO { Depth::Default } else { Depth::Full };
    let about = facts(format!("reads a picture, makes it smaller and writes it, to each of {number} sizes"), file);
    let about = about.unit(Unit::Elements, number).floor("image", at_least, aim).depth(depth);
    suite.row(
        "rescale",
        "strata",
        name,
        about,
        || Pictures::new(file),
        move |pictures: Arc<Pictures>| {
            move |_| sizes.iter().filter(|size| pictures.make(**size).exists()).count() as u64
        },
    );
    let about = facts(
        format!("decodes a picture as a whole, resizes it with a triangle and writes PNG, to each of {number} sizes"),
        file,
    );
    suite.row(
        "rescale",
        "image",
        name,
        about.unit(Unit::Elements, number).depth(depth),
        || Pictures::new(file),
        move |pictures: Arc<Pictures>| move |_| sizes.iter().filter(|size| published(&pictures, **size)).count() as u64,
    );
}

fn published(pictures: &Pictures, size: u32) -> bool {
    let file = fs::read(&pictures.file).expect("it was written");
    let decoded: DynamicImage = image::load_from_memory(&file).expect("a picture");
    let mut made = Vec::new();
    let resized = decoded.resize_exact(size, size, FilterType::Triangle);
    resized.write_to(&mut Cursor::new(&mut made), ImageFormat::Png).expect("into memory");
    fs::write(pictures.folder.path().join("published"), &made).expect("the folder takes files");
    !made.is_empty()
}
