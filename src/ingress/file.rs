//! A file on disk as the body of a response: read in the pool piece by piece, the next once the last is sent.
//!
//! A slow client thus costs one piece of memory, no thread and no descriptor.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::static_files::Extent;

/// The maximum length of a piece.
const PIECE_BYTES: u64 = 256 << 10;

/// A part of a file.
pub(super) struct FileBody {
    extent: Extent,
    /// The range not requested yet.
    left: Range<u64>,
    reading: Option<Reading>,
    pool: Handle,
}

/// A piece being read, and its length.
type Reading = (JoinHandle<Result<Bytes>>, u64);

impl FileBody {
    pub(super) fn new(extent: Extent, pool: Handle) -> Self {
        Self { left: extent.range(), extent, reading: None, pool }
    }

    /// Starts reading the next piece; `None` at the end.
    fn next(&mut self) -> Option<Reading> {
        let piece = self.left.start..self.left.end.min(self.left.start + PIECE_BYTES);
        if piece.is_empty() {
            return None;
        }
        self.left.start = piece.end;
        let (extent, length) = (self.extent.clone(), piece.end - piece.start);
        Some((self.pool.spawn_blocking(move || extent.read(piece)), length))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        if self.reading.is_none() {
            self.reading = self.next();
        }
        let Some((reading, _)) = &mut self.reading else {
            return Poll::Ready(None);
        };
        let piece = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        // An error aborts the connection, so that a partial body is not taken for a complete one.
        let stopped = |error| Err(Error::storage("cannot read a static file", error));
        Poll::Ready(Some(piece.unwrap_or_else(stopped).map(Frame::data)))
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
    use crate::static_files::{Content, Options, Site};
    use http::{HeaderMap, HeaderValue, Method, Uri, header::RANGE};
    use http_body_util::BodyExt;
    use tempfile::TempDir;

    /// A folder with this file, and a part of it as the body of a response.
    fn served(bytes: &[u8], range: &str) -> (TempDir, FileBody) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), bytes).unwrap();
        let site = Site::load(folder.path(), &Options { memory_bytes: 0, ..Options::default() }).unwrap();
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).unwrap())]);
        let response = site.respond(&Method::GET, &Uri::from_static("/file"), &headers).unwrap().unwrap();
        let Content::Disk(extent) = response.into_body() else { panic!("nothing is kept in memory") };
        (folder, FileBody::new(extent, Handle::current()))
    }

    #[tokio::test]
    async fn pieces_make_the_whole() {
        let bytes: Vec<u8> = (0..PIECE_BYTES * 2 + 5).map(|byte| (byte % 251) as u8).collect();
        for range in [0..bytes.len(), 3..PIECE_BYTES as usize + 3, 7..8] {
            let (_folder, body) = served(&bytes, &format!("bytes={}-{}", range.start, range.end - 1));
            assert_eq!(body.size_hint().exact(), Some(range.len() as u64));
            assert_eq!(body.collect().await.unwrap().to_bytes(), bytes[range]);
        }
    }

    #[tokio::test]
    async fn a_file_that_changes_meanwhile_is_an_error() {
        let (folder, mut body) = served(&vec![b'a'; PIECE_BYTES as usize + 1], "bytes=0-");
        assert!(body.frame().await.unwrap().is_ok());
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let mut open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        assert!(!open.any(|file| file.starts_with(folder.path())), "a client that does not read holds no descriptor");
        std::fs::write(folder.path().join("file"), "short").unwrap();
        assert!(body.frame().await.unwrap().is_err());
    }
}
