//! A request that has a handler: how much work it is, where it runs, and running it.
//!
//! What is asked of a route before it runs (`work`, `lane`, `has_written`) is found out from the request alone, and from what of its body
//! can be seen at once.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;

use super::{Routes, Template, uncut};
use crate::error::{Error, Place};
use crate::feed::{EventId, Topic};
use crate::graphql::{self, Kind, Manner};
use crate::handlers::{
    self, Answer, Result, batch, blobs,
    coding::{self, Coding},
    load::Load,
    media::{Accepted, Bodies, BodyFormat},
};
use crate::query::{Limits, Query};
use crate::schema::Table;
use crate::transaction::Database;

/// A request that has a handler.
pub struct Route<'r> {
    pub(super) routes: &'r Routes,
    pub(super) target: Target<'r>,
    pub(super) template: Template,
    pub(super) accepted: Accepted,
    pub(super) body_format: BodyFormat,
}

/// What a request is for.
pub(super) enum Target<'r> {
    /// A table, or a record of it.
    Table(&'r Table, Verb<'r>),
    /// The bytes of a blob.
    Blob(Blob<'r>),
    /// A table that is loaded from lines, of which there may be any number.
    Load(&'r Table),
    /// The changes of a record, or of all of a table, behind an event or from now on.
    Changes(&'r Table, Option<Cow<'r, str>>, Option<EventId>),
    /// Many operations on any tables.
    Batch,
    Graphql(Asked<'r>, Manner),
    /// The methods that it has.
    Options(&'static str),
}

/// Where a GraphQL request stands.
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
    /// One, or an array of them.
    Create,
    /// An array of them.
    ReplaceAll,
    Replace(Cow<'r, str>),
    Merge(Cow<'r, str>),
    Delete(Cow<'r, str>),
    /// All that a query means.
    MergeMatching(&'r str, Limits),
    /// All that a query means.
    DeleteMatching(&'r str, Limits),
}

/// The bytes of a blob, and what is done with them.
#[derive(Clone, Debug)]
pub struct Blob<'r> {
    /// What is done.
    pub access: Access,
    /// The table of the record.
    pub table: &'r Table,
    /// The id of the record.
    pub id: Cow<'r, str>,
    /// Position of the attribute in the schema, which is a Blob.
    pub attribute: usize,
}

/// What is done with the bytes of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// They are answered.
    Read,
    /// Only what is known of them is.
    Describe,
    /// They are the body of the request.
    Write,
    /// They are deleted.
    Delete,
}

/// How much work a route's handler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Microseconds, if the answer is in memory: it may run where others wait for it.
    Short,
    /// It may take long: it must run where nobody waits.
    Long,
}

/// What a handler's work is limited by, where it does not run at once. Work of one kind does not wait for that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The device that is read: one record.
    Reading,
    /// Locks, and records that are read before they are written.
    Writing,
    /// Processors: any number of records are looked at.
    Scanning,
    /// Clients: a list without a limit goes on as fast as its client reads.
    Dumping,
    /// Flushes: the bytes of blobs cannot be written faster.
    Uploading,
}

/// A query that is longer is not even read where others wait.
const SHORT_QUERY_BYTES: usize = 8 << 10;

/// A record in a longer body may take a millisecond to be read and written, and others would wait for it.
pub(super) const SHORT_BODY_BYTES: usize = 128 << 10;

impl Verb<'_> {
    /// Whether it answers with numbers of records, and not with records.
    fn counts(&self) -> bool {
        matches!(self, Self::ReplaceAll | Self::MergeMatching(..) | Self::DeleteMatching(..))
    }

    /// Where it runs if it does not run at once.
    fn lane(&self) -> Lane {
        match self {
            Self::Read(_) | Self::ReadSelected(..) => Lane::Reading,
            Self::List(_) | Self::ListByBody(_) | Self::MergeMatching(..) | Self::DeleteMatching(..) => Lane::Scanning,
            Self::Create | Self::ReplaceAll | Self::Replace(_) | Self::Merge(_) | Self::Delete(_) => Lane::Writing,
        }
    }

    /// Whether the query of the path belongs to it.
    pub(super) fn has_query(&self) -> bool {
        matches!(self, Self::List(_) | Self::MergeMatching(..) | Self::DeleteMatching(..))
    }

    /// What its body may be, if it has one.
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

impl Route<'_> {
    /// The shape of its path.
    pub fn template(&self) -> Template {
        self.template
    }

    /// What it subscribes to, and behind which event, if it does. Then [`Route::answer`] has the head alone.
    pub fn follows(&self) -> Option<(Topic, Option<EventId>)> {
        let Target::Changes(table, id, after) = &self.target else { return None };
        let topic = id.as_ref().map_or_else(|| Topic::table(table), |id| Topic::record(table, id));
        Some((topic, *after))
    }

    /// The bytes that whoever has the connection streams (`handlers::blobs`), if those of a blob are asked for or sent.
    pub fn blob(&self) -> Option<&Blob<'_>> {
        match &self.target {
            Target::Blob(blob) if blob.access != Access::Delete => Some(blob),
            _ => None,
        }
    }

    /// Where the handler runs with this body if it does not run at once.
    pub fn lane(&self, body: &[u8]) -> Lane {
        match &self.target {
            Target::Options(_) | Target::Changes(..) => Lane::Reading,
            Target::Blob(blob) => match blob.access {
                Access::Read | Access::Describe => Lane::Reading,
                Access::Write => Lane::Uploading,
                Access::Delete => Lane::Writing,
            },
            Target::Table(_, Verb::List(_) | Verb::ListByBody(_)) if self.accepted.format.is_lines() => Lane::Dumping,
            Target::Table(_, verb) => verb.lane(),
            Target::Load(_) | Target::Batch => Lane::Writing,
            Target::Graphql(asked, _) => {
                let request = asked.request(body).ok();
                match request.and_then(|request| self.routes.graphql.known_kind(&request)) {
                    Some(Kind::Reads) => Lane::Reading,
                    Some(Kind::Mutation) => Lane::Writing,
                    // Validating a document that is new takes a processor, too.
                    Some(Kind::Lists) | None => Lane::Scanning,
                }
            }
        }
    }

    /// Whether the handler may write.
    pub fn may_write(&self) -> bool {
        match &self.target {
            Target::Options(_) | Target::Changes(..) => false,
            Target::Table(_, verb) => verb.lane() == Lane::Writing,
            Target::Blob(blob) => matches!(blob.access, Access::Write | Access::Delete),
            Target::Load(_) | Target::Batch => true,
            Target::Graphql(_, manner) => !manner.safe,
        }
    }

    /// Whether the answer to this body, once there is one, tells what was written.
    pub fn has_written(&self, body: &[u8]) -> bool {
        match &self.target {
            Target::Table(_, verb) => verb.counts() || verb.lane() == Lane::Writing,
            Target::Load(_) | Target::Batch => true,
            Target::Graphql(asked, _) => {
                let request = asked.request(body).ok();
                request.and_then(|request| self.routes.graphql.known_kind(&request)) == Some(Kind::Mutation)
            }
            Target::Options(_) | Target::Changes(..) | Target::Blob(_) => false,
        }
    }

    /// How much work the handler has with this body.
    pub fn work(&self, body: &[u8]) -> Work {
        let long = match &self.target {
            Target::Options(_) | Target::Changes(..) | Target::Blob(_) => false,
            Target::Table(_, Verb::Read(_) | Verb::ReadSelected(..)) => false,
            Target::Load(_) | Target::Batch => true,
            // Whatever is long says so when it has begun.
            Target::Graphql(..) => body.len() > SHORT_BODY_BYTES,
            Target::Table(table, Verb::List(query)) => !query.is_short(table),
            // Reading one that is not long itself says how long it takes; whatever is wrong with it is said where it is read again.
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

    /// The query that is a body; white space at its end is that of an editor.
    fn query_in<'b>(&self, table: &Table, body: &'b [u8], limits: &Limits) -> Result<Query<'b>> {
        let text = std::str::from_utf8(body.trim_ascii_end()).map_err(|error| Error::Invalid {
            detail: "the query is not UTF-8".to_owned(),
            place: Place::Position(error.valid_up_to()),
        })?;
        Ok(uncut(Query::parse(self.routes.database.schema(), table, text, limits)?, self.accepted.format))
    }

    /// Whether the body is compressed, by gzip.
    pub fn has_gzip(&self) -> bool {
        self.body_format.gzip
    }

    /// The coding of an answer, if it is to have one.
    pub fn coding_of(&self, answer: &Answer) -> Option<Coding> {
        self.accepted.coded.of_bytes(answer.body().len())
    }

    /// The coding of an answer in pieces, if it is to have one.
    pub fn coding_of_pieces(&self) -> Option<Coding> {
        self.accepted.coded.of_pieces()
    }

    /// The answer in pieces, before its first piece.
    pub fn head_of_pieces(&self) -> Answer {
        let mut head = handlers::list_head(self.accepted.format);
        if let Some(coding) = self.coding_of_pieces() {
            coding::say(head.headers_mut(), coding);
        }
        head
    }

    /// The load that the body of the request is, and its table, if it is one; `line_bytes`: the longest line.
    pub fn load(&self, line_bytes: usize) -> Option<(&Table, Load)> {
        match &self.target {
            Target::Load(table) => Some((*table, Load::new(line_bytes, self.body_format.gzip))),
            _ => None,
        }
    }

    /// The answer to a load that has come to its end.
    ///
    /// # Errors
    /// `Corrupt`, which would be a defect.
    pub fn loaded(&self, load: &Load) -> Result<Answer> {
        self.accepted.format.convert(load.answer(), None)
    }

    /// Runs the handler; a long list is handed over in pieces, the last of which is the body of the answer.
    ///
    /// # Errors
    /// What the handler returns; what `hand_over` returns.
    pub fn answer_in_pieces(
        &self,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
        hand_over: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
    ) -> Result<Answer> {
        let format = self.accepted.format;
        match &self.target {
            Target::Table(table, Verb::List(query)) => {
                handlers::list_in_pieces(database, table, query, format, hand_over)
            }
            Target::Table(table, Verb::ListByBody(limits)) => {
                let query = self.query_in(table, body, limits)?;
                handlers::list_in_pieces(database, table, &query, format, hand_over)
            }
            _ => self.answer(database, headers, body),
        }
    }

    /// Runs the handler.
    ///
    /// # Errors
    /// What the handler returns.
    ///
    /// # Panics
    /// If it is a load or leads to bytes ([`Route::blob`]), which are streamed.
    pub fn answer(&self, database: &Database, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
        let (format, body) = (self.accepted.format, &*self.body_format.json(body)?);
        match &self.target {
            Target::Table(table, verb) => self.answer_in(table, verb, database, headers, body),
            Target::Options(allow) => Ok(handlers::options(allow)),
            Target::Changes(..) => Ok(handlers::event_stream(Bytes::new())),
            Target::Batch => {
                let resolve = |path: &str| self.routes.operation_target(path);
                batch::batch(database, headers, body, format, self.routes.options.max_rows, resolve)
            }
            Target::Graphql(asked, manner) => self.routes.graphql.answer(database, &asked.request(body)?, *manner),
            Target::Blob(Blob { access: Access::Delete, table, id, attribute }) => {
                blobs::remove(database, table, id, *attribute, headers)
            }
            Target::Load(_) | Target::Blob(_) => unreachable!("it is streamed"),
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
        // What was read has its format already.
        format.convert(answer, (!verb.counts()).then_some((database.schema(), table)))
    }
}
