//! A resolved request, and the properties of its handler that are known without its body.

use std::borrow::Cow;
use std::time::Duration;

use super::{Routes, Template, streams};
use crate::feed::{EventId, Topic};
use crate::graphql::Transport;
use crate::handlers::{
    self, Response, Result,
    coding::{self, Coding},
    load::Load,
    media::{Accepted, Bodies, BodyFormat},
    streams::Followed,
};
use crate::query::{Limits, Query};
use crate::schema::{Stream, Table, ThumbSize};
use crate::streams::{RequestKind, Streams, Unfinished};

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

/// The properties of a handler that are known without its body.
pub(super) struct Properties {
    /// Where it runs, if not inline.
    pub(super) pool: Pool,
    /// Whether it may write, and a successful response reports a completed write.
    pub(super) writes: bool,
    /// Whether it responds with counts of records, any number of them, rather than with records.
    pub(super) counts: bool,
    /// Whether it takes the query of the path.
    pub(super) has_query: bool,
    /// The kinds of body that it takes, if any.
    pub(super) bodies: Option<Bodies>,
}

const READS: Properties =
    Properties { pool: Pool::Reading, writes: false, counts: false, has_query: false, bodies: None };
const WRITES: Properties = Properties { pool: Pool::Writing, writes: true, ..READS };
const SCANS: Properties = Properties { pool: Pool::Scanning, ..READS };
const CHANGES_MATCHING: Properties = Properties { pool: Pool::Scanning, counts: true, has_query: true, ..WRITES };

impl Verb<'_> {
    pub(super) fn properties(&self) -> Properties {
        match self {
            Self::Read(_) | Self::ReadSelected(..) => READS,
            Self::List(_) => Properties { has_query: true, ..SCANS },
            Self::ListByBody(_) => Properties { bodies: Some(Bodies::Query), ..SCANS },
            Self::Create => Properties { bodies: Some(Bodies::RecordsOrLines), ..WRITES },
            Self::ReplaceAll => Properties { bodies: Some(Bodies::Records), counts: true, ..WRITES },
            Self::Replace(_) => Properties { bodies: Some(Bodies::Records), ..WRITES },
            Self::Merge(_) => Properties { bodies: Some(Bodies::Patch), ..WRITES },
            Self::Delete(_) => WRITES,
            Self::MergeMatching(..) => Properties { bodies: Some(Bodies::Patch), ..CHANGES_MATCHING },
            Self::DeleteMatching(..) => CHANGES_MATCHING,
        }
    }
}

impl Target<'_> {
    pub(super) fn properties(&self) -> Properties {
        match self {
            Self::Options(_) | Self::Changes(_) => READS,
            Self::Table(_, verb) => verb.properties(),
            Self::Blob(blob) => match blob.access {
                Access::Read | Access::Describe => READS,
                Access::Write => Properties { pool: Pool::Uploading, ..WRITES },
                Access::Delete => WRITES,
            },
            Self::Stream(_, asked) if !asked.may_write() => READS,
            Self::Stream(..) | Self::Load(_) | Self::Batch => WRITES,
            Self::Multicast(..) => Properties { pool: Pool::Scanning, ..WRITES },
            // Unless its document is known: validating a new one is CPU-bound.
            Self::Graphql(_, transport) => Properties { writes: !transport.safe, ..SCANS },
        }
    }
}

impl<'r> Route<'r> {
    /// Returns the path template.
    pub fn template(&self) -> Template {
        self.template
    }

    /// Returns the subscription to changes, if it is one; its handler returns only the head.
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

    /// Returns a response in JSON in the negotiated format and coding.
    ///
    /// # Errors
    /// `Corrupt` in the case of a defect.
    pub fn converted(&self, response: Response) -> Result<Response> {
        let response = self.accepted.format.convert(response, None)?;
        Ok(match self.coding_of(&response) {
            Some(coding) => coding::coded(response, coding),
            None => response,
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

    /// Returns whether the handler may write.
    pub fn may_write(&self) -> bool {
        self.target.properties().writes
    }

    /// Returns whether the body is compressed by gzip.
    pub fn has_gzip(&self) -> bool {
        self.body_format.gzip
    }

    /// Returns the negotiated coding of a response.
    pub fn coding_of(&self, response: &Response) -> Option<Coding> {
        self.accepted.coded.of_bytes(response.body().len())
    }

    /// Returns the negotiated coding of a response in pieces.
    pub fn coding_of_pieces(&self) -> Option<Coding> {
        self.accepted.coded.of_pieces()
    }

    /// Returns the head of a response in pieces.
    pub fn head_of_pieces(&self) -> Response {
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

    /// Returns the response to a completed load.
    ///
    /// # Errors
    /// `Corrupt` in the case of a defect.
    pub fn loaded(&self, load: &Load) -> Result<Response> {
        self.accepted.format.convert(load.respond(), None)
    }
}
