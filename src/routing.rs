//! Routing: resolves a method and a path to a handler.
//!
//! A purpose-built matcher, because table paths have three shapes and occur in every request: the path is split by bytes, only segments
//! with a `%` are decoded, and the table is looked up by binary search. A [`Route`] that exists is valid: the table is exported, the
//! resource supports the method, any query in the path is parsed, and client and server agree on media types. Only the body and the stored
//! records are checked later.
//!
//! Non-goals: paths that are not a table's (`ingress` has a router for them); when and where a handler runs (`ingress`).

mod call;
mod route;
mod streams;

use std::borrow::Cow;

use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Place};
use crate::feed::Topic;
use crate::graphql::{Graphql, Transport};
use crate::handlers::{
    self, Failure, Options, Result, batch,
    coding::AcceptedCoding,
    media::{self, Accepted, Bodies, BodyFormat, Format, ResponseKind, Syntax},
};
use crate::multicast::Registry;
use crate::openapi;
use crate::query::{Limits, Query};
use crate::schema::{Attribute, Schema, Stream, Table, ThumbSize};
use crate::streams::Streams;
use crate::transaction::Database;
pub use call::{Call, Work};
pub use route::{Access, Blob, Changes, Pool, Route};
use route::{Asked, Target, Verb};

/// The paths of a schema.
pub struct Routes {
    database: Database,
    streams: Streams,
    /// Of the tables that are kept in Redis.
    registry: Option<Registry>,
    options: Options,
    /// The exported tables: name and position in the schema, sorted by name.
    tables: Box<[(Box<str>, usize)]>,
    /// The index in `tables` of each table, by table id; 0 if it is not exported.
    places: Box<[usize]>,
    graphql: Graphql,
}

/// A path template, as an index into [`Routes::templates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template(pub usize);

/// The path of GraphQL; no table has that name.
const GRAPHQL: &str = "/graphql";
const GRAPHQL_METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// The path of batches; no table name begins with `_`.
const BATCH: &str = "/_batch";
const BATCH_METHODS: &str = "POST, OPTIONS";

/// The paths that are those of no table and no stream, in the order of their templates.
const BESIDE: [&str; 2] = [GRAPHQL, BATCH];

const RECORD: &str = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";
const BLOB: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

const STREAM: &str = "GET, HEAD, POST, DELETE, OPTIONS";
const BULK: &str = "POST, OPTIONS";
const GROUPS: &str = "GET, HEAD, OPTIONS";
const GROUP: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

/// Of tables that are kept in Redis, of their registrations, and of those whose ids are the names of verbs.
const TABLE_IN_REDIS: &str = "GET, HEAD, OPTIONS";
const REGISTRATION: &str = "GET, HEAD, PUT, DELETE, OPTIONS";
const REGISTRATION_OR_VERB: &str = "GET, HEAD, POST, PUT, DELETE, OPTIONS";

