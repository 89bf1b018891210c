//! Content codings (RFC 9110, sections 8.4.1 and 12.5.3): negotiation and compression of responses.
//!
//! Levels are chosen for speed: a response is compressed for a single use, on a thread that others wait for. Short responses are sent
//! uncompressed, since the headers of a coding are as long as the saving. `ingress` chooses the thread; this module knows nothing of
//! threads.
//!
//! Non-goals: precompressed files (`static_files`, which uses this module for negotiation).

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, VARY};
use http::{HeaderMap, HeaderValue};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::fields::{members, with_quality};
use super::headers::Validator;
use super::problem::{Failure, Result};
use super::response::Response;

/// The maximum length of a response that is sent uncompressed, in bytes.
const PLAIN_BYTES: usize = 1 << 10;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `zstd` (RFC 8878)
    Zstandard,
    /// `br` (RFC 7932)
    Brotli,
    /// `gzip` (RFC 1952)
    Gzip,
}

impl Coding {
    /// All codings; among those of equal quality, the first is the fastest for what it saves.
    pub const ALL: [Self; 3] = [Self::Zstandard, Self::Brotli, Self::Gzip];

    /// Returns the name used in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstandard => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// The qualities of the codings in `Accept-Encoding`, in thousandths; 0 = not acceptable.
pub struct AcceptEncoding {
    coded: [u16; 3],
    plain: Option<u16>,
}

impl AcceptEncoding {
    /// Parses `Accept-Encoding`. Without it, nothing is compressed: a client that does not announce support often lacks it.
    pub fn of(headers: &HeaderMap) -> Self {
        let (mut named, mut plain, mut others) = ([None; 3], None, None);
        for member in members(headers, ACCEPT_ENCODING) {
            let (name, quality) = with_quality(member);
            let name = name.strip_prefix(b"x-").unwrap_or(name);
            match Coding::ALL.iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes())) {
                Some(coding) => named[*coding as usize] = Some(quality),
                None if name == b"*" => others = Some(quality),
                None if name.eq_ignore_ascii_case(b"identity") => plain = Some(quality),
                None => {}
            }
        }
        Self { coded: named.map(|quality| quality.or(others).unwrap_or(0)), plain: plain.or(others) }
    }

    /// Returns the quality of a coding.
    pub fn quality(&self, coding: Coding) -> u16 {
        self.coded[coding as usize]
    }

    /// Returns the quality of `identity`; `None` if it was not given, in which case it is acceptable as a last resort.
    pub fn plain(&self) -> Option<u16> {
        self.plain
    }
}

/// The negotiated content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedCoding {
    best: Option<Coding>,
    /// Whether a short response may be sent uncompressed.
    or_plain: bool,
}

impl Default for AcceptedCoding {
    /// No coding.
    fn default() -> Self {
        Self { best: None, or_plain: true }
    }
}

impl AcceptedCoding {
    /// Negotiates the coding.
    ///
    /// # Errors
    /// 406 if neither our codings nor `identity` are acceptable.
    pub fn accepted(headers: &HeaderMap) -> Result<Self> {
        if !headers.contains_key(ACCEPT_ENCODING) {
            return Ok(Self::default());
        }
        let preferences = AcceptEncoding::of(headers);
        let best = Coding::ALL.into_iter().rev().max_by_key(|coding| preferences.quality(*coding));
        let at_least = preferences.plain().unwrap_or(0).max(1);
        let accepted = Self {
            best: best.filter(|coding| preferences.quality(*coding) >= at_least),
            or_plain: preferences.plain() != Some(0),
        };
        match accepted {
            Self { best: None, or_plain: false } => {
                Err(Failure::NotAcceptable { available: "available content codings: identity, zstd, br, gzip" })
            }
            _ => Ok(accepted),
        }
    }

    /// Returns the coding of a response of `bytes` bytes.
    pub fn of_bytes(self, bytes: usize) -> Option<Coding> {
        let plain = bytes == 0 || (bytes <= PLAIN_BYTES && self.or_plain);
        self.best.filter(|_| !plain)
    }

    /// Returns the coding of a response that is sent in pieces.
    pub fn of_pieces(self) -> Option<Coding> {
        self.best
    }
}

/// Checks that content may be sent as it is, because it has no coding.
///
/// # Errors
/// 406 if `identity` is not acceptable.
pub fn accepts_plain(headers: &HeaderMap) -> Result<()> {
    match headers.contains_key(ACCEPT_ENCODING) && AcceptEncoding::of(headers).plain() == Some(0) {
        true => Err(Failure::NotAcceptable { available: "this is available without a content coding only" }),
        false => Ok(()),
    }
}

