//! Files that are made to be expensive, and files that are changed at random: what each takes is within what is reserved for it.
//!
//! What all threads allocate is counted, so both are in a process of their own, in which nothing else runs. `STRATA_FUZZ_CASES` sets the
//! number of files that are changed.

use std::io::Write;
use std::process::Command;

use flate2::{Compression, write::ZlibEncoder};
use peak_alloc::PeakAlloc;

use super::*;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Bytes that stand for the error of what is refused, and of a thread.
const ERRORS: usize = 64 << 10;

/// Runs an ignored test of this module in a process of its own.
fn alone(name: &str) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::{name}");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([&test, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Makes a thumbnail as the server does: the head, the number of pixels, what is reserved, and then the pixels.
///
/// # Panics
/// If that takes more than is reserved.
fn bounded(file: &[u8], spec: &str, most_pixels: u64, most_bytes: u64) -> Result<Thumbnail, Fault> {
    let before = ALLOCATED.current_usage();
    let taken = || ALLOCATED.peak_usage().saturating_sub(before);
    ALLOCATED.reset_peak_usage();
    let spec: ThumbSize = spec.parse().unwrap();
    let picture = Picture::open(file);
    assert!(taken() <= 2 * PROFILE_BYTES + ERRORS, "the head takes {} bytes", taken());
    let picture = picture?;
    if picture.pixels() > most_pixels {
        return Err(Fault::too_large("pixels"));
    }
    let needed = picture.needed_bytes(&spec);
    assert!(taken() <= 2 * PROFILE_BYTES + ERRORS, "the head and its codes take {} bytes", taken());
    let needed = needed?;
    if needed > most_bytes {
        return Err(Fault::too_large("bytes"));
    }
    ALLOCATED.reset_peak_usage();
    let made = picture.thumbnail(&spec);
    let taken = taken();
    assert!(
        taken <= needed as usize + ERRORS,
        "it takes {taken} bytes, and {needed} are reserved: {:?}",
        made.map(drop)
    );
    made
}

fn zlib(data: &[u8], times: usize) -> Vec<u8> {
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::best());
    (0..times).for_each(|_| stream.write_all(data).unwrap());
    stream.finish().unwrap()
}

/// A PNG with chunks between its head and its pixels.
fn png(width: u32, height: u32, (depth, colours, interlacing): (u8, u8, u8), between: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut head = [width, height].map(u32::to_be_bytes).concat();
    head.extend([depth, colours, 0, 0, interlacing]);
    [png::SIGNATURE, &chunk(b"IHDR", &head), between, &chunk(b"IDAT", rows), &chunk(b"IEND", &[])].concat()
}

/// A JPEG with the head of one of `width` x `height`, and the data of one that is small.
fn jpeg(width: u16, height: u16, is_progressive: bool) -> Vec<u8> {
    let mut file = Plain::smooth(16, 16, 3).jpeg(|encoder| {
        encoder.set_progressive(is_progressive);
        encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    });
    let frame = memchr::memmem::find(&file, if is_progressive { b"\xff\xc2" } else { b"\xff\xc0" }).unwrap();
    file[frame + 5..frame + 9].copy_from_slice(&[height.to_be_bytes(), width.to_be_bytes()].concat());
    file
}

fn empty_gif(width: u16, height: u16) -> Vec<u8> {
    let size = [width.to_le_bytes(), height.to_le_bytes()].concat();
    [b"GIF89a", &size[..], b"\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0", &size, b"\0\x02\x02L\x01\0;"].concat()
}

fn webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let chunk = |(kind, data): &(&[u8; 4], &[u8])| {
        [&kind[..], &(data.len() as u32).to_le_bytes(), data, &[0][..data.len() % 2]].concat()
    };
    let chunks: Vec<u8> = chunks.iter().flat_map(chunk).collect();
    [b"RIFF", &(chunks.len() as u32 + 4).to_le_bytes()[..], b"WEBP", &chunks].concat()
}

/// Numbers of some bits each, the lowest first.
fn bits(numbers: &[(u32, usize)]) -> Vec<u8> {
    let bits: Vec<_> =
        numbers.iter().flat_map(|(number, bits)| (0..*bits).map(move |bit| (number >> bit & 1) as u8)).collect();
    bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |all, bit| all << 1 | bit)).collect()
}

/// A lossless WebP that says it has as many groups of codes as there can be.
fn webp_of_groups(width: u32, height: u32) -> Vec<u8> {
    // A head; no transform, no cache, an image that assigns groups to blocks of 4 x 4, without a cache.
    let mut numbers =
        vec![(0x2f, 8), (width - 1, 14), (height - 1, 14), (0, 4), (0, 1), (0, 1), (1, 1), (0, 3), (0, 1)];
    // Its codes: each has one symbol. Green and red 255, the others 0.
    for symbol in [255, 255, 0, 0, 0] {
        numbers.extend([(1, 1), (0, 1), (1, 1), (symbol, 8)]);
    }
    // The codes of the groups, as far as they go.
    for _ in 0..5 * 65_536 {
        numbers.extend([(1, 1), (0, 1), (0, 1), (0, 1)]);
    }
    webp(&[(b"VP8L", &bits(&numbers))])
}

