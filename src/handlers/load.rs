//! `POST /T` with one record per line (`application/x-ndjson`): a bulk load of any length.
//!
//! Each line is independent: it is created, or rejected without affecting the others. Received lines are committed in chunks, so that
//! neither memory nor locks grow with the length of the load, and a load that is aborted leaves what was committed before. The response
//! comes at the end, with the numbers of created and rejected lines and the reasons of the first rejections.
//!
//! A [`Load`] is fed by the code that reads the body, on a thread that may block. If it cannot continue (the engine is stalled, a key is
//! locked), it returns an error without losing anything, and is called again with the rest.

use std::io::Write;

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::StatusCode;
use serde::Serialize;

use super::response::{JSON, Response, with_body};
use crate::error::{Error, Place, Result};
use crate::schema::Table;
use crate::transaction::Database;

/// The maximum number of lines in a commit.
const CHUNK_LINES: usize = 1000;

/// The maximum bytes of lines in a commit, except for a single longer line.
const CHUNK_BYTES: usize = 1 << 20;

/// The number of bytes split into lines at a time.
const STEP_BYTES: usize = 64 << 10;

/// The number of bytes of a compressed body inflated at a time. Inflation expands them at most a thousand times.
const COMPRESSED_BYTES: usize = 1 << 10;

/// The maximum number of rejected lines whose reasons are kept.
const REASONS: usize = 100;

/// The maximum length of a reason, which may quote the client's input, in characters.
const REASON_CHARACTERS: usize = 300;

/// A bulk load into a table.
pub struct Load {
    /// The decompressor, if the body is compressed.
    inflate: Option<MultiGzDecoder<Vec<u8>>>,
    /// Complete lines that are not committed yet, and the beginning of the next.
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The maximum length of a line in bytes.
    line_bytes: usize,
    /// Whether the rest of an overlong line, which is already rejected, is being skipped.
    is_skipping: bool,
    progress: Progress,
}

/// A complete line.
struct Line {
    /// The byte offset of its end in the text; it begins at the end of the previous one.
    end: usize,
    /// Whether it was too long, so that its text was dropped.
    is_too_long: bool,
}

/// The outcome of the lines so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Progress {
    /// The number of lines created.
    pub created: u64,
    /// The number of lines rejected.
    pub failed: u64,
    /// The reasons of the first rejections.
    errors: Vec<Reason>,
    /// The number of lines, including empty ones.
    #[serde(skip)]
    pub lines: u64,
}

/// The reason why a line was rejected.
#[derive(Clone, Debug, Serialize)]
struct Reason {
    /// The line number, from 1.
    line: u64,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

impl Load {
    /// Creates a load of lines of at most `line_bytes` bytes.
    pub fn new(line_bytes: usize, is_compressed: bool) -> Self {
        let inflate = is_compressed.then(|| MultiGzDecoder::new(Vec::new()));
        let (text, lines, progress) = (Vec::new(), Vec::new(), Progress::default());
        Self { inflate, text, lines, line_bytes, is_skipping: false, progress }
    }

    /// Returns the number of bytes of the body worth a call.
    pub fn chunk_bytes(&self) -> usize {
        // Small if compressed, since it expands.
        if self.inflate.is_some() { STEP_BYTES } else { CHUNK_BYTES }
    }

    /// Returns the memory that it keeps between two calls, in bytes.
    pub fn kept_bytes(&self) -> usize {
        /// The memory of the decoder: its window, and about as much again.
        const INFLATE_BYTES: usize = 64 << 10;
        self.text.len() + if self.inflate.is_some() { INFLATE_BYTES } else { 0 }
    }

    /// Returns the outcome of the lines so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Consumes received bytes, and commits all lines that they complete.
    ///
    /// # Errors
    /// `Busy`, after which it may be called again; `Invalid` if it cannot be decompressed; errors of the engine.
    pub fn take(&mut self, database: &Database, table: &Table, bytes: &mut Bytes) -> Result<()> {
        while !bytes.is_empty() {
            if self.lines.len() >= CHUNK_LINES || self.lines.last().is_some_and(|last| last.end >= CHUNK_BYTES) {
                self.commit(database, table)?;
            }
            let Some(inflate) = &mut self.inflate else {
                let step = bytes.split_to(bytes.len().min(STEP_BYTES));
                self.append(&step);
                continue;
            };
            let taken = inflate.write(&bytes[..bytes.len().min(COMPRESSED_BYTES)]).map_err(not_gzip)?;
            if taken == 0 {
                return Err(not_gzip("unexpected data after its end"));
            }
            bytes.advance(taken);
            let step = std::mem::take(inflate.get_mut());
            self.append(&step);
        }
        self.commit(database, table)
    }

