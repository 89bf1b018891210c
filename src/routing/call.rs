//! A resolved request with its body: how much work it is, where it runs, and running it.

use std::cell::OnceCell;

use bytes::Bytes;
use http::HeaderMap;

use super::route::{Access, Asked, Blob, Pool, Route, Target, Verb};
use super::{streams, without_default_limit};
use crate::error::{Error, Place};
use crate::graphql::{self, Kind};
use crate::handlers::{self, Response, Result, batch, blobs};
use crate::multicast::Registry;
use crate::query::{Limits, Query};
use crate::schema::{Stream, Table};
use crate::transaction::Database;

/// Longer queries are not even parsed on a worker thread.
const SHORT_QUERY_BYTES: usize = 8 << 10;

/// Events in a longer body are appended in the pool.
const SHORT_BULK_BYTES: usize = 64 << 10;

/// Parsing and writing a record in a longer body may take a millisecond, for which others would wait.
pub(super) const SHORT_BODY_BYTES: usize = 128 << 10;

/// The amount of work of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Microseconds, if the data is in memory: may run on a worker thread, where others wait for it.
    Short,
    /// Possibly long: must run in the pool.
    Long,
}

/// A request with its body, of which no part is decoded twice. The call stays on its thread, and another one decodes the body again: what
/// waits for a thread is counted by the bytes of its body, and variables take many times as much once they are decoded.
pub struct Call<'c> {
    route: &'c Route<'c>,
    body: &'c [u8],
    query: OnceCell<Query<'c>>,
    graphql: OnceCell<graphql::Request>,
}

impl<'c> Call<'c> {
    /// Joins a route and its body.
    pub fn new(route: &'c Route<'c>, body: &'c [u8]) -> Self {
        Self { route, body, query: OnceCell::new(), graphql: OnceCell::new() }
    }

    /// Returns the route.
    pub fn route(&self) -> &'c Route<'c> {
        self.route
    }

    /// Returns the pool of the handler, if it does not run inline.
    pub fn pool(&self) -> Pool {
        match (&self.route.target, self.known_kind()) {
            (Target::Table(_, Verb::List(_) | Verb::ListByBody(_)), _) if self.route.accepted.format.is_lines() => {
                Pool::Dumping
            }
            (_, Some(Kind::Reads)) => Pool::Reading,
            (_, Some(Kind::Mutation)) => Pool::Writing,
            (target, _) => target.properties().pool,
        }
    }

    /// Returns whether a successful response reports a completed write.
    pub fn has_written(&self) -> bool {
        match self.route.target {
            Target::Graphql(..) => self.known_kind() == Some(Kind::Mutation),
            _ => self.route.may_write(),
        }
    }

    /// Returns the amount of work of the handler.
    pub fn work(&self) -> Work {
        let (route, body) = (self.route, self.body);
        let long = match &route.target {
            Target::Options(_) | Target::Changes(..) | Target::Blob(_) => false,
            Target::Load(_) | Target::Batch | Target::Multicast(..) => true,
            Target::Stream(_, asked) => asked.is_long() || body.len() > SHORT_BULK_BYTES,
            // Longer work returns `WouldBlock` once it has begun.
            Target::Graphql(..) => body.len() > SHORT_BODY_BYTES,
            // Redis is waited for.
            Target::Table(table, _) if table.in_redis => true,
            Target::Table(table, Verb::List(query)) => !query.is_short(table),
            // An invalid query is short; its errors are reported by the handler.
            Target::Table(table, Verb::ListByBody(limits)) => {
                body.len() > SHORT_QUERY_BYTES || self.query(table, limits).is_ok_and(|query| !query.is_short(table))
            }
            Target::Table(_, verb) => {
                let properties = verb.properties();
                let is_large = || route.body_format.is_array(body) || body.len() > SHORT_BODY_BYTES;
                properties.counts || properties.writes && is_large()
            }
        };
        if long { Work::Long } else { Work::Short }
    }

    /// Returns the kind of a GraphQL request, and so its cost, if its document is in the cache.
    fn known_kind(&self) -> Option<Kind> {
        let Target::Graphql(asked, _) = &self.route.target else { return None };
        self.route.routes.graphql.known_kind(self.graphql(asked).ok()?)
    }

    /// Returns the GraphQL request.
    fn graphql(&self, asked: &Asked<'_>) -> crate::error::Result<&graphql::Request> {
        if let Some(decoded) = self.graphql.get() {
            return Ok(decoded);
        }
        let decoded = match asked {
            Asked::Url(query) => graphql::Request::in_url(query),
            Asked::Body => graphql::Request::in_body(self.body),
        }?;
        Ok(self.graphql.get_or_init(|| decoded))
    }

