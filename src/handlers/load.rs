//! `POST /T` with a record a line (`application/x-ndjson`): a load of any length, line by line.
//!
//! A line is a request of its own: it is created, or refused without keeping the others out. What has arrived is committed in chunks, so
//! that neither memory nor locks follow the length of the load, and a load that breaks off leaves what was committed before. The answer
//! comes at the end, with the number of both kinds and why the first lines were refused.
//!
//! A [`Load`] is fed by who reads the body, and works where it may wait. When it cannot go on (the engine is behind, a key is held) it
//! says so and has lost nothing: it is called again with what is left.

use std::io::Write;

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::StatusCode;
use serde::Serialize;

use super::{Answer, JSON, with_body};
use crate::error::{Error, Place, Result};
use crate::schema::Table;
use crate::transaction::Database;

/// How many lines are committed at once.
const CHUNK_LINES: usize = 1000;

/// How many bytes of lines are committed at once, but for a line that is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// So much is cut into lines at once.
const STEP_BYTES: usize = 64 << 10;

/// So much of a compressed body is decompressed at once. It becomes a thousand times as long at most.
const COMPRESSED_BYTES: usize = 1 << 10;

/// Why so many lines were refused is kept.
const REASONS: usize = 100;

/// So much is kept of what a client has written itself.
const REASON_CHARACTERS: usize = 300;

/// Records on their way into a table.
pub struct Load {
    /// What decompresses the body, if it is compressed.
    inflate: Option<MultiGzDecoder<Vec<u8>>>,
    /// Whole lines that were not committed yet, and the beginning of the next.
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The longest line.
    line_bytes: usize,
    /// Whether what comes belongs to a line that is too long, which is refused already.
    is_skipping: bool,
    progress: Progress,
}

/// A whole line.
struct Line {
    /// Where it ends in the text; it begins where the one before it ends.
    end: usize,
    /// Whether it was too long, and nothing of it is there.
    is_too_long: bool,
}

/// What has become of the lines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Progress {
    /// How many were created.
    pub created: u64,
    /// How many were refused.
    pub failed: u64,
    /// Why the first of them were.
    errors: Vec<Reason>,
    /// How many there were, empty ones too.
    #[serde(skip)]
    pub lines: u64,
}

/// Why a line was refused.
#[derive(Clone, Debug, Serialize)]
struct Reason {
    /// From 1.
    line: u64,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

impl Load {
    /// Of lines of at most `line_bytes` bytes.
    pub fn new(line_bytes: usize, is_compressed: bool) -> Self {
        let inflate = is_compressed.then(|| MultiGzDecoder::new(Vec::new()));
        let (text, lines, progress) = (Vec::new(), Vec::new(), Progress::default());
        Self { inflate, text, lines, line_bytes, is_skipping: false, progress }
    }

    /// How much of a body it is worth to be called for.
    pub fn chunk_bytes(&self) -> usize {
        // Of what is compressed, so much that it does not become very long.
        if self.inflate.is_some() { STEP_BYTES } else { CHUNK_BYTES }
    }

    /// How much memory it keeps between two calls.
    pub fn kept_bytes(&self) -> usize {
        /// What the decoder needs: its window, and as much beside.
        const INFLATE_BYTES: usize = 64 << 10;
        self.text.len() + if self.inflate.is_some() { INFLATE_BYTES } else { 0 }
    }

    /// What has become of the lines so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Takes what has arrived off `bytes`, and commits all lines that it ends.
    ///
    /// # Errors
    /// `Busy`, and then it may be called again; `Invalid` if it cannot be decompressed; what the engine returns.
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

    /// Commits the last line, which may have no end.
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

    /// 200, and what has become of the lines.
    pub fn answer(&self) -> Answer {
        let body = serde_json::to_vec(&self.progress).expect("a structure of texts and numbers is JSON");
        with_body(StatusCode::OK, JSON, Bytes::from(body))
    }

    /// Where the line begins that has no end yet.
    fn begun_at(&self) -> usize {
        self.lines.last().map_or(0, |last| last.end)
    }

    /// Cuts text into lines behind those that there are.
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

    /// Commits the whole lines.
    fn commit(&mut self, database: &Database, table: &Table) -> Result<()> {
        // How many lines are committed, and where they end. They are removed all at once: there may be a million.
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
    /// Notes the next line, an empty one if nothing became of it.
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
            // Of JSON that is none, which column is left to say.
            let detail = shortened(&detail.replace(" at line 1 column ", " at column "));
            self.errors.push(Reason { line: self.lines, detail, pointer });
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(REASON_CHARACTERS).collect()
}

fn not_gzip(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the body is not gzip, as Content-Encoding says: {error}"))
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

    /// Loads pieces and returns the answer.
    fn load(database: &Database, is_compressed: bool, pieces: impl IntoIterator<Item = Vec<u8>>) -> serde_json::Value {
        let (mut load, table) = (Load::new(40, is_compressed), database.table("T").unwrap());
        for piece in pieces {
            load.take(database, table, &mut Bytes::from(piece)).unwrap();
        }
        load.finish(database, table).unwrap();
        serde_json::from_slice(load.answer().body()).unwrap()
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
            let answer =
                load(&database, false, text.as_bytes().chunks(text.len().div_ceil(pieces)).map(<[u8]>::to_vec));
            assert_eq!((&answer["created"], &answer["failed"]), (&2.into(), &5.into()), "{answer}");
            let errors: Vec<_> = answer["errors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|error| (error["line"].as_u64().unwrap(), error["pointer"].as_str()))
                .collect();
            assert_eq!(errors, [(3, Some("")), (4, Some("/id")), (5, Some("/sku")), (6, None), (7, Some("/m"))]);
            assert!(answer["errors"][3]["detail"].as_str().unwrap().contains("at most 40 bytes"));
            assert_eq!(ids(&database), ["a", "f"]);
        }
    }

    #[test]
    fn chunks_have_their_lines_and_only_the_first_reasons_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let text: String = (0..3500).map(|number| format!("{{\"id\":\"{:04}\"}}\n", number % 3000)).collect();
        let before = database.counters().writes;
        let answer = load(&database, false, [text.into_bytes()]);
        assert_eq!((&answer["created"], &answer["failed"]), (&3000.into(), &500.into()));
        let errors = answer["errors"].as_array().unwrap();
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
        // Two members, as `cat a.gz b.gz` makes them, and a member that becomes a thousand times as long.
        let one = gzip((0..2000).map(|number| format!("{{\"id\":\"{number}\"}}\n")).collect());
        let two = gzip(format!("{}{{\"id\":\"last\"}}", " \n".repeat(1 << 20)));
        let whole = [one, two].concat();
        let answer = load(&database, true, whole.chunks(777).map(<[u8]>::to_vec));
        assert_eq!((&answer["created"], &answer["failed"]), (&2001.into(), &0.into()), "{answer}");
        let (mut cut, table) = (Load::new(40, true), database.table("T").unwrap());
        let taken = cut.take(&database, table, &mut Bytes::from(whole[..whole.len() - 20].to_vec()));
        assert!(taken.and_then(|()| cut.finish(&database, table)).is_err(), "unexpected end");
        assert!(Load::new(40, true).take(&database, table, &mut Bytes::from_static(b"{\"id\":\"1\"}\n")).is_err());
    }
}
