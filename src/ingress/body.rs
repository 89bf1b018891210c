//! Request bodies: read within a limit, decompressed, or discarded.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{EXPECT, TRANSFER_ENCODING};
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::error::Error;
use crate::handlers::Failure;
use crate::handlers::fields::members;

/// The maximum bytes of a rejected body that are read and discarded, so that its client gets to read the response.
const DISCARDED_BYTES: usize = 8 << 20;

/// The maximum memory reserved for an announced length before the body arrives, in bytes.
const ANNOUNCED_BYTES: usize = 64 << 10;

/// The source of the bytes of a body: a connection, or a test.
pub trait Source: Body<Data = Bytes, Error: std::fmt::Display + Send> + Send + Unpin + 'static {
    /// Returns the minimum length of the body in bytes: `Content-Length`, if given.
    fn least_bytes(&self) -> u64 {
        self.size_hint().lower()
    }

    /// Returns whether there is nothing left to read.
    fn is_over(&self) -> bool {
        self.is_end_stream()
    }
}

impl<B: Body<Data = Bytes, Error: std::fmt::Display + Send> + Send + Unpin + 'static> Source for B {}

/// Returns whether the body is transferred in a way that is understood: in chunks and not coded otherwise, or with a length. (The HTTP
/// library accepts any codings before `chunked`, and leaves them undone.)
pub(super) fn is_understood(headers: &HeaderMap) -> bool {
    let mut codings = members(headers, TRANSFER_ENCODING);
    codings.next().is_none_or(|coding| coding.eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// Returns whether the client sends its body only after `100 Continue`.
pub fn waits_to_be_asked(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Reads the whole body. One that arrives in a single piece, as short ones do, is not copied.
///
/// # Errors
/// 413 as soon as it is longer than `limit_bytes`; 400 if it is aborted.
pub async fn read(mut body: impl Source, limit_bytes: usize) -> Result<Bytes, Failure> {
    read_within(Bytes::new(), &mut body, limit_bytes, |_| true).await
}

/// Returns what of a body has arrived by now; empty if nothing has, or if the client waits to be asked for it.
///
/// # Errors
/// 400 if it is aborted.
pub(super) fn at_hand(body: &mut impl Source, headers: &HeaderMap) -> Result<Bytes, Failure> {
    if waits_to_be_asked(headers) {
        return Ok(Bytes::new());
    }
    next(body).now_or_never().unwrap_or(Ok(Bytes::new()))
}

/// Returns a body that consists of one piece. `hold` returns whether there is memory for that many bytes.
///
/// # Errors
/// 413 if it is longer than `limit_bytes`; 503 if there is no memory.
pub(super) fn single(piece: Bytes, limit_bytes: usize, mut hold: impl FnMut(usize) -> bool) -> Result<Bytes, Failure> {
    if piece.len() > limit_bytes {
        return Err(Failure::TooLarge { limit_bytes });
    }
    if hold(piece.len()) { Ok(piece) } else { Err(Failure::Overloaded) }
}

/// Like [`read`], after a first piece, if there was one; leaves the rest beyond the limit in the body. `hold` returns whether there is
/// memory for that many more bytes.
///
/// # Errors
/// As [`read`]; 503 if there is no memory.
pub(super) async fn read_within(
    first: Bytes,
    body: &mut impl Source,
    limit_bytes: usize,
    mut hold: impl FnMut(usize) -> bool,
) -> Result<Bytes, Failure> {
    let first = if first.is_empty() { next(body).await? } else { first };
    let first = single(first, limit_bytes, &mut hold)?;
    if body.is_end_stream() {
        return Ok(first);
    }
    // An announced length alone reserves little memory, since the body may never arrive.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(limit_bytes).min(ANNOUNCED_BYTES);
    let mut whole = Vec::with_capacity((first.len() + announced).min(limit_bytes));
    whole.extend_from_slice(&first);
    loop {
        let more = next(body).await?;
        if more.is_empty() {
            return Ok(Bytes::from(whole));
        }
        if whole.len() + more.len() > limit_bytes {
            return Err(Failure::TooLarge { limit_bytes });
        }
        if !hold(more.len()) {
            return Err(Failure::Overloaded);
        }
        whole.extend_from_slice(&more);
    }
}

/// Returns the next bytes; empty at the end.
pub(super) async fn next(body: &mut impl Source) -> Result<Bytes, Failure> {
    loop {
        match body.frame().await {
            None => return Ok(Bytes::new()),
            Some(Err(error)) => return Err(Error::invalid(format!("the body was incomplete: {error}")).into()),
            // Trailers are ignored, and an empty piece is not the end.
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(data),
                _ => {}
            },
        }
    }
}

/// Decompresses a gzip body.
///
/// # Errors
/// 413 if it is longer than `limit_bytes`; 400 if it is not gzip, or is truncated.
pub(super) fn inflate(body: &[u8], limit_bytes: usize) -> Result<Bytes, Failure> {
    let mut whole = Vec::new();
    let longest = limit_bytes as u64 + 1;
    MultiGzDecoder::new(body).take(longest).read_to_end(&mut whole).map_err(|error| {
        Error::invalid(format!("Content-Encoding is gzip, but the body cannot be decompressed: {error}"))
    })?;
    if whole.len() > limit_bytes { Err(Failure::TooLarge { limit_bytes }) } else { Ok(Bytes::from(whole)) }
}

/// Reads and discards the body up to its end or the limit.
pub(super) async fn discard(mut body: impl Source) {
    let mut left = DISCARDED_BYTES;
    while let Ok(data) = next(&mut body).await {
        if data.is_empty() || data.len() > left {
            break;
        }
        left -= data.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body in pieces of unknown total length.
    struct Pieces(VecDeque<&'static str>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
        }
    }

    /// A body of which nothing arrives.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn pieces_are_put_together_up_to_the_limit() {
        let pieces = || Pieces(["ab", "", "cd", "e"].into());
        assert_eq!(read(pieces(), 5).await.unwrap(), "abcde");
        assert!(matches!(read(pieces(), 4).await, Err(Failure::TooLarge { limit_bytes: 4 })));
        assert!(matches!(read(pieces(), 1).await, Err(Failure::TooLarge { limit_bytes: 1 })));
        assert_eq!(read(Pieces(VecDeque::new()), 4).await.unwrap(), "");
    }

    #[test]
    fn what_has_arrived_is_at_hand() {
        let (unasked, mut asked) = (HeaderMap::new(), HeaderMap::new());
        asked.insert(EXPECT, "100-continue".parse().unwrap());
        let mut body = Pieces(["", "ab", "c"].into());
        assert_eq!(at_hand(&mut body, &asked).unwrap(), "", "the client waits to be asked");
        assert_eq!(at_hand(&mut body, &unasked).unwrap(), "ab");
        assert_eq!(at_hand(&mut body, &unasked).unwrap(), "c");
        assert_eq!(at_hand(&mut Silent, &unasked).unwrap(), "", "nothing has arrived");
    }

    #[test]
    fn compressed_bodies_have_the_limit_of_others() {
        use flate2::{Compression, write::GzEncoder};
        use std::io::Write;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&[b' '; 1 << 20]).unwrap();
        let compressed = encoder.finish().unwrap();
        assert_eq!(inflate(&compressed, 1 << 20).unwrap().len(), 1 << 20);
        assert!(matches!(inflate(&compressed, (1 << 20) - 1), Err(Failure::TooLarge { .. })));
        assert!(matches!(inflate(&compressed[..compressed.len() - 1], 1 << 20), Err(Failure::Error(_))));
        assert!(matches!(inflate(b"{}", 1 << 20), Err(Failure::Error(_))));
    }
}