/// Compresses a response, which becomes another representation with a validator of its own.
pub fn coded(response: Response, coding: Coding) -> Response {
    let (mut head, body) = response.into_parts();
    let bytes = compressed(&body, coding);
    set_headers(&mut head.headers, coding);
    Response::from_parts(head, bytes)
}

/// Compresses a content.
pub fn compressed(content: &[u8], coding: Coding) -> Bytes {
    let mut encoder = Encoder::of_bytes(coding, content.len());
    let mut bytes = encoder.write(content);
    bytes.extend_from_slice(&encoder.finish());
    Bytes::from(bytes)
}

/// Sets the headers of a response for this coding.
pub fn set_headers(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    vary(Some(coding), headers);
    if let Some(validator) = headers.get(ETAG).map(Validator::of_header) {
        headers.insert(ETAG, validator.with(coding.name()).header());
    }
}

/// Adds `Vary` to the headers of a response if it has a coding.
pub fn vary(coding: Option<Coding>, headers: &mut HeaderMap) {
    if coding.is_some() {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// A streaming compressor.
pub struct Encoder {
    coding: Coding,
    stream: Stream,
}

enum Stream {
    /// With a buffer for the output of one step.
    Zstandard(CCtx<'static>, Box<[u8]>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

/// Why compression is infallible here.
const IN_MEMORY: &str = "writing to memory does not fail";

impl Encoder {
    /// Creates an encoder for content of unknown length.
    pub fn of_pieces(coding: Coding) -> Self {
        Self::new(coding, None)
    }

    /// Creates an encoder for content of `bytes` bytes.
    fn of_bytes(coding: Coding, bytes: usize) -> Self {
        Self::new(coding, Some(bytes))
    }

    fn new(coding: Coding, bytes: Option<usize>) -> Self {
        const ROOM_BYTES: usize = 16 << 10;
        const ZSTANDARD_LEVEL: i32 = 1;
        /// The quality (0 to 11) and the binary logarithm of the window size: 2^18 bytes.
        const BROTLI: (u32, u32) = (2, 18);
        let stream = match coding {
            Coding::Zstandard => {
                let mut context = CCtx::create();
                let set = context.set_parameter(CParameter::CompressionLevel(ZSTANDARD_LEVEL));
                // If it knows the length in advance, it takes no more memory than it needs.
                let told = context.set_pledged_src_size(bytes.map(|bytes| bytes as u64));
                set.and(told).expect("the level is valid, and nothing is written yet");
                Stream::Zstandard(context, vec![0; ROOM_BYTES].into())
            }
            Coding::Brotli => {
                let (quality, window) = BROTLI;
                Stream::Brotli(Box::new(brotli::CompressorWriter::new(Vec::new(), ROOM_BYTES, quality, window)))
            }
            Coding::Gzip => Stream::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
        };
        Self { coding, stream }
    }

    /// Returns the coding.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Compresses more bytes and returns the output so far, which may be empty.
    pub fn write(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &mut self.stream {
            Stream::Brotli(encoder) => {
                encoder.write_all(bytes).expect(IN_MEMORY);
                std::mem::take(encoder.get_mut())
            }
            Stream::Gzip(encoder) => {
                encoder.write_all(bytes).expect(IN_MEMORY);
                std::mem::take(encoder.get_mut())
            }
            Stream::Zstandard(context, room) => {
                let (mut out, mut input) = (Vec::new(), InBuffer::around(bytes));
                while input.pos() < bytes.len() {
                    let mut step = OutBuffer::around(&mut room[..]);
                    context.compress_stream(&mut step, &mut input).expect(IN_MEMORY);
                    out.extend_from_slice(step.as_slice());
                }
                out
            }
        }
    }

    /// Returns the remaining output.
    pub fn finish(self) -> Vec<u8> {
        match self.stream {
            Stream::Brotli(encoder) => encoder.into_inner(),
            Stream::Gzip(encoder) => encoder.finish().expect(IN_MEMORY),
            Stream::Zstandard(mut context, mut room) => {
                let mut out = Vec::new();
                loop {
                    let mut step = OutBuffer::around(&mut room[..]);
                    let left = context.end_stream(&mut step).expect(IN_MEMORY);
                    out.extend_from_slice(step.as_slice());
                    if left == 0 {
                        return out;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::{JSON, with_body};
    use std::io::Read;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))])
    }

    #[test]
    fn codings_by_name_star_and_quality() {
        let of = |value| {
            [Coding::Brotli, Coding::Zstandard, Coding::Gzip]
                .map(|coding| AcceptEncoding::of(&headers(value)).quality(coding))
        };
        assert_eq!(of("gzip, deflate, br, zstd"), [1000, 1000, 1000]);
        assert_eq!(of("x-gzip;q=0.5, BR ; Q=0.1"), [100, 0, 500]);
        assert_eq!(of("*, br;q=0"), [0, 1000, 1000]);
        assert_eq!(of("identity"), [0, 0, 0]);
        assert_eq!(Coding::ALL.map(|coding| AcceptEncoding::of(&HeaderMap::new()).quality(coding)), [0, 0, 0]);
        let plain = |value| AcceptEncoding::of(&headers(value)).plain();
        assert_eq!([plain("gzip"), plain("identity;q=0.5, *;q=0"), plain("Identity;q=0")], [None, Some(500), Some(0)]);
        assert_eq!([plain("*;q=0"), plain("*"), plain("")], [Some(0), Some(1000), None]);
    }

    #[test]
    fn the_preferred_coding_and_none_for_short_responses() {
        let of = |value| {
            AcceptedCoding::accepted(&headers(value)).ok().map(|coded| [1024, 1025].map(|bytes| coded.of_bytes(bytes)))
        };
        let some = |coding| Some([None, Some(coding)]);
        assert_eq!(of("gzip, deflate, br, zstd"), some(Coding::Zstandard));
        assert_eq!(of("gzip, br"), some(Coding::Brotli));
        assert_eq!(of("gzip, br;q=0.9"), some(Coding::Gzip));
        assert_eq!(of("gzip;q=0.5, identity"), Some([None, None]));
        assert_eq!(of("gzip;q=0.5, identity;q=0.5"), some(Coding::Gzip));
        assert_eq!([of("deflate"), of(""), of("*;q=0, identity")], [Some([None, None]); 3]);
        assert_eq!(of("gzip, identity;q=0"), Some([Some(Coding::Gzip); 2]), "also what is short");
        assert_eq!([of("deflate, identity;q=0"), of("*;q=0")], [None, None]);
        assert_eq!(
            AcceptedCoding::accepted(&headers("gzip, *;q=0")).unwrap().of_bytes(0),
            None,
            "nothing stays nothing"
        );
        assert_eq!(AcceptedCoding::accepted(&HeaderMap::new()).unwrap(), AcceptedCoding::default());
    }

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap()),
            Coding::Brotli => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap()),
            Coding::Zstandard => {
                let (mut context, mut input, mut room) =
                    (zstd_safe::DCtx::create(), InBuffer::around(bytes), [0; 4096]);
                loop {
                    let mut step = OutBuffer::around(&mut room[..]);
                    let left = context.decompress_stream(&mut step, &mut input).unwrap();
                    out.extend_from_slice(step.as_slice());
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        out
    }

    #[test]
    fn what_was_coded_is_what_is_read() {
        let mut text = Vec::new();
        for number in 0..40_000u32 {
            text.extend_from_slice(
                format!("{{\"id\":\"{number}\",\"x\":{}}},", number.wrapping_mul(2_654_435_761)).as_bytes(),
            );
        }
        for coding in Coding::ALL {
            for part in [&text[..1], &text[..5000], &text] {
                let response = with_body(http::StatusCode::OK, JSON, Bytes::copy_from_slice(part));
                let response = coded(response, coding);
                assert_eq!(decoded(coding, response.body()), part);
                assert_eq!(
                    (&response.headers()[CONTENT_ENCODING], &response.headers()[VARY]),
                    (&HeaderValue::from_static(coding.name()), &HeaderValue::from_static("accept-encoding"))
                );
            }
            let mut encoder = Encoder::of_pieces(coding);
            let mut pieces: Vec<_> = text.chunks(70_000).map(|piece| encoder.write(piece)).collect();
            pieces.push(encoder.finish());
            assert_eq!(decoded(coding, &pieces.concat()), text);
            assert!(pieces.concat().len() * 2 < text.len(), "{coding:?}: {}", pieces.concat().len());
        }
    }

    #[test]
    fn a_coded_response_has_a_validator_of_its_own() {
        let mut response = with_body(http::StatusCode::OK, JSON, Bytes::from_static(b"{}"));
        response.headers_mut().insert(ETAG, HeaderValue::from_static("\"0123456789abcdef-cbor\""));
        assert_eq!(coded(response, Coding::Brotli).headers()[ETAG], "\"0123456789abcdef-cbor-br\"");
    }
}
