//! A file on disk as the body of an answer: read in the pool piece by piece, the next once the last is sent.
//!
//! A slow client thus costs one piece of memory and no thread.

use std::fs::File;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::static_files::read_piece;

/// The maximum length of a piece.
const PIECE_BYTES: u64 = 256 << 10;

/// A part of an open file.
pub(super) struct FileBody {
    file: Arc<File>,
    /// The range not requested yet.
    left: Range<u64>,
    reading: Option<Reading>,
    pool: Handle,
}

/// A piece being read, and its length.
type Reading = (JoinHandle<std::io::Result<Bytes>>, u64);

impl FileBody {
    pub(super) fn new(file: File, range: Range<u64>, pool: Handle) -> Self {
        Self { file: Arc::new(file), left: range, reading: None, pool }
    }

    /// Starts reading the next piece; `None` at the end.
    fn next(&mut self) -> Option<Reading> {
        let piece = self.left.start..self.left.end.min(self.left.start + PIECE_BYTES);
        if piece.is_empty() {
            return None;
        }
        self.left.start = piece.end;
        let (file, length) = (Arc::clone(&self.file), piece.end - piece.start);
        Some((self.pool.spawn_blocking(move || read_piece(&file, piece)), length))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        if self.reading.is_none() {
            self.reading = self.next();
        }
        let Some((reading, _)) = &mut self.reading else {
            return Poll::Ready(None);
        };
        let piece = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        // An error aborts the connection, so that a partial body is not taken for a complete one.
        Poll::Ready(Some(piece.unwrap_or_else(|error| Err(std::io::Error::other(error))).map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.reading.is_none() && self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let reading = self.reading.as_ref().map_or(0, |(_, length)| *length);
        SizeHint::with_exact(reading + self.left.end - self.left.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn pieces_make_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..PIECE_BYTES * 2 + 5).map(|byte| (byte % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        for range in [0..bytes.len(), 3..PIECE_BYTES as usize + 3, 7..7] {
            let whole = range.start as u64..range.end as u64;
            let body = FileBody::new(File::open(&path).unwrap(), whole, Handle::current());
            assert_eq!(body.size_hint().exact(), Some(range.len() as u64));
            assert_eq!(body.collect().await.unwrap().to_bytes(), bytes[range]);
        }
    }

    #[tokio::test]
    async fn a_file_that_ends_too_early_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "short").unwrap();
        let body = FileBody::new(File::open(&path).unwrap(), 0..10, Handle::current());
        assert!(body.collect().await.is_err());
    }
}