    /// Commits the last line, which may lack a line feed.
    ///
    /// # Errors
    /// As [`Load::take`].
    pub fn finish(&mut self, database: &Database, table: &Table) -> Result<()> {
        if let Some(mut inflate) = self.inflate.take() {
            inflate.try_finish().map_err(not_gzip)?;
            let rest = std::mem::take(inflate.get_mut());
            self.append(&rest);
        }
        if self.text.len() > self.begun_at() {
            self.append(b"\n");
        }
        self.commit(database, table)
    }

    /// Returns 200 and the outcome of the lines.
    pub fn respond(&self) -> Response {
        let body = serde_json::to_vec(&self.progress).expect("a structure of texts and numbers is JSON");
        with_body(StatusCode::OK, JSON, Bytes::from(body))
    }

    /// Returns the byte offset of the incomplete line.
    fn begun_at(&self) -> usize {
        self.lines.last().map_or(0, |last| last.end)
    }

    /// Splits text into lines and appends them.
    fn append(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            let feed = memchr::memchr(b'\n', text);
            let (line, rest) = text.split_at(feed.map_or(text.len(), |feed| feed + 1));
            text = rest;
            if self.is_skipping {
                self.is_skipping = feed.is_none();
                continue;
            }
            self.text.extend_from_slice(line);
            let begun_at = self.begun_at();
            let is_too_long = self.text.len() - begun_at - usize::from(feed.is_some()) > self.line_bytes;
            if is_too_long {
                self.text.truncate(begun_at);
                self.is_skipping = feed.is_none();
            }
            if is_too_long || feed.is_some() {
                self.lines.push(Line { end: self.text.len(), is_too_long });
            }
        }
    }

    /// Commits the complete lines.
    fn commit(&mut self, database: &Database, table: &Table) -> Result<()> {
        // The number of committed lines, and their end. They are removed all at once, since there may be a million.
        let (mut count, mut start) = (0, 0);
        let outcome = self.commit_from(database, table, &mut count, &mut start);
        self.text.drain(..start);
        self.lines.drain(..count);
        self.lines.iter_mut().for_each(|line| line.end -= start);
        self.text.shrink_to(STEP_BYTES);
        self.lines.shrink_to(CHUNK_LINES);
        outcome
    }

    fn commit_from(&mut self, database: &Database, table: &Table, count: &mut usize, end: &mut usize) -> Result<()> {
        while *count < self.lines.len() {
            let lines = &self.lines[*count..self.lines.len().min(*count + CHUNK_LINES)];
            let mut start = *end;
            let texts = lines.iter().map(|line| &self.text[std::mem::replace(&mut start, line.end)..line.end]);
            let texts: Vec<_> = texts.map(<[u8]>::trim_ascii).collect();
            let bodies: Vec<_> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
            let mut outcomes = database.create_each(table, &bodies)?.into_iter();
            for (line, text) in lines.iter().zip(&texts) {
                let outcome = match text.is_empty() {
                    false => outcomes.next(),
                    true if line.is_too_long => {
                        Some(Err(Error::invalid(format!("a line has at most {} bytes", self.line_bytes))))
                    }
                    true => None,
                };
                self.progress.note(outcome);
            }
            (*count, *end) = (*count + lines.len(), start);
        }
        Ok(())
    }
}

