//! Thumbnails as files: JPEG for what was JPEG, else PNG of 8 bits a channel.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::pixels::{Channels, Pixels};

/// The quality of JPEG.
const QUALITY: u8 = 80;

/// Writes a JPEG with a colour profile. What is JPEG has no alpha.
pub(super) fn jpeg(pixels: &Pixels, profile: Option<&[u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, QUALITY);
    let colours = if pixels.channels == Channels::Gray { ColorType::Luma } else { ColorType::Rgb };
    // Half of the chroma across and down, as others do.
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    if let Some(profile) = profile {
        encoder.add_icc_profile(profile).expect("it is at most 1 MiB");
    }
    let side = |side: usize| u16::try_from(side).expect("a side that can be asked for, or that a JPEG has");
    encoder.encode(&pixels.values, side(pixels.width), side(pixels.height), colours).expect("into memory");
    file
}

/// Writes a PNG with a colour profile.
pub(super) fn png(pixels: &Pixels, profile: Option<&[u8]>) -> Vec<u8> {
    let side = |side: usize| u32::try_from(side).expect("a picture has such sides");
    let mut info = png::Info::with_size(side(pixels.width), side(pixels.height));
    info.bit_depth = png::BitDepth::Eight;
    info.color_type = match pixels.channels {
        Channels::Gray => png::ColorType::Grayscale,
        Channels::GrayAlpha => png::ColorType::GrayscaleAlpha,
        Channels::Rgb => png::ColorType::Rgb,
        Channels::Rgba => png::ColorType::Rgba,
    };
    info.icc_profile = profile.map(Into::into);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::with_info(&mut file, info).expect("a picture that can be written");
    // Rows as they are repeat themselves where areas have one colour; differences are smaller where nothing repeats.
    encoder.set_filter(if is_flat(pixels) { png::Filter::NoFilter } else { png::Filter::Adaptive });
    let mut writer = encoder.write_header().expect("into memory");
    writer.write_image_data(&pixels.values).expect("as many as the head says");
    writer.finish().expect("into memory");
    file
}

/// Whether half of all pixels have the colour of the one before, as in drawings.
fn is_flat(pixels: &Pixels) -> bool {
    let number = pixels.channels.number();
    let before = pixels.values.chunks_exact(number);
    let repeated = before.clone().skip(1).zip(before).filter(|(pixel, before)| pixel == before).count();
    2 * repeated >= pixels.width * pixels.height
}