/// A lossless WebP with 300 groups of codes, each as long as it can be, for a cache of 2048 colours.
fn webp_of_long_codes() -> Vec<u8> {
    let mut numbers = vec![(0x2f, 8), (999, 14), (999, 14), (0, 4), (0, 1), (1, 1), (11, 4), (1, 1), (0, 3), (0, 1)];
    for symbol in [43, 1, 0, 0, 0] {
        numbers.extend([(1, 1), (0, 1), (1, 1), (symbol, 8)]);
    }
    for alphabet in (0..300).flat_map(|_| [280 + 2048, 256, 256, 256, 40]) {
        // Lengths have four bits each: the codes of 0 to 15, and none that repeats.
        numbers.extend([(0, 1), (15, 4), (0, 3), (0, 3)]);
        numbers.extend([4, 4, 4, 4, 4, 4, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4].map(|length| (length, 3)));
        numbers.push((0, 1));
        // One each of few bits, and all that is left of 15 bits.
        let short = (1_u32..).find(|short| short + (1 << (15 - short)) <= alphabet).unwrap();
        let long = short + (1 << (15 - short));
        let length = |symbol| if symbol < short { symbol + 1 } else { 15 * u32::from(symbol < long) };
        numbers.extend((0..alphabet).map(|symbol| (length(symbol).reverse_bits() >> 28, 4)));
    }
    webp(&[(b"VP8L", &bits(&numbers))])
}

/// A GIF of one colour.
fn whole_gif(width: u16, height: u16) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = ::gif::Encoder::new(&mut file, width, height, &[9, 9, 9, 0, 0, 0]).unwrap();
    let pixels = vec![0; usize::from(width) * usize::from(height)];
    encoder.write_frame(&::gif::Frame::from_indexed_pixels(width, height, pixels, None)).unwrap();
    drop(encoder);
    file
}

const MOST_PIXELS: u64 = 50_000_000;
const MOST_BYTES: u64 = 256 << 20;

#[test]
fn what_is_made_to_be_expensive_is_not() {
    alone("bombs");
}

#[test]
#[ignore = "it runs in a process of its own, for the test before"]
fn bombs() {
    use FaultKind::{Damaged, TooLarge};
    let profile = [b"bomb\0\0", &zlib(&[7; 1 << 20], 200)[..]].concat();
    let text = [b"bomb\0\0", &zlib(&[b'x'; 1 << 20], 200)[..]].concat();
    let row = [&[0][..], &[0xaa; 875]].concat();
    let wide = [&[0][..], &[0xaa; 2500]].concat();
    let rgba = [&[0][..], &[0x55; 4 * 7000]].concat();
    let small = zlib(&[&[0][..], &[9; 3 * 20]].concat(), 20);
    let bombs: [(&str, Vec<u8>, Option<FaultKind>); 22] = [
        ("JPEG, 65 535 squared", jpeg(65_535, 65_535, false), Some(TooLarge)),
        ("JPEG, 49 megapixels", jpeg(7000, 7000, false), Some(Damaged)),
        ("JPEG, 49 megapixels, progressive", jpeg(7000, 7000, true), Some(TooLarge)),
        ("JPEG, 4 megapixels, progressive", jpeg(2000, 2000, true), Some(Damaged)),
        ("JPEG, thin", jpeg(1, 65_535, false), Some(Damaged)),
        ("GIF, 65 535 squared", empty_gif(65_535, 65_535), Some(TooLarge)),
        ("GIF, 49 megapixels, without any", empty_gif(7000, 7000), Some(Damaged)),
        ("GIF, 49 megapixels", whole_gif(7000, 7000), None),
        ("PNG whose profile inflates to 200 MB", png(20, 20, (8, 2, 0), &chunk(b"iCCP", &profile), &small), None),
        ("PNG whose text inflates to 200 MB", png(20, 20, (8, 2, 0), &chunk(b"zTXt", &text), &small), None),
        ("PNG, 400 megapixels of one bit", png(20_000, 20_000, (1, 0, 0), &[], &zlib(&wide, 20_000)), Some(TooLarge)),
        ("PNG, 49 megapixels of one bit", png(7000, 7000, (1, 0, 0), &[], &zlib(&row, 7000)), None),
        ("PNG, 49 megapixels of one bit, interlaced", png(7000, 7000, (1, 0, 1), &[], &zlib(&[0; 1 << 20], 7)), None),
        ("PNG, 49 megapixels", png(7000, 7000, (8, 6, 0), &[], &zlib(&rgba, 7000)), None),
        ("PNG, 49 megapixels, interlaced", png(7000, 7000, (8, 6, 1), &[], &zlib(&rgba, 10)), Some(Damaged)),
        ("PNG, wide", png(i32::MAX as u32, 1, (8, 6, 0), &[], &small), Some(TooLarge)),
        ("PNG, a row of 49 megapixels", png(49_000_000, 1, (16, 6, 0), &[], &small), Some(TooLarge)),
        ("WebP, 16 384 squared", webp_of_groups(16_384, 16_384), Some(TooLarge)),
        ("WebP of 65 536 groups of codes", webp_of_groups(1000, 1000), Some(TooLarge)),
        ("WebP of long codes", webp_of_long_codes(), Some(Damaged)),
        ("WebP, lossy, 16 383 squared", webp(&[(b"VP8 ", b"\x10\0\0\x9d\x01\x2a\xff\x3f\xff\x3f")]), Some(TooLarge)),
        (
            "WebP, lossy, 16 megapixels",
            webp(&[(b"VP8 ", b"\x10\0\0\x9d\x01\x2a\xa0\x0f\xa0\x0f\0\0\0\0\0\0\0\0")]),
            Some(Damaged),
        ),
    ];
    for (name, file, expected) in bombs {
        let made = bounded(&file, "200x200", MOST_PIXELS, MOST_BYTES);
        let taken = ALLOCATED.peak_usage() - ALLOCATED.current_usage();
        println!("{name}: {} bytes take {taken}: {:?}", file.len(), made.as_ref().map(|made| made.bytes.len()));
        assert_eq!(
            made.map(drop).map_err(|fault| fault.kind),
            expected.map_or(Ok(()), Err),
            "{name}, of {} bytes",
            file.len()
        );
    }
}