impl Progress {
    /// Counts the next line; `None` for an empty one.
    fn note(&mut self, outcome: Option<Result<()>>) {
        self.lines += 1;
        let error = match outcome {
            None => return,
            Some(Ok(())) => {
                self.created += 1;
                return;
            }
            Some(Err(error)) => error,
        };
        self.failed += 1;
        if self.errors.len() < REASONS {
            let (detail, pointer) = match error {
                Error::Invalid { detail, place: Place::Pointer(pointer) } | Error::Conflict { detail, pointer } => {
                    (detail, Some(shortened(&pointer)))
                }
                Error::Invalid { detail, .. } => (detail, None),
                other => (other.to_string(), None),
            };
            // For invalid JSON, only the column is informative.
            let detail = shortened(&detail.replace(" at line 1 column ", " at column "));
            self.errors.push(Reason { line: self.lines, detail, pointer });
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(REASON_CHARACTERS).collect()
}

fn not_gzip(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("Content-Encoding is gzip, but the body cannot be decompressed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use crate::schema::Schema;
    use crate::storage;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn database(folder: &tempfile::TempDir) -> Database {
        let schema = Schema::parse("type T @table { id: ID @primaryKey n: Int sku: String @unique }").unwrap();
        Database::open(folder.path(), schema, &storage::Options::default()).unwrap()
    }

    /// Loads pieces and returns the response.
    fn load(database: &Database, is_compressed: bool, pieces: impl IntoIterator<Item = Vec<u8>>) -> serde_json::Value {
        let (mut load, table) = (Load::new(40, is_compressed), database.table("T").unwrap());
        for piece in pieces {
            load.take(database, table, &mut Bytes::from(piece)).unwrap();
        }
        load.finish(database, table).unwrap();
        serde_json::from_slice(load.respond().body()).unwrap()
    }

    fn ids(database: &Database) -> Vec<String> {
        let mut ids = Vec::new();
        let table = database.table("T").unwrap();
        let all = Query::default().run(database, table, |record| {
            ids.push(record.id()?.into_owned());
            Ok(())
        });
        all.unwrap();
        ids
    }

    #[test]
    fn a_line_is_created_or_refused_however_it_arrives() {
        let text = concat!(
            "{\"id\":\"a\",\"n\":1,\"sku\":\"x\"}\n",
            "\n",
            "{\"id\":\"b\",\"n\":}\r\n",
            "{\"id\":\"a\"}\n",
            "{\"id\":\"c\",\"sku\":\"x\"}\n",
            "{\"id\":\"d\",\"n\":\"1234567890123456789012345678901234567890\"}\n",
            "{\"id\":\"e\",\"m\":1}\n",
            "   {\"id\": \"f\"}  "
        );
        for pieces in [1, 2, 7, text.len()] {
            let folder = tempfile::tempdir().unwrap();
            let database = database(&folder);
            let response =
                load(&database, false, text.as_bytes().chunks(text.len().div_ceil(pieces)).map(<[u8]>::to_vec));
            assert_eq!((&response["created"], &response["failed"]), (&2.into(), &5.into()), "{response}");
            let errors: Vec<_> = response["errors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|error| (error["line"].as_u64().unwrap(), error["pointer"].as_str()))
                .collect();
            assert_eq!(errors, [(3, Some("")), (4, Some("/id")), (5, Some("/sku")), (6, None), (7, Some("/m"))]);
            assert!(response["errors"][3]["detail"].as_str().unwrap().contains("at most 40 bytes"));
            assert_eq!(ids(&database), ["a", "f"]);
        }
    }

    #[test]
    fn chunks_have_their_lines_and_only_the_first_reasons_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let text: String = (0..3500).map(|number| format!("{{\"id\":\"{:04}\"}}\n", number % 3000)).collect();
        let before = database.counters().writes;
        let response = load(&database, false, [text.into_bytes()]);
        assert_eq!((&response["created"], &response["failed"]), (&3000.into(), &500.into()));
        let errors = response["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["line"], ids(&database).len()), (100, &3001.into(), 3000));
        assert_eq!(database.counters().writes, before + 3, "one for each thousand, and none for what was refused");
    }

    #[test]
    fn compressed_lines_are_lines() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let gzip = |text: String| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        // Two gzip members, as produced by `cat a.gz b.gz`, and a member that expands a thousand times.
        let one = gzip((0..2000).map(|number| format!("{{\"id\":\"{number}\"}}\n")).collect());
        let two = gzip(format!("{}{{\"id\":\"last\"}}", " \n".repeat(1 << 20)));
        let whole = [one, two].concat();
        let response = load(&database, true, whole.chunks(777).map(<[u8]>::to_vec));
        assert_eq!((&response["created"], &response["failed"]), (&2001.into(), &0.into()), "{response}");
        let (mut cut, table) = (Load::new(40, true), database.table("T").unwrap());
        let taken = cut.take(&database, table, &mut Bytes::from(whole[..whole.len() - 20].to_vec()));
        assert!(taken.and_then(|()| cut.finish(&database, table)).is_err(), "unexpected end");
        assert!(Load::new(40, true).take(&database, table, &mut Bytes::from_static(b"{\"id\":\"1\"}\n")).is_err());
    }
}