/// All methods that any resource supports. A table supports them all.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Routes {
    /// Creates the routes to the exported tables and streams of a database, and opens the streams.
    ///
    /// # Errors
    /// As [`Streams::open`].
    pub fn new(database: Database, options: Options) -> crate::error::Result<Self> {
        let (streams, tables) = (Streams::open(&database)?, names(database.schema()));
        let places = places(database.schema(), &tables);
        let graphql = Graphql::new(&database, options.max_rows);
        Ok(Self { database, streams, registry: None, options, tables, places, graphql })
    }

    /// Serves the tables that are kept in Redis from there.
    #[must_use]
    pub fn with_registry(self, registry: Option<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// Returns the registry of the tables that are kept in Redis.
    pub fn registry(&self) -> Option<&Registry> {
        self.registry.as_ref()
    }

    /// Returns the OpenAPI document of these paths and those beside them.
    pub fn described(&self) -> serde_json::Value {
        openapi::document(self.database.schema(), self.options.max_rows)
    }

    /// Returns all path templates, with `{id}` for any id and `{blob}` for a segment below it.
    pub fn templates(&self) -> Vec<String> {
        let shapes = ["", "/{id}", "/{id}/{blob}"];
        let of_tables = self.tables.iter().flat_map(|(name, _)| shapes.map(|shape| format!("/{name}{shape}")));
        let of_streams = self
            .exported_streams()
            .flat_map(|(_, stream)| streams::SHAPES.map(|shape| format!("/{}{shape}", stream.name)));
        of_tables.chain(BESIDE.map(str::to_owned)).chain(of_streams).collect()
    }

    /// Returns the streams of the database.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the exported streams, each with its place among them.
    fn exported_streams(&self) -> impl Iterator<Item = (usize, &Stream)> {
        self.database.schema().streams.iter().filter(|stream| stream.exported).enumerate()
    }

    /// Returns a stream by its name in a path, and the template of its path.
    fn stream(&self, name: &str, rest: &str) -> Option<(&Stream, Template)> {
        let name = percent_decode_str(name).decode_utf8().ok()?;
        let (place, stream) = self.exported_streams().find(|(_, stream)| stream.name == *name)?;
        let first = 3 * self.tables.len() + BESIDE.len() + streams::SHAPES.len() * place;
        Some((stream, Template(first + streams::shape(rest))))
    }

    /// Returns the template of a path, even if the request is invalid.
    pub fn template_of(&self, uri: &Uri) -> Option<Template> {
        let (name, rest) = segments(uri.path())?;
        match self.table(name) {
            Some(table) => {
                Some(self.template_in(table, usize::from(!rest.is_empty()) + usize::from(rest.contains('/'))))
            }
            None => self.template_beside(uri.path()).or_else(|| self.stream(name, rest).map(|(_, template)| template)),
        }
    }

    /// Returns the template of a path with this many segments below the table.
    fn template_in(&self, table: &Table, below: usize) -> Template {
        Template(3 * self.places[table.id as usize] + below)
    }

    /// Returns whether the paths of a template are those of blobs.
    pub fn is_of_blobs(&self, template: Template) -> bool {
        template.0 < 3 * self.tables.len() && template.0 % 3 == 2
    }

    /// Returns the template of a path that is not a table's.
    fn template_beside(&self, path: &str) -> Option<Template> {
        let position = BESIDE.iter().position(|known| *known == path)?;
        Some(Template(3 * self.tables.len() + position))
    }

    /// Resolves a request; `None` if its path is none of these.
    ///
    /// # Errors
    /// 400 for the path or the query; 404, 405, 406, 415. These can be answered before the body is read.
    pub fn resolve<'r>(&'r self, method: &Method, uri: &'r Uri, headers: &HeaderMap) -> Option<Result<Route<'r>>> {
        #[cfg(feature = "plant")]
        crate::plant::burn("routing");
        let (name, rest) = segments(uri.path())?;
        if let Some(table) = self.table(name) {
            return Some(self.resolve_in(table, rest, method, uri.query().unwrap_or(""), headers));
        }
        if let Some((stream, template)) = self.stream(name, rest) {
            let asked = (method, uri.query().unwrap_or(""));
            return Some(self.resolve_stream(stream, rest, template, asked, headers));
        }
        let template = self.template_beside(uri.path())?;
        Some(match uri.path() {
            GRAPHQL => self.resolve_graphql(template, method, uri.query().unwrap_or(""), headers),
            _ => self.resolve_batch(template, method, uri.query(), headers),
        })
    }

    fn resolve_graphql<'r>(
        &'r self,
        template: Template,
        method: &Method,
        query: &'r str,
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        let (asked, body_format) = match *method {
            Method::POST => (Asked::Body, BodyFormat::from_headers(headers, Bodies::Json)?),
            Method::GET | Method::HEAD => (Asked::Url(query), BodyFormat::default()),
            Method::OPTIONS => return Ok(self.options(GRAPHQL_METHODS, template)),
            _ => return Err(Failure::Method { allow: GRAPHQL_METHODS }),
        };
        handlers::unconditional(headers)?;
        let transport = Transport { safe: !matches!(asked, Asked::Body), strict: media::accepts_graphql(headers)? };
        let accepted = Accepted { format: Format::Json, coded: AcceptedCoding::accepted(headers)? };
        Ok(Route { routes: self, target: Target::Graphql(asked, transport), template, accepted, body_format })
    }

    fn resolve_batch(
        &self,
        template: Template,
        method: &Method,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Route<'_>> {
        match *method {
            Method::POST if query.is_some() => Err(no_query_here()),
            Method::POST => {
                let (accepted, body_format) = (
                    Accepted::negotiate(headers, ResponseKind::One)?,
                    BodyFormat::from_headers(headers, Bodies::Records)?,
                );
                Ok(Route { routes: self, target: Target::Batch, template, accepted, body_format })
            }
            Method::OPTIONS => Ok(self.options(BATCH_METHODS, template)),
            _ => Err(Failure::Method { allow: BATCH_METHODS }),
        }
    }

    fn resolve_stream<'r>(
        &'r self,
        stream: &'r Stream,
        rest: &'r str,
        template: Template,
        (method, query): (&Method, &str),
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        use streams::{Asked, Parameters, deleting, reading};
        let (allow, group) = match rest {
            "" => (STREAM, None),
            "bulk" => (BULK, None),
            "consumers" => (GROUPS, None),
            _ => match rest.strip_prefix("consumers/").filter(|group| !group.contains('/')) {
                Some(group) => (GROUP, Some(decoded(group)?)),
                None => return Err(Failure::nothing_at(&format!("/{}/{rest}", stream.name))),
            },
        };
        let asked = match (rest, method, group) {
            (_, &Method::OPTIONS, _) => return Ok(self.options(allow, template)),
            ("", &Method::GET | &Method::HEAD, _) => reading(stream, query, headers)?,
            ("", &Method::DELETE, _) => deleting(stream, query)?,
            ("", &Method::POST, _) => Asked::Append,
            ("bulk", &Method::POST, _) => Asked::AppendAll,
            ("consumers", &Method::GET | &Method::HEAD, _) => Asked::Groups,
            (_, &Method::GET | &Method::HEAD, Some(group)) => Asked::Group(group),
            (_, &Method::PUT, Some(group)) => Asked::Commit(group),
            (_, &Method::DELETE, Some(group)) => Asked::RemoveGroup(group),
            _ => return Err(Failure::Method { allow }),
        };
        if !matches!(asked, Asked::Read(_) | Asked::Follow(_) | Asked::Trim { .. } | Asked::Truncate) {
            Parameters::of(query, &[])?;
        }
        if !matches!(asked, Asked::Group(_) | Asked::Commit(_) | Asked::RemoveGroup(_)) {
            handlers::unconditional(headers)?;
        }
        let accepted = match asked {
            Asked::Follow(_) => handlers::accepts_events(headers).map(|()| Accepted::default())?,
            _ => Accepted::negotiate(headers, ResponseKind::Json)?,
        };
        let body_format = match asked {
            Asked::Append | Asked::AppendAll | Asked::Commit(_) => BodyFormat::from_headers(headers, Bodies::Json)?,
            _ => BodyFormat::default(),
        };
        Ok(Route { routes: self, target: Target::Stream(stream, asked), template, accepted, body_format })
    }

    fn table(&self, name: &str) -> Option<&Table> {
        let name = match name.contains('%') {
            true => percent_decode_str(name).decode_utf8().ok()?,
            false => Cow::Borrowed(name),
        };
        let found = self.tables.binary_search_by(|(known, _)| (**known).cmp(&*name)).ok()?;
        self.database.schema().tables.get(self.tables[found].1)
    }

    /// Returns the failure of a request whose path does not exist, with the path that it has if the case of a table is corrected.
    pub fn nothing_at(&self, path: &str) -> Failure {
        let (name, rest) = segments(path).unwrap_or_default();
        let is_meant = |known: &str| known != name && known.eq_ignore_ascii_case(name);
        match self.tables.iter().find(|(known, _)| is_meant(known)) {
            Some((known, _)) => {
                let slash = if rest.is_empty() { "" } else { "/" };
                let detail = format!("no resource at {path}: did you mean /{known}{slash}{rest}?");
                Error::NotFound { detail }.into()
            }
            None => Failure::nothing_at(path),
        }
    }

    fn resolve_in<'r>(
        &'r self,
        table: &'r Table,
        rest: &'r str,
        method: &Method,
        query: &'r str,
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        let is_query = rest == "query" && *method == Method::POST;
        let takes_messages = rest == "multicast" && table.multicast.is_some();
        if let Some((id, name)) = rest.split_once('/') {
            return self.resolve_blob(table, id, name, method, query);
        }
        let has_method = |allow: &str| allow.split(", ").any(|supported| supported == method.as_str());
        if table.in_redis && !has_method(methods_of(table, rest)) {
            return Err(Failure::Method { allow: methods_of(table, rest) });
        }
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let follows = if is_read { asks_for_changes(query)? } else { None };
        let template = self.template_in(table, usize::from(!rest.is_empty() && !is_query));
        let verb = match rest {
            _ if *method == Method::OPTIONS => {
                return Ok(self.options(methods_of(table, rest), template));
            }
            _ if takes_messages && *method == Method::POST => {
                return self.resolve_multicast(table, query, template, headers);
            }
            _ if let Some(hold) = follows => return self.resolve_changes(table, rest, hold, template, headers),
            "" => self.collection_verb(table, method, query)?,
            _ if is_query => Verb::ListByBody(Limits::in_body(self.options.max_rows)),
            _ => record_verb(rest, method)?,
        };
        let verb = match verb {
            verb if query.is_empty() || verb.properties().has_query => verb,
            Verb::Read(id) => Verb::ReadSelected(id, Box::new(self.selection(table, query)?)),
            _ => return Err(no_query_here()),
        };
        if matches!(verb, Verb::List(_) | Verb::ListByBody(_)) {
            handlers::unconditional(headers)?;
        }
        let accepted = match &verb {
            Verb::Delete(_) => Accepted::default(),
            Verb::List(query) if query.explain || query.pagination => Accepted::negotiate(headers, ResponseKind::One)?,
            Verb::List(_) | Verb::ListByBody(_) => Accepted::negotiate(headers, ResponseKind::List)?,
            _ => Accepted::negotiate(headers, ResponseKind::One)?,
        };
        let body_format = match verb.properties().bodies {
            Some(bodies) => BodyFormat::from_headers(headers, bodies)?,
            None => BodyFormat::default(),
        };
        let target = match verb {
            Verb::List(query) => {
                Target::Table(table, Verb::List(Box::new(without_default_limit(*query, accepted.format))))
            }
            Verb::Create if body_format.syntax == Syntax::Lines => {
                handlers::of_one_record(headers)?;
                Target::Load(table)
            }
            verb => Target::Table(table, verb),
        };
        Ok(Route { routes: self, target, template, accepted, body_format })
    }

    fn resolve_changes<'r>(
        &'r self,
        table: &'r Table,
        raw_id: &'r str,
        hold: Hold,
        template: Template,
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        let id = (!raw_id.is_empty()).then(|| decoded(raw_id)).transpose()?;
        if let Hold::Asked { at } = hold {
            let detail = match (&id, table.expiration) {
                (Some(_), Some(_)) if table.in_redis => {
                    Some(format!("registrations of {} are in Redis, and renewed by PUT only", table.name))
                }
                (Some(_), Some(_)) => None,
                (None, _) => Some("hold is for the changes of one record".to_owned()),
                (_, None) => Some(format!("records of {} do not expire: there is nothing to hold", table.name)),
            };
            let invalid = |detail| Error::Invalid { detail, place: Place::Position(at) };
            detail.map_or(Ok(()), |detail| Err(invalid(detail)))?;
        }
        if id.is_none() && table.in_redis {
            let detail = format!("registrations of {} are in Redis, which has no feed of their changes", table.name);
            return Err(Error::Invalid { detail, place: Place::Position(0) }.into());
        }
        handlers::accepts_events(headers)?;
        handlers::unconditional(headers)?;
        let topic = id.map_or_else(|| Topic::table(table), |id| Topic::record(table, &id));
        let holds = matches!(hold, Hold::Asked { .. });
        let target = Target::Changes(Changes { topic, after: handlers::last_event_id(headers)?, holds });
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Ok(Route { routes: self, target, template, accepted, body_format })
    }

    fn resolve_multicast<'r>(
        &'r self,
        table: &'r Table,
        query: &'r str,
        template: Template,
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        handlers::unconditional(headers)?;
        let limits = Limits::in_url(self.options.max_rows);
        let conditions = handlers::multicast::conditions(&self.database, table, query, &limits)?;
        let accepted = Accepted::negotiate(headers, ResponseKind::One)?;
        let body_format = BodyFormat::from_headers(headers, Bodies::Records)?;
        let target = Target::Multicast(table, Box::new(conditions));
        Ok(Route { routes: self, target, template, accepted, body_format })
    }

    /// Returns the options of the handlers.
    pub fn options_of_handlers(&self) -> &handlers::Options {
        &self.options
    }

    /// Returns the maximum number of records that one request may concern.
    pub fn max_rows(&self) -> usize {
        self.options.max_rows
    }

    fn resolve_blob<'r>(
        &'r self,
        table: &'r Table,
        raw_id: &'r str,
        name: &str,
        method: &Method,
        query: &str,
    ) -> Result<Route<'r>> {
        let (template, id) = (self.template_in(table, 2), decoded(raw_id)?);
        let name = percent_decode_str(name).decode_utf8_lossy();
        let attribute = table.attribute(&name).filter(|attribute| table.blobs.contains(attribute));
        let attribute = attribute.ok_or_else(|| {
            let detail = match table.relationship(&name) {
                Some(_) => {
                    format!("{name} is a relationship: GET /{}/{raw_id}?select={name}{{..}}", table.name)
                }
                None => format!("a record of {} has no Blob {name:?}", table.name),
            };
            Error::NotFound { detail }
        })?;
        let access = match *method {
            Method::GET => Access::Read,
            Method::HEAD => Access::Describe,
            Method::PUT => Access::Write,
            Method::DELETE => Access::Delete,
            Method::OPTIONS => return Ok(self.options(BLOB, template)),
            _ => return Err(Failure::Method { allow: BLOB }),
        };
        let thumbnail = match query {
            "" => None,
            query if matches!(access, Access::Read | Access::Describe) => {
                Some(thumbnail(&table.attributes[attribute], query)?)
            }
            _ => return Err(no_query_of_a_blob(0)),
        };
        let target = Target::Blob(Blob { access, table, id, attribute, thumbnail });
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Ok(Route { routes: self, target, template, accepted, body_format })
    }

    fn options(&self, allow: &'static str, template: Template) -> Route<'_> {
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Route { routes: self, target: Target::Options(allow), template, accepted, body_format }
    }

    /// Parses the query of a request for one record.
    fn selection<'r>(&self, table: &Table, text: &'r str) -> Result<Query<'r>> {
        let query = Query::parse(self.database.schema(), table, text, &Limits::in_url(self.options.max_rows))?;
        let other = query.clauses.iter().find(|clause| clause.name != "select");
        let position = if query.filter.is_empty() { other.map(|clause| clause.position) } else { Some(0) };
        match position {
            None => Ok(query),
            Some(position) => {
                let detail = "a single record supports only select".to_owned();
                Err(Error::Invalid { detail, place: Place::Position(position) }.into())
            }
        }
    }

    /// Resolves the path of a batch operation.
    ///
    /// # Errors
    /// 404 if it is not a table's; 400 if it has a query or an invalid id.
    fn operation_target(&self, path: &str) -> Result<batch::Target<'_>> {
        let nothing = || self.nothing_at(path);
        if path.contains(['?', '#']) {
            return Err(Error::invalid("a query is not supported in the path of an operation").into());
        }
        let (name, rest) = segments(path).ok_or_else(nothing)?;
        if let Some((stream, _)) = self.stream(name, rest) {
            return match rest.strip_prefix("consumers/").filter(|group| !group.contains('/')) {
                Some(group) => Ok(batch::Target::Group(stream, decoded(group)?.into_owned())),
                None if rest.is_empty() => Ok(batch::Target::Stream(stream)),
                None => Err(nothing()),
            };
        }
        let table = self.table(name).filter(|_| !rest.contains('/')).ok_or_else(nothing)?;
        if table.in_redis {
            let detail = format!("registrations of {} are in Redis, and no part of a transaction here", table.name);
            return Err(Error::invalid(detail).into());
        }
        let id = (!rest.is_empty()).then(|| decoded(rest).map(Cow::into_owned)).transpose()?;
        Ok(batch::Target::Table(table, id))
    }

    fn collection_verb<'r>(&self, table: &Table, method: &Method, query: &'r str) -> Result<Verb<'r>> {
        match *method {
            Method::GET | Method::HEAD => {
                let limits = Limits::in_url(self.options.max_rows);
                Ok(Verb::List(Box::new(Query::parse(self.database.schema(), table, query, &limits)?)))
            }
            Method::POST => Ok(Verb::Create),
            Method::PUT => Ok(Verb::ReplaceAll),
            Method::PATCH => Ok(Verb::MergeMatching(query, Limits::in_url(self.options.max_rows))),
            Method::DELETE => Ok(Verb::DeleteMatching(query, Limits::in_url(self.options.max_rows))),
            _ => Err(Failure::Method { allow: METHODS }),
        }
    }
}