#[test]
fn what_is_changed_at_random_neither_panics_nor_takes_more_than_is_reserved() {
    alone("changed_files");
}

/// How a file is changed.
#[derive(Clone, Debug)]
enum Change {
    /// A byte becomes another one.
    Set(prop::sample::Index, u8),
    /// Two bytes, as those of a length or a size are.
    Number(prop::sample::Index, u16),
    Cut(prop::sample::Index),
    /// A piece is left out.
    Without(prop::sample::Index, u8),
    /// A piece stands elsewhere, too.
    Again(prop::sample::Index, prop::sample::Index, u8),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        let at = any::<prop::sample::Index>;
        prop_oneof![
            8 => (at(), any::<u8>()).prop_map(|(at, byte)| Self::Set(at, byte)),
            3 => (at(), prop_oneof![any::<u16>(), 0..700_u16, Just(u16::MAX)]).prop_map(|(at, number)| Self::Number(at, number)),
            1 => at().prop_map(Self::Cut),
            1 => (at(), any::<u8>()).prop_map(|(at, length)| Self::Without(at, length)),
            1 => (at(), at(), any::<u8>()).prop_map(|(at, to, length)| Self::Again(at, to, length)),
        ]
    }

    /// The file is not empty, before and after.
    fn apply(&self, file: &mut Vec<u8>) {
        let piece = |at: usize, length: u8, file: &[u8]| at..(at + usize::from(length)).min(file.len());
        match self {
            Self::Set(at, byte) => *at.get_mut(file) = *byte,
            Self::Number(at, number) => {
                let at = at.index(file.len());
                file.iter_mut().skip(at).zip(number.to_be_bytes()).for_each(|(byte, new)| *byte = new);
            }
            Self::Cut(at) => file.truncate(at.index(file.len()).max(1)),
            Self::Without(at, length) if file.len() > 256 => {
                drop(file.drain(piece(at.index(file.len()), *length, file)))
            }
            Self::Without(..) => {}
            Self::Again(at, to, length) => {
                let copy = file[piece(at.index(file.len()), *length, file)].to_vec();
                let to = to.index(file.len());
                file.splice(to..to, copy);
            }
        }
    }
}

#[test]
#[ignore = "it runs in a process of its own, for the test before"]
fn changed_files() {
    let cases = std::env::var("STRATA_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10_000);
    let mut files: Vec<_> =
        (1..=4).flat_map(|channels| Plain::smooth(24, 18, channels).files()).map(|(_, file)| file).collect();
    let profile = vec![7; 500];
    let plain = Plain::smooth(24, 18, 3);
    files.push(plain.png_with(|info| {
        (info.icc_profile, info.exif_metadata) = (Some(profile.clone().into()), Some(exif(6, true).into()))
    }));
    files.push(plain.jpeg(|encoder| {
        (encoder.add_exif_metadata(&exif(6, false)).unwrap(), encoder.add_icc_profile(&profile).unwrap()).0
    }));
    files.extend([LOSSY, LOSSY_ALPHA, ANIMATED].map(<[u8]>::to_vec));
    let (mut made, mut refused) = (0_u64, 0_u64);
    let strategy = (0..files.len(), prop::collection::vec(Change::any(), 1..6), 0..SPECS.len());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    // Their own numbers are small, so that a hundred thousand take minutes; large ones are among the bombs.
    let (counts, pixels, bytes) = (std::cell::RefCell::new((&mut made, &mut refused)), 1_000_000, 32 << 20);
    let ran = runner.run(&strategy, |(file, changes, spec)| {
        let mut file = files[file].clone();
        changes.iter().for_each(|change| change.apply(&mut file));
        let outcome = bounded(&file, SPECS[spec], pixels, bytes);
        let (made, refused) = &mut *counts.borrow_mut();
        **if outcome.is_ok() { made } else { refused } += 1;
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    println!("{cases} changed files: {made} made smaller, {refused} refused");
    assert!(made > 0 && refused > 0);
}