    /// Returns the query in the body; trailing white space, as added by editors, is ignored.
    fn query(&self, table: &Table, limits: &Limits) -> Result<&Query<'c>> {
        if let Some(parsed) = self.query.get() {
            return Ok(parsed);
        }
        let text = std::str::from_utf8(self.body.trim_ascii_end()).map_err(|error| Error::Invalid {
            detail: "the query is not UTF-8".to_owned(),
            place: Place::Position(error.valid_up_to()),
        })?;
        let parsed = Query::parse(self.route.routes.database.schema(), table, text, limits)?;
        Ok(self.query.get_or_init(|| without_default_limit(parsed, self.route.accepted.format)))
    }

    /// Runs the handler; a long list is passed to `send_chunk` in pieces, except for the last, which is the body of the response.
    ///
    /// # Errors
    /// Errors of the handler and of `send_chunk`.
    pub fn respond_in_pieces(
        &self,
        database: &Database,
        headers: &HeaderMap,
        send_chunk: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
    ) -> Result<Response> {
        let (table, query) = match &self.route.target {
            Target::Table(table, Verb::List(query)) => (table, &**query),
            Target::Table(table, Verb::ListByBody(limits)) => (table, self.query(table, limits)?),
            _ => return self.respond(database, headers),
        };
        let format = self.route.accepted.format;
        match self.registry_of(table)? {
            None => handlers::list_in_pieces(database, table, query, format, send_chunk),
            Some(registry) => handlers::registry::list_in_pieces(registry, database, table, query, format, send_chunk),
        }
    }

    /// Returns the registry in which a table is kept, if it is not kept here.
    fn registry_of(&self, table: &Table) -> Result<Option<&'c Registry>> {
        match (table.in_redis, self.route.routes.registry()) {
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
    pub fn respond(&self, database: &Database, headers: &HeaderMap) -> Result<Response> {
        let route = self.route;
        let body = &*route.body_format.json(self.body)?;
        match &route.target {
            Target::Table(table, verb) => self.respond_for_table(table, verb, database, headers, body),
            Target::Options(allow) => Ok(handlers::options(allow)),
            Target::Changes(..) => Ok(handlers::event_stream(Bytes::new())),
            Target::Stream(stream, asked) => self.respond_for_stream(stream, asked, database, headers, body),
            Target::Batch => {
                let resolve = |path: &str| self.route.routes.operation_target(path);
                let (streams, most) = (&self.route.routes.streams, self.route.routes.options.max_rows);
                batch::batch(streams, database, headers, body, route.accepted.format, most, resolve)
            }
            Target::Graphql(asked, transport) => {
                self.route.routes.graphql.respond(database, self.graphql(asked)?, *transport)
            }
            Target::Blob(Blob { access: Access::Delete, table, id, attribute, .. }) => {
                blobs::remove(database, table, id, *attribute, headers)
            }
            Target::Load(_) | Target::Blob(_) => unreachable!("it is streamed"),
            Target::Multicast(..) => unreachable!("it is awaited"),
        }
    }

    fn respond_for_stream(
        &self,
        stream: &Stream,
        asked: &streams::Asked<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response> {
        use handlers::streams::{append, append_all, commit, group, groups, read, remove_group, trim, truncate};
        let streams = &self.route.routes.streams;
        match asked {
            streams::Asked::Groups => groups(streams, database, stream),
            streams::Asked::Group(name) => group(streams, database, stream, name, headers),
            streams::Asked::Commit(name) => commit(streams, database, stream, name, headers, body),
            streams::Asked::RemoveGroup(name) => remove_group(streams, database, stream, name, headers),
            streams::Asked::Append => append(streams, database, stream, body),
            streams::Asked::AppendAll => append_all(streams, database, stream, headers, body),
            streams::Asked::Read(reading) => {
                read(streams, database, stream, reading, self.route.routes.options.stream_answer_bytes)
            }
            streams::Asked::Follow(_) => Ok(handlers::event_stream(Bytes::new())),
            streams::Asked::Trim { partition, before } => trim(streams, database, stream, *partition, *before),
            streams::Asked::Truncate => truncate(streams, database, stream),
        }
    }

    fn respond_for_table(
        &self,
        table: &Table,
        verb: &Verb<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response> {
        let accepted = self.route.accepted;
        let format = accepted.format;
        if let Some(registry) = self.registry_of(table)? {
            return self.respond_for_registry(registry, table, verb, database, headers, body);
        }
        let response = match verb {
            Verb::Read(id) => handlers::read(database, table, id, headers, accepted),
            Verb::ReadSelected(id, query) => handlers::read_selected(database, table, id, query, headers, accepted),
            Verb::List(query) => handlers::list(database, table, query, format),
            Verb::ListByBody(limits) => handlers::list(database, table, self.query(table, limits)?, format),
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
        format.convert(response, (!verb.properties().counts).then_some((database.schema(), table)))
    }

    fn respond_for_registry(
        &self,
        registry: &Registry,
        table: &Table,
        verb: &Verb<'_>,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response> {
        use handlers::registry::{read, register, unregister};
        let accepted = self.route.accepted;
        let format = accepted.format;
        let response = match verb {
            Verb::Read(id) => read(registry, database, table, id, None, headers, accepted),
            Verb::ReadSelected(id, query) => read(registry, database, table, id, Some(query), headers, accepted),
            Verb::Replace(id) => register(registry, database, table, id, headers, body),
            Verb::Delete(id) => unregister(registry, table, id, headers),
            Verb::List(_) | Verb::ListByBody(_) => unreachable!("it comes in pieces"),
            Verb::Create | Verb::ReplaceAll | Verb::Merge(_) | Verb::MergeMatching(..) | Verb::DeleteMatching(..) => {
                unreachable!("tables in Redis do not have it")
            }
        }?;
        format.convert(response, Some((database.schema(), table)))
    }
}