/// Splits a path into the name of a table and what is below it; a slash after the name of a table or after an id has no meaning.
fn segments(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('/')?;
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let id = rest.strip_suffix('/').filter(|id| !id.is_empty() && !id.contains('/'));
    Some((name, id.unwrap_or(rest)))
}

/// Returns the methods that a table, or what is below it, supports.
fn methods_of(table: &Table, rest: &str) -> &'static str {
    let is_posted = rest == "query" || rest == "multicast" && table.multicast.is_some();
    match (rest.is_empty(), is_posted, table.in_redis) {
        (true, _, false) | (_, true, false) => METHODS,
        (false, false, false) => RECORD,
        (true, _, true) => TABLE_IN_REDIS,
        (false, true, true) => REGISTRATION_OR_VERB,
        (false, false, true) => REGISTRATION,
    }
}

fn no_query_here() -> Failure {
    let detail = "a query is supported on GET, and on PATCH and DELETE of a table".to_owned();
    Error::Invalid { detail, place: Place::Position(0) }.into()
}

/// Removes the default limit from a list that is sent line by line, since it is a dump.
fn without_default_limit(mut query: Query<'_>, format: Format) -> Query<'_> {
    if format.is_lines() && !query.clauses.iter().any(|clause| clause.name == "limit") {
        query.limit = None;
    }
    query
}

/// Whether a subscription asks to hold its record.
#[derive(Clone, Copy, Debug)]
enum Hold {
    No,
    /// It does, at this position of the query.
    Asked {
        at: usize,
    },
}

/// The size of a thumbnail that a query of a blob asks for.
///
/// # Errors
/// `Invalid` if it asks for anything else, or for a size that the schema does not list.
fn thumbnail(attribute: &Attribute, query: &str) -> Result<ThumbSize> {
    let name = "thumb=";
    let spec = query.strip_prefix(name).ok_or_else(|| no_query_of_a_blob(0))?;
    if let Some(second) = spec.find('&') {
        return Err(no_query_of_a_blob(name.len() + second + 1));
    }
    let refused = |detail| Failure::from(Error::Invalid { detail, place: Place::Position(name.len()) });
    let spec = percent_decode_str(spec).decode_utf8_lossy().parse().map_err(refused)?;
    let listed = &attribute.thumb_sizes;
    if !listed.is_empty() && !listed.contains(&spec) {
        let sizes: Vec<_> = listed.iter().map(ThumbSize::to_string).collect();
        return Err(refused(format!("{spec} is none of the sizes of {}: {}", attribute.name, sizes.join(", "))));
    }
    Ok(spec)
}

fn no_query_of_a_blob(position: usize) -> Failure {
    let detail = "the only query of a blob is thumb=WIDTHxHEIGHT, of GET and HEAD".to_owned();
    Error::Invalid { detail, place: Place::Position(position) }.into()
}

/// Returns the terms of a query, each with its position.
fn terms(query: &str) -> impl Iterator<Item = (usize, &str)> {
    query.split(['&', ';']).scan(0, |next, term| {
        let at = *next;
        *next += term.len() + 1;
        Some((at, term))
    })
}

/// Returns whether a query with `stream=sse` has `hold=true`, too; `None` if it has no `stream`.
///
/// # Errors
/// 400 if there is anything besides these two, one of them twice, or another value.
fn asks_for_changes(query: &str) -> Result<Option<Hold>> {
    const STREAM: &str = "stream=";
    const HOLD: &str = "hold=";
    if !terms(query).any(|(_, term)| term.starts_with(STREAM)) {
        return Ok(None);
    }
    let (mut has_stream, mut hold) = (false, None);
    for (at, term) in terms(query) {
        let (position, detail) = match (term.strip_prefix(STREAM), term.strip_prefix(HOLD)) {
            (Some("sse"), _) if !has_stream => {
                has_stream = true;
                continue;
            }
            (_, Some(value @ ("true" | "false"))) if hold.is_none() => {
                hold = Some(if value == "true" { Hold::Asked { at } } else { Hold::No });
                continue;
            }
            (Some(_), _) if !has_stream => (at + STREAM.len(), "stream must be sse"),
            (_, Some(_)) if hold.is_none() => (at + HOLD.len(), "hold must be true or false"),
            _ => (at, "stream can be combined with hold only"),
        };
        return Err(Error::Invalid { detail: detail.to_owned(), place: Place::Position(position) }.into());
    }
    Ok(Some(hold.unwrap_or(Hold::No)))
}

fn record_verb<'r>(raw_id: &'r str, method: &Method) -> Result<Verb<'r>> {
    let id = decoded(raw_id)?;
    match *method {
        Method::GET | Method::HEAD => Ok(Verb::Read(id)),
        Method::PUT => Ok(Verb::Replace(id)),
        Method::PATCH => Ok(Verb::Merge(id)),
        Method::DELETE => Ok(Verb::Delete(id)),
        _ => Err(Failure::Method { allow: RECORD }),
    }
}

/// Decodes the id in a path.
fn decoded(raw_id: &str) -> Result<Cow<'_, str>> {
    if !raw_id.contains('%') {
        return Ok(Cow::Borrowed(raw_id));
    }
    let decoded = percent_decode_str(raw_id).decode_utf8();
    Ok(decoded.map_err(|_| Error::invalid("the id in the path is not UTF-8"))?)
}

fn names(schema: &Schema) -> Box<[(Box<str>, usize)]> {
    let tables = schema.tables.iter().enumerate().filter(|(_, table)| table.exported);
    let mut names: Vec<(Box<str>, usize)> =
        tables.map(|(position, table)| (table.name.as_str().into(), position)).collect();
    names.sort();
    names.into()
}

fn places(schema: &Schema, tables: &[(Box<str>, usize)]) -> Box<[usize]> {
    let number = |position: usize| schema.tables[position].id as usize;
    let most = tables.iter().map(|(_, position)| number(*position)).max().unwrap_or(0);
    let mut places = vec![0; most + 1];
    for (place, (_, position)) in tables.iter().enumerate() {
        places[number(*position)] = place;
    }
    places.into()
}

#[cfg(test)]
mod tests;
