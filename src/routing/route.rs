//! A resolved request: how much work it is, where it runs, and running it.
//!
//! Scheduling properties (`work`, `pool`, `has_written`) are derived from the request alone, and from what a quick look at its body shows.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::{Routes, Template, streams, without_default_limit};
use crate::error::{Error, Place};
use crate::feed::{EventId, Topic};
use crate::graphql::{self, Kind, Transport};
use crate::handlers::{
    self, Answer, Result, batch, blobs,
    coding::{self, Coding},
    load::Load,
    media::{Accepted, Bodies, BodyFormat},
    streams::Followed,
};
use crate::multicast::Registry;
use crate::query::{Limits, Query};
use crate::schema::{Stream, Table, ThumbSize};
use crate::streams::{RequestKind, Streams, Unfinished};
use crate::transaction::Database;

/// A resolved request.
pub struct Route<'r> {
    pub(super) routes: &'r Routes,
    pub(super) target: Target<'r>,
    pub(super) template: Template,
    pub(super) accepted: Accepted,
    pub(super) body_format: BodyFormat,
}

/// The target of a request.
pub(super) enum Target<'r> {
    /// A table, or a record of it.
    Table(&'r Table, Verb<'r>),
    /// The bytes of a blob.
    Blob(Blob<'r>),
    /// A bulk load into a table from any number of lines.
    Load(&'r Table),
    Changes(Changes),
    /// A message to all records of a table that match.
    Multicast(&'r Table, Box<Query<'r>>),
    /// A stream.
    Stream(&'r Stream, streams::Asked<'r>),
    /// A batch of operations on any tables.
    Batch,
    Graphql(Asked<'r>, Transport),
    /// The supported methods.
    Options(&'static str),
}

/// A subscription to the changes of a record, or of a whole table.
#[derive(Clone, Debug)]
pub struct Changes {
    /// What it covers.
    pub topic: Topic,
    /// The event after which it begins; `None`: from now on.
    pub after: Option<EventId>,
    /// Whether it holds its record.
    pub holds: bool,
}

/// The source of a GraphQL request.
pub(super) enum Asked<'r> {
    Body,
    Url(&'r str),
}

#[derive(Debug)]
pub(super) enum Verb<'r> {
    Read(Cow<'r, str>),
    ReadSelected(Cow<'r, str>, Box<Query<'r>>),
    List(Box<Query<'r>>),
    /// A list whose query is the body.
    ListByBody(Limits),
    /// Creates one record, or an array of them.
    Create,
    /// Replaces an array of records.
    ReplaceAll,
    Replace(Cow<'r, str>),
    Merge(Cow<'r, str>),
    Delete(Cow<'r, str>),
    /// Patches all matching records.
    MergeMatching(&'r str, Limits),
    /// Deletes all matching records.
    DeleteMatching(&'r str, Limits),
}

/// An operation on the bytes of a blob.
#[derive(Clone, Debug)]
pub struct Blob<'r> {
    /// The operation.
    pub access: Access,
    /// The table of the record.
    pub table: &'r Table,
    /// The id of the record.
    pub id: Cow<'r, str>,
    /// Position of the attribute in the schema; of type Blob.
    pub attribute: usize,
    /// The size of the thumbnail that is asked for in place of the bytes.
    pub thumbnail: Option<ThumbSize>,
}

/// An operation on the bytes of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Returns the bytes.
    Read,
    /// Returns only the metadata.
    Describe,
    /// Writes the body of the request.
    Write,
    /// Deletes the bytes.
    Delete,
}

/// The amount of work of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Microseconds, if the data is in memory: may run on a worker thread, where others wait for it.
    Short,
    /// Possibly long: must run in the pool.
    Long,
}

/// The thread pool of a handler that does not run inline, by its bottleneck. Work in one pool does not wait for that in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Storage reads: one record.
    Reading,
    /// Locks, and records that are read before they are written.
    Writing,
    /// CPU: any number of records are examined.
    Scanning,
    /// Clients: a list without a limit proceeds as fast as its client reads.
    Dumping,
    /// Flushes, which bound the write rate of blobs.
    Uploading,
    /// CPU, for pictures: what one takes is a thousand times what a page of a list does.
    Picturing,
}

/// Longer queries are not even parsed on a worker thread.
const SHORT_QUERY_BYTES: usize = 8 << 10;

/// Events in a longer body are appended in the pool.
const SHORT_BULK_BYTES: usize = 64 << 10;

/// Parsing and writing a record in a longer body may take a millisecond, for which others would wait.
pub(super) const SHORT_BODY_BYTES: usize = 128 << 10;

impl Verb<'_> {
    /// Returns whether it answers with counts of records rather than records.
    fn counts(&self) -> bool {
        matches!(self, Self::ReplaceAll | Self::MergeMatching(..) | Self::DeleteMatching(..))
    }

    /// Returns the pool, if it does not run inline.
    fn pool(&self) -> Pool {
        match self {
            Self::Read(_) | Self::ReadSelected(..) => Pool::Reading,
            Self::List(_) | Self::ListByBody(_) | Self::MergeMatching(..) | Self::DeleteMatching(..) => Pool::Scanning,
            Self::Create | Self::ReplaceAll | Self::Replace(_) | Self::Merge(_) | Self::Delete(_) => Pool::Writing,
        }
    }

    /// Returns whether it takes the query of the path.
    pub(super) fn has_query(&self) -> bool {
        matches!(self, Self::List(_) | Self::MergeMatching(..) | Self::DeleteMatching(..))
    }

    /// Returns the kinds of body that it takes, if any.
    pub(super) fn bodies(&self) -> Option<Bodies> {
        match self {
            Self::Create => Some(Bodies::RecordsOrLines),
            Self::ReplaceAll | Self::Replace(_) => Some(Bodies::Records),
            Self::Merge(_) | Self::MergeMatching(..) => Some(Bodies::Patch),
            Self::ListByBody(_) => Some(Bodies::Query),
            Self::Read(_) | Self::ReadSelected(..) | Self::List(_) | Self::Delete(_) | Self::DeleteMatching(..) => None,
        }
    }
}

impl Asked<'_> {
    fn request(&self, body: &[u8]) -> crate::error::Result<graphql::Request> {
        match self {
            Self::Url(query) => graphql::Request::in_url(query),
            Self::Body => graphql::Request::in_body(body),
        }
    }
}

impl<'r> Route<'r> {
    /// Returns the path template.
    pub fn template(&self) -> Template {
        self.template
    }

    /// Returns the subscription to changes, if it is one. [`Route::answer`] then returns only the head.
    pub fn follows(&self) -> Option<&Changes> {
        if let Target::Changes(changes) = &self.target { Some(changes) } else { None }
    }

    /// Returns the table whose records a message is sent to, and their condition, if it is a multicast.
    pub fn multicast(self) -> Option<(&'r Table, Query<'r>)> {
        if let Target::Multicast(table, conditions) = self.target { Some((table, *conditions)) } else { None }
    }

    /// Returns whether it sends a message.
    pub fn is_multicast(&self) -> bool {
        matches!(self.target, Target::Multicast(..))
    }

    /// Returns the JSON text of a body.
    ///
    /// # Errors
    /// As [`BodyFormat::json`].
    pub fn json_of<'b>(&self, body: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        Ok(self.body_format.json(body)?)
    }

    /// Returns an answer in JSON in the negotiated format and coding.
    ///
    /// # Errors
    /// `Corrupt` in the case of a defect.
    pub fn converted(&self, answer: Answer) -> Result<Answer> {
        let answer = self.accepted.format.convert(answer, None)?;
        Ok(match self.coding_of(&answer) {
            Some(coding) => coding::coded(answer, coding),
            None => answer,
        })
    }

    /// Returns how long a read of a stream waits for an event, if it does.
    pub fn waits(&self) -> Option<Duration> {
        match &self.target {
            Target::Stream(_, streams::Asked::Read(reading)) if reading.wait_ms > 0 => {
                Some(Duration::from_millis(reading.wait_ms))
            }
            _ => None,
        }
    }

    /// Returns whether it appends to a stream, and does nothing else.
    pub fn appends(&self) -> bool {
        matches!(&self.target, Target::Stream(_, streams::Asked::Append | streams::Asked::AppendAll))
    }

    /// Returns the append to a stream, or the read of one, that begins now, if it is nothing else.
    pub fn begun(&self) -> Option<Unfinished> {
        let Target::Stream(stream, asked) = &self.target else { return None };
        let kind = match asked {
            streams::Asked::Append => RequestKind::Append,
            streams::Asked::AppendAll => RequestKind::Bulk,
            streams::Asked::Read(_) => RequestKind::Read,
            _ => return None,
        };
        self.routes.streams.position(stream).ok().map(|position| Streams::begun(position, kind))
    }

    /// Returns the position in the schema of the stream that a subscription follows, and where it begins.
    pub fn subscribes(&self) -> Option<(usize, Followed)> {
        let Target::Stream(stream, streams::Asked::Follow(followed)) = &self.target else { return None };
        let position = self.routes.streams.position(stream).ok()?;
        Some((position, followed.clone()))
    }

    /// Returns the blob operation whose bytes the owner of the connection streams (`handlers::blobs`), if it is one.
    pub fn blob(&self) -> Option<&Blob<'_>> {
        match &self.target {
            Target::Blob(blob) if blob.access != Access::Delete => Some(blob),
            _ => None,
        }
    }

    /// Returns the pool of the handler with this body, if it does not run inline.
    pub fn pool(&self, body: &[u8]) -> Pool {
        match &self.target {
            Target::Options(_) | Target::Changes(..) => Pool::Reading,
            Target::Blob(blob) => match blob.access {
                Access::Read | Access::Describe => Pool::Reading,
                Access::Write => Pool::Uploading,
                Access::Delete => Pool::Writing,
            },
            Target::Table(_, Verb::List(_) | Verb::ListByBody(_)) if self.accepted.format.is_lines() => Pool::Dumping,
            Target::Table(_, verb) => verb.pool(),
            Target::Multicast(..) => Pool::Scanning,
            Target::Stream(_, asked) if !asked.may_write() => Pool::Reading,
            Target::Load(_) | Target::Batch | Target::Stream(..) => Pool::Writing,
            Target::Graphql(asked, _) => {
                let request = asked.request(body).ok();
                match request.and_then(|request| self.routes.graphql.known_kind(&request)) {
                    Some(Kind::Reads) => Pool::Reading,
                    Some(Kind::Mutation) => Pool::Writing,
                    // Validating a new document is CPU-bound, too.
                    Some(Kind::Lists) | None => Pool::Scanning,
                }
            }
        }
    }

    /// Returns whether the handler may write.
    pub fn may_write(&self) -> bool {
        match &self.target {
            Target::Options(_) | Target::Changes(..) => false,
            Target::Table(_, verb) => verb.pool() == Pool::Writing,
            Target::Blob(blob) => matches!(blob.access, Access::Write | Access::Delete),
            Target::Stream(_, asked) => asked.may_write(),
            Target::Load(_) | Target::Batch | Target::Multicast(..) => true,
            Target::Graphql(_, transport) => !transport.safe,
        }
    }

    /// Returns whether a successful answer to this body reports a completed write.
    pub fn has_written(&self, body: &[u8]) -> bool {
        match &self.target {
            Target::Table(_, verb) => verb.counts() || verb.pool() == Pool::Writing,
            Target::Stream(_, asked) => asked.may_write(),
            Target::Load(_) | Target::Batch | Target::Multicast(..) => true,
            Target::Graphql(asked, _) => {
                let request = asked.request(body).ok();
                request.and_then(|request| self.routes.graphql.known_kind(&request)) == Some(Kind::Mutation)
            }
            Target::Options(_) | Target::Changes(..) | Target::Blob(_) => false,
        }
    }

    /// Returns the amount of work of the handler with this body.
    pub fn work(&self, body: &[u8]) -> Work {
        let long = match &self.target {
            Target::Options(_) | Target::Changes(..) | Target::Blob(_) => false,
            // Redis is waited for.
            Target::Table(table, _) if table.in_redis => true,
            Target::Table(_, Verb::Read(_) | Verb::ReadSelected(..)) => false,
            Target::Load(_) | Target::Batch | Target::Multicast(..) => true,
            Target::Stream(_, asked) => asked.is_long() || body.len() > SHORT_BULK_BYTES,
            // Longer work returns `WouldBlock` once it has begun.
            Target::Graphql(..) => body.len() > SHORT_BODY_BYTES,
            Target::Table(table, Verb::List(query)) => !query.is_short(table),
            // Parsing a short query shows how much work it is; its errors are reported when it is parsed again.
            Target::Table(table, Verb::ListByBody(limits)) => {
                body.len() > SHORT_QUERY_BYTES
                    || self.query_in(table, body, limits).is_ok_and(|query| !query.is_short(table))
            }
            Target::Table(_, Verb::ReplaceAll | Verb::MergeMatching(..) | Verb::DeleteMatching(..)) => true,
            Target::Table(_, Verb::Create | Verb::Replace(_) | Verb::Merge(_) | Verb::Delete(_)) => {
                self.body_format.is_array(body) || body.len() > SHORT_BODY_BYTES
            }
        };
        if long { Work::Long } else { Work::Short }
    }

    /// Parses the query in a body; trailing white space, as added by editors, is ignored.
    fn query_in<'b>(&self, table: &Table, body: &'b [u8], limits: &Limits) -> Result<Query<'b>> {
        let text = std::str::from_utf8(body.trim_ascii_end()).map_err(|error| Error::Invalid {
            detail: "the query is not UTF-8".to_owned(),
            place: Place::Position(error.valid_up_to()),
        })?;
        Ok(without_default_limit(
            Query::parse(self.routes.database.schema(), table, text, limits)?,
            self.accepted.format,
        ))
    }

    /// Returns whether the body is compressed by gzip.
    pub fn has_gzip(&self) -> bool {
        self.body_format.gzip
    }

    /// Returns the negotiated coding of an answer.
    pub fn coding_of(&self, answer: &Answer) -> Option<Coding> {
        self.accepted.coded.of_bytes(answer.body().len())
    }

    /// Returns the negotiated coding of an answer in pieces.
    pub fn coding_of_pieces(&self) -> Option<Coding> {
        self.accepted.coded.of_pieces()
    }

    /// Returns the head of an answer in pieces.
    pub fn head_of_pieces(&self) -> Answer {
        let mut head = handlers::list_head(self.accepted.format);
        if let Some(coding) = self.coding_of_pieces() {
            coding::set_headers(head.headers_mut(), coding);
        }
        head
    }

    /// Returns the table and an empty load, if the request is a bulk load; `line_bytes`: the maximum length of a line.
    pub fn load(&self, line_bytes: usize) -> Option<(&Table, Load)> {
        match &self.target {
            Target::Load(table) => Some((*table, Load::new(line_bytes, self.body_format.gzip))),
            _ => None,
        }
    }

    /// Returns the answer to a completed load.
    ///
    /// # Errors
    /// `Corrupt` in the case of a defect.
    pub fn loaded(&self, load: &Load) -> Result<Answer> {
        self.accepted.format.convert(load.answer(), None)
    }

    /// Runs the handler; a long list is passed to `send_chunk` in pieces, except for the last, which is the body of the answer.
    ///
    /// # Errors
    /// Errors of the handler and of `send_chunk`.
    pub fn answer_in_pieces(
        &self,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
        send_chunk: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
    ) -> Result<Answer> {
        let format = self.accepted.format;
        let (table, parsed) = match &self.target {
            Target::Table(table, Verb::ListByBody(limits)) => (table, Some(self.query_in(table, body, limits)?)),
            Target::Table(table, _) => (table, None),
            _ => return self.answer(database, headers, body),
        };
        let query = match (&self.target, &parsed) {
            (Target::Table(_, Verb::List(query)), _) => query,
            (_, Some(query)) => query,
            _ => return self.answer(database, headers, body),
        };
        match self.registry_of(table)? {
            None => handlers::list_in_pieces(database, table, query, format, send_chunk),
            Some(registry) => handlers::registry::list_in_pieces(registry, database, table, query, format, send_chunk),
        }
    }

    /// Returns the registry in which a table is kept, if it is not kept here.
    fn registry_of(&self, table: &Table) -> Result<Option<&'r Registry>> {
        match (table.in_redis, self.routes.registry()) {
            (false, _) => Ok(None),
            (true, None) => {
                Err(Error::invalid(format!("table {} is in Redis, which this server has not", table.name)).into())
            }
            (true, registry) => Ok(registry),
        }
    }

    /// Runs the handler.
    ///
    /// # Errors
    /// Errors of the handler.
    ///
    /// # Panics
    /// If it is a load or a blob operation ([`Route::blob`]), which are streamed, or a multicast ([`Route::multicast`]), which is awaited.
    pub fn answer(&self, database: &Database, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
        let (format, body) = (self.accepted.format, &*self.body_format.json(body)?);
        match &self.target {
            Target::Table(table, verb) => self.answer_in(table, verb, database, headers, body),
            Target::Options(allow) => Ok(handlers::options(allow)),
            Target::Changes(..) => Ok(handlers::event_stream(Bytes::new())),
            Target::Stream(stream, asked) => self.answer_of(stream, asked, database, headers, body),
            Target::Batch => {
                let resolve = |path: &str| self.routes.operation_target(path);
                let (streams, most) = (&self.routes.streams, self.routes.options.max_rows);
                batch::batch(streams, database, headers, body, format, most, resolve)
            }
            Target::Graphql(asked, transport) => {
                self.routes.graphql.answer(database, &asked.request(body)?, *transport)
            }
            Target::Blob(Blob { access: Access::Delete, table, id, attribute, .. }) => {
                blobs::remove(database, table, id, *attribute, headers)
            }
            Target::Load(_) | Target::Blob(_) => unreachable!("it is streamed"),
            Target::Multicast(..) => unreachable!("it is awaited"),
        }
    }

    fn answer_of(
        &self,
        stream: &Stream,
        asked: &streams::Asked<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Answer> {
        use handlers::streams::{append, append_all, commit, group, groups, read, remove_group, trim, truncate};
        let streams = &self.routes.streams;
        match asked {
            streams::Asked::Groups => groups(streams, database, stream),
            streams::Asked::Group(name) => group(streams, database, stream, name, headers),
            streams::Asked::Commit(name) => commit(streams, database, stream, name, headers, body),
            streams::Asked::RemoveGroup(name) => remove_group(streams, database, stream, name, headers),
            streams::Asked::Append => append(streams, database, stream, body),
            streams::Asked::AppendAll => append_all(streams, database, stream, headers, body),
            streams::Asked::Read(reading) => {
                read(streams, database, stream, reading, self.routes.options.stream_answer_bytes)
            }
            streams::Asked::Follow(_) => Ok(handlers::event_stream(Bytes::new())),
            streams::Asked::Trim { partition, before } => trim(streams, database, stream, *partition, *before),
            streams::Asked::Truncate => truncate(streams, database, stream),
        }
    }

    fn answer_in(
        &self,
        table: &Table,
        verb: &Verb<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Answer> {
        let (accepted, format) = (self.accepted, self.accepted.format);
        if let Some(registry) = self.registry_of(table)? {
            return self.answer_in_registry(registry, table, verb, database, headers, body);
        }
        let answer = match verb {
            Verb::Read(id) => handlers::read(database, table, id, headers, accepted),
            Verb::ReadSelected(id, query) => handlers::read_selected(database, table, id, query, headers, accepted),
            Verb::List(query) => handlers::list(database, table, query, format),
            Verb::ListByBody(limits) => handlers::list(database, table, &self.query_in(table, body, limits)?, format),
            Verb::Create if body.trim_ascii_start().first() == Some(&b'[') => {
                handlers::create_all(database, table, headers, body)
            }
            Verb::Create => handlers::create(database, table, headers, body),
            Verb::ReplaceAll => handlers::replace_all(database, table, headers, body),
            Verb::Replace(id) => handlers::replace(database, table, id, headers, body),
            Verb::Merge(id) => handlers::merge(database, table, id, headers, body),
            Verb::MergeMatching(text, limits) => {
                handlers::update_matching(database, table, text, headers, body, limits)
            }
            Verb::Delete(id) => handlers::delete(database, table, id, headers),
            Verb::DeleteMatching(text, limits) => handlers::delete_matching(database, table, text, headers, limits),
        }?;
        // Records that were read already have the negotiated format.
        format.convert(answer, (!verb.counts()).then_some((database.schema(), table)))
    }

    fn answer_in_registry(
        &self,
        registry: &Registry,
        table: &Table,
        verb: &Verb<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Answer> {
        use handlers::registry::{read, register, unregister};
        let (accepted, format) = (self.accepted, self.accepted.format);
        let answer = match verb {
            Verb::Read(id) => read(registry, database, table, id, None, headers, accepted),
            Verb::ReadSelected(id, query) => read(registry, database, table, id, Some(query), headers, accepted),
            Verb::Replace(id) => register(registry, database, table, id, headers, body),
            Verb::Delete(id) => unregister(registry, table, id, headers),
            Verb::List(_) | Verb::ListByBody(_) => unreachable!("it comes in pieces"),
            Verb::Create | Verb::ReplaceAll | Verb::Merge(_) | Verb::MergeMatching(..) | Verb::DeleteMatching(..) => {
                unreachable!("tables in Redis do not have it")
            }
        }?;
        format.convert(answer, Some((database.schema(), table)))
    }
}
