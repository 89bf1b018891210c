//! Which handler a method and a path mean.
//!
//! A small matcher of its own, because the paths of tables have three shapes and are met by every request: the path is split by
//! bytes, only what has a `%` is decoded, and the table is looked up by name in a sorted slice. A [`Route`] that exists is valid:
//! the table is exported, the method is one that the resource has, a query in the path was
//! understood, and client and server speak the same types. What is found out later is about the body and the stored records.
//!
//! Non-goals: paths that are no table's (`ingress` has a router for them); when and where a handler runs (`ingress`).

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Place};
use crate::feed::{EventId, Topic};
use crate::graphql::{self, Graphql, Kind, Manner};
use crate::handlers::{
    self, Answer, Failure, Options, Result, batch, blobs,
    coding::{self, AcceptedCoding, Coding},
    load::Load,
    media::{self, Accepted, Bodies, BodyFormat, Format, Shown, Syntax},
};
use crate::openapi;
use crate::query::{Limits, Query};
use crate::schema::{Schema, Table};
use crate::transaction::Database;

/// The paths of a schema.
pub struct Routes {
    database: Database,
    options: Options,
    /// Exported tables: name and position in the schema, ascending by name.
    tables: Box<[(Box<str>, usize)]>,
    /// The place of each table among them, by its number; 0 for one that is not.
    places: Box<[usize]>,
    graphql: Graphql,
}

/// The shape of a path: one of [`Routes::templates`], by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template(pub usize);

/// A request that has a handler.
pub struct Route<'r> {
    routes: &'r Routes,
    target: Target<'r>,
    template: Template,
    accepted: Accepted,
    body_format: BodyFormat,
}

/// What a request is for.
enum Target<'r> {
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
enum Asked<'r> {
    Body,
    Url(&'r str),
}

#[derive(Debug)]
enum Verb<'r> {
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

/// Where GraphQL is served; no table has that name.
const GRAPHQL: &str = "/graphql";
const GRAPHQL_METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// Where many operations are carried out at once; no table has a name that begins so.
const BATCH: &str = "/_batch";
const BATCH_METHODS: &str = "POST, OPTIONS";

const RECORD: &str = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";
const BLOB: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

/// Every method that some resource has. A table has them all.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Routes {
    /// The routes to the exported tables of a database.
    pub fn new(database: Database, options: Options) -> Self {
        let tables = names(database.schema());
        let places = places(database.schema(), &tables);
        let graphql = Graphql::new(&database, options.max_rows);
        Self { database, options, tables, places, graphql }
    }

    /// The OpenAPI document of these paths and those beside them.
    pub fn described(&self) -> serde_json::Value {
        openapi::document(self.database.schema(), self.options.max_rows)
    }

    /// The shapes of all paths, `{id}` standing for any id and `{blob}` for what is below one.
    pub fn templates(&self) -> Vec<String> {
        let shapes = ["", "/{id}", "/{id}/{blob}"];
        let of_tables = self.tables.iter().flat_map(|(name, _)| shapes.map(|shape| format!("/{name}{shape}")));
        of_tables.chain([GRAPHQL.to_owned(), BATCH.to_owned()]).collect()
    }

    /// The shape of a path, whether or not it is right.
    pub fn template_of(&self, uri: &Uri) -> Option<Template> {
        let path = uri.path().strip_prefix('/')?;
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        match self.table(name) {
            Some(table) => {
                Some(self.template_in(table, usize::from(!rest.is_empty()) + usize::from(rest.contains('/'))))
            }
            None => self.template_beside(uri.path()),
        }
    }

    /// The shape of a table's path with so many segments below it.
    fn template_in(&self, table: &Table, below: usize) -> Template {
        Template(3 * self.places[table.id as usize] + below)
    }

    /// The shape of a path that is no table's.
    fn template_beside(&self, path: &str) -> Option<Template> {
        let position = [GRAPHQL, BATCH].iter().position(|known| *known == path)?;
        Some(Template(3 * self.tables.len() + position))
    }

    /// What a request means; `None` if its path is none of these.
    ///
    /// # Errors
    /// 400 for the path or the query; 404, 405, 406, 415. They can be answered before the body is read.
    pub fn resolve<'r>(&'r self, method: &Method, uri: &'r Uri, headers: &HeaderMap) -> Option<Result<Route<'r>>> {
        #[cfg(feature = "plant")]
        crate::plant::burn("routing");
        let path = uri.path().strip_prefix('/')?;
        let (name, rest) = match path.split_once('/') {
            Some((name, rest)) => (name, rest),
            None => (path, ""),
        };
        if let Some(table) = self.table(name) {
            return Some(self.resolve_in(table, rest, method, uri.query().unwrap_or(""), headers));
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
            Method::POST => (Asked::Body, BodyFormat::by(headers, Bodies::Json)?),
            Method::GET | Method::HEAD => (Asked::Url(query), BodyFormat::default()),
            Method::OPTIONS => return Ok(self.options(GRAPHQL_METHODS, template)),
            _ => return Err(Failure::Method { allow: GRAPHQL_METHODS }),
        };
        let manner = Manner { safe: !matches!(asked, Asked::Body), strict: media::accepts_graphql(headers)? };
        let accepted = Accepted { format: Format::Json, coded: AcceptedCoding::accepted(headers)? };
        Ok(Route { routes: self, target: Target::Graphql(asked, manner), template, accepted, body_format })
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
                let (accepted, body_format) =
                    (Accepted::by(headers, Shown::One)?, BodyFormat::by(headers, Bodies::Records)?);
                Ok(Route { routes: self, target: Target::Batch, template, accepted, body_format })
            }
            Method::OPTIONS => Ok(self.options(BATCH_METHODS, template)),
            _ => Err(Failure::Method { allow: BATCH_METHODS }),
        }
    }

    fn table(&self, name: &str) -> Option<&Table> {
        let name = match name.contains('%') {
            true => percent_decode_str(name).decode_utf8().ok()?,
            false => Cow::Borrowed(name),
        };
        let found = self.tables.binary_search_by(|(known, _)| (**known).cmp(&*name)).ok()?;
        self.database.schema().tables.get(self.tables[found].1)
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
        if let Some((id, name)) = rest.split_once('/') {
            return self.resolve_blob(table, id, name, method, query);
        }
        let follows = matches!(*method, Method::GET | Method::HEAD) && asks_for_changes(query)?;
        let template = self.template_in(table, usize::from(!rest.is_empty() && !is_query));
        let verb = match rest {
            _ if *method == Method::OPTIONS => {
                return Ok(self.options(if matches!(rest, "" | "query") { METHODS } else { RECORD }, template));
            }
            _ if follows => return self.resolve_changes(table, rest, template, headers),
            "" => self.collection_verb(table, method, query)?,
            _ if is_query => Verb::ListByBody(Limits::in_body(self.options.max_rows)),
            _ => record_verb(rest, method)?,
        };
        let verb = match verb {
            verb if query.is_empty() || verb.has_query() => verb,
            Verb::Read(id) => Verb::ReadSelected(id, Box::new(self.selection(table, query)?)),
            _ => return Err(no_query_here()),
        };
        let accepted = match &verb {
            Verb::Delete(_) => Accepted::default(),
            Verb::List(query) if query.explain || query.pagination => Accepted::by(headers, Shown::One)?,
            Verb::List(_) | Verb::ListByBody(_) => Accepted::by(headers, Shown::List)?,
            _ => Accepted::by(headers, Shown::One)?,
        };
        let body_format = match verb.bodies() {
            Some(bodies) => BodyFormat::by(headers, bodies)?,
            None => BodyFormat::default(),
        };
        let target = match verb {
            Verb::List(query) => Target::Table(table, Verb::List(Box::new(uncut(*query, accepted.format)))),
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
        template: Template,
        headers: &HeaderMap,
    ) -> Result<Route<'r>> {
        let id = (!raw_id.is_empty()).then(|| decoded(raw_id)).transpose()?;
        handlers::accepts_events(headers)?;
        let target = Target::Changes(table, id, handlers::last_event_id(headers)?);
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Ok(Route { routes: self, target, template, accepted, body_format })
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
        let attribute = attribute
            .ok_or_else(|| Error::NotFound { detail: format!("a record of {} has no Blob {name:?}", table.name) })?;
        let access = match *method {
            Method::GET => Access::Read,
            Method::HEAD => Access::Describe,
            Method::PUT => Access::Write,
            Method::DELETE => Access::Delete,
            Method::OPTIONS => return Ok(self.options(BLOB, template)),
            _ => return Err(Failure::Method { allow: BLOB }),
        };
        if !query.is_empty() {
            let detail = "thumb is not supported yet, and nothing else is asked of a blob".to_owned();
            return Err(Error::Invalid { detail, place: Place::Position(0) }.into());
        }
        let target = Target::Blob(Blob { access, table, id, attribute });
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Ok(Route { routes: self, target, template, accepted, body_format })
    }

    fn options(&self, allow: &'static str, template: Template) -> Route<'_> {
        let (accepted, body_format) = (Accepted::default(), BodyFormat::default());
        Route { routes: self, target: Target::Options(allow), template, accepted, body_format }
    }

    /// What is asked of one record.
    fn selection<'r>(&self, table: &Table, text: &'r str) -> Result<Query<'r>> {
        let query = Query::parse(self.database.schema(), table, text, &Limits::in_url(self.options.max_rows))?;
        let other = query.clauses.iter().find(|clause| clause.name != "select");
        let position = if query.filter.is_empty() { other.map(|clause| clause.position) } else { Some(0) };
        match position {
            None => Ok(query),
            Some(position) => {
                let detail = "of one record only select is asked".to_owned();
                Err(Error::Invalid { detail, place: Place::Position(position) }.into())
            }
        }
    }

    /// What the path of an operation means.
    ///
    /// # Errors
    /// 404 if it is no table's; 400 if it has a query, or what is no id.
    fn operation_target(&self, path: &str) -> Result<batch::Target<'_>> {
        let nothing = || Failure::nothing_at(path);
        if path.contains(['?', '#']) {
            return Err(Error::invalid("the path of an operation has no query").into());
        }
        let (name, id) = {
            let path = path.strip_prefix('/').ok_or_else(nothing)?;
            path.split_once('/').unwrap_or((path, ""))
        };
        let table = self.table(name).filter(|_| !id.contains('/')).ok_or_else(nothing)?;
        let id = (!id.is_empty()).then(|| decoded(id).map(Cow::into_owned)).transpose()?;
        Ok(batch::Target { table, id })
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

fn no_query_here() -> Failure {
    let detail = "a query is supported on GET, and on PATCH and DELETE of a table".to_owned();
    Error::Invalid { detail, place: Place::Position(0) }.into()
}

/// A list that is sent line by line is a dump: without a limit it has all records.
fn uncut(mut query: Query<'_>, format: Format) -> Query<'_> {
    if format.is_lines() && !query.clauses.iter().any(|clause| clause.name == "limit") {
        query.limit = None;
    }
    query
}

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
    fn has_query(&self) -> bool {
        matches!(self, Self::List(_) | Self::MergeMatching(..) | Self::DeleteMatching(..))
    }

    /// What its body may be, if it has one.
    fn bodies(&self) -> Option<Bodies> {
        match self {
            Self::Create => Some(Bodies::RecordsOrLines),
            Self::ReplaceAll | Self::Replace(_) => Some(Bodies::Records),
            Self::Merge(_) | Self::MergeMatching(..) => Some(Bodies::Patch),
            Self::ListByBody(_) => Some(Bodies::Query),
            Self::Read(_) | Self::ReadSelected(..) | Self::List(_) | Self::Delete(_) | Self::DeleteMatching(..) => None,
        }
    }
}

/// Whether a query is `stream=sse`.
///
/// # Errors
/// 400 if there is anything beside it, or the stream is another one.
fn asks_for_changes(query: &str) -> Result<bool> {
    const CLAUSE: &str = "stream=";
    if !query.contains(CLAUSE) {
        return Ok(false);
    }
    let terms = || {
        query.split(['&', ';']).scan(0, |next, term| {
            let at = *next;
            *next += term.len() + 1;
            Some((at, term))
        })
    };
    let Some((at, term)) = terms().find(|(_, term)| term.starts_with(CLAUSE)) else { return Ok(false) };
    let other = terms().find(|(other, _)| *other != at);
    let (position, detail) = match (other, &term[CLAUSE.len()..]) {
        (None, "sse") => return Ok(true),
        (None, _) => (at + CLAUSE.len(), "the stream of changes is stream=sse"),
        (Some((other, _)), _) => (other, "beside stream there is no condition and no other clause yet"),
    };
    Err(Error::Invalid { detail: detail.to_owned(), place: Place::Position(position) }.into())
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

/// The id that stands in a path.
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

impl Asked<'_> {
    fn request(&self, body: &[u8]) -> crate::error::Result<graphql::Request> {
        match self {
            Self::Url(query) => graphql::Request::in_url(query),
            Self::Body => graphql::Request::in_body(body),
        }
    }
}

/// A record in a longer body may take a millisecond to be read and written, and others would wait for it.
const SHORT_BODY_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage;
    use http::HeaderValue;
    use http::header::{ACCEPT, CONTENT_TYPE};

    fn routes(folder: &tempfile::TempDir) -> Routes {
        let schema = "type Product @table @export { id: ID! @primaryKey name: String picture: Blob } \
                      type Ledger @table(durability: \"strong\") @export { id: ID! @primaryKey } \
                      type Secret @table { id: ID! @primaryKey }";
        let schema = Schema::parse(schema).unwrap();
        let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
        Routes::new(database, Options::default())
    }

    fn describe(routes: &Routes, method: &str, uri: &str, headers: &HeaderMap) -> String {
        let (method, uri): (Method, Uri) = (method.parse().unwrap(), uri.parse().unwrap());
        match routes.resolve(&method, &uri, headers) {
            None => "other".to_owned(),
            Some(Ok(Route { target: Target::Graphql(..), .. })) => "graphql".to_owned(),
            Some(Ok(Route { target: Target::Batch, .. })) => "batch".to_owned(),
            Some(Ok(Route { target: Target::Changes(table, id, after), .. })) => {
                let (id, after) = (id.unwrap_or_default(), after.map(|after| after.to_string()));
                format!("follow {} {id} {}", table.name, after.unwrap_or_default())
            }
            Some(Ok(Route { target: Target::Options(_), .. })) => "options".to_owned(),
            Some(Ok(Route { target: Target::Load(table), .. })) => format!("load {}", table.name),
            Some(Ok(Route { target: Target::Blob(Blob { access, table, id, attribute }), .. })) => {
                format!("{access:?} {} {id} {}", table.name, table.attributes[attribute].name)
            }
            Some(Ok(Route { target: Target::Table(table, verb), .. })) => match verb {
                Verb::Read(id) => format!("read {} {id}", table.name),
                Verb::ReadSelected(id, _) => format!("read {} {id} cut", table.name),
                Verb::Replace(id) => format!("replace {} {id}", table.name),
                Verb::Merge(id) => format!("merge {} {id}", table.name),
                Verb::Delete(id) => format!("delete {} {id}", table.name),
                Verb::ReplaceAll => format!("replace {}", table.name),
                Verb::MergeMatching(text, _) => format!("merge {} where {text}", table.name),
                Verb::DeleteMatching(text, _) => format!("delete {} where {text}", table.name),
                Verb::List(query) => format!("list {} {}", table.name, query.limit.unwrap_or(usize::MAX)),
                Verb::ListByBody(_) => format!("list {} by body", table.name),
                Verb::Create => format!("create {}", table.name),
            },
            Some(Err(failure)) => failure.answer(None).status().as_u16().to_string(),
        }
    }

    #[test]
    fn paths_and_methods() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let cases = [
            ("GET", "/Product/1", "read Product 1"),
            ("HEAD", "/Product/a%2Fb%20+", "read Product a/b +"),
            ("GET", "/%50roduct/1", "read Product 1"),
            ("GET", "http://host/Product/1", "read Product 1"),
            ("GET", "/Product/1?select=id", "read Product 1 cut"),
            ("GET", "/Product/1?limit=1", "400"),
            ("GET", "/Product", "list Product 10000"),
            ("GET", "/Product/", "list Product 10000"),
            ("GET", "/Product/?limit=3", "list Product 3"),
            ("POST", "/Product/", "create Product"),
            ("POST", "/Product/query", "list Product by body"),
            ("PUT", "/Product/query", "replace Product query"),
            ("PUT", "/Product/1", "replace Product 1"),
            ("PATCH", "/Product/1", "merge Product 1"),
            ("DELETE", "/Product/1", "delete Product 1"),
            ("DELETE", "/Product?id==1", "delete Product where id==1"),
            ("OPTIONS", "/Product/1", "options"),
            ("POST", "/Product/1", "405"),
            ("PUT", "/Product", "replace Product"),
            ("PUT", "/Product?id==1", "400"),
            ("PATCH", "/Product?id==1", "merge Product where id==1"),
            ("POST", "/_batch", "batch"),
            ("OPTIONS", "/_batch", "options"),
            ("GET", "/_batch", "405"),
            ("POST", "/_batch?x", "400"),
            ("POST", "/_batch/x", "other"),
            ("TRACE", "/Product", "405"),
            ("GET", "/Product/1/picture", "Read Product 1 picture"),
            ("HEAD", "/Product/a%2Fb/%70icture", "Describe Product a/b picture"),
            ("PUT", "/Product/query/picture", "Write Product query picture"),
            ("DELETE", "/Product/1/picture", "Delete Product 1 picture"),
            ("OPTIONS", "/Product/1/picture", "options"),
            ("PATCH", "/Product/1/picture", "405"),
            ("POST", "/Product/query/picture", "405"),
            ("GET", "/Product/1/picture?thumb=64x64", "400"),
            ("PUT", "/Product/1/picture?x", "400"),
            ("GET", "/Product/1/name", "404"),
            ("OPTIONS", "/Product/1/name", "404"),
            ("GET", "/Product/1/", "404"),
            ("GET", "/Product/1/picture/", "404"),
            ("GET", "/Product/%FF/picture", "400"),
            ("GET", "/Ledger/1/picture", "404"),
            ("GET", "/Product/%FF", "400"),
            ("POST", "/Product?x", "400"),
            ("GET", "/Secret/1", "other"),
            ("GET", "/product/1", "other"),
            ("GET", "/", "other"),
            ("OPTIONS", "*", "other"),
            ("GET", "/_health", "other"),
            ("POST", "/graphql", "graphql"),
            ("GET", "/graphql?query=x", "graphql"),
            ("OPTIONS", "/graphql", "options"),
            ("PUT", "/graphql", "405"),
            ("POST", "/graphql/x", "other"),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(describe(&routes, method, uri, &typed(method, uri)), expected, "{method} {uri}");
        }
    }

    /// What a body for this method and path is said to be.
    fn typed(method: &str, uri: &str) -> HeaderMap {
        let is_query = (method, uri) == ("POST", "/Product/query");
        let media_type = if is_query { "text/plain" } else { "application/json" };
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
    }

    #[test]
    fn requests_to_one_table_have_three_shapes() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let templates = routes.templates();
        let of_tables =
            ["Ledger", "Product"].map(|name| ["", "/{id}", "/{id}/{blob}"].map(|shape| format!("/{name}{shape}")));
        assert_eq!(templates, [of_tables.concat(), ["/graphql", "/_batch"].map(str::to_owned).to_vec()].concat());
        for (method, uri, expected) in [
            (Method::GET, "/Ledger/a", "/Ledger/{id}"),
            (Method::GET, "/Product?limit=1", "/Product"),
            (Method::POST, "/%50roduct/", "/Product"),
            (Method::PUT, "/Product/a%2Fb", "/Product/{id}"),
            (Method::OPTIONS, "/Product", "/Product"),
            (Method::OPTIONS, "/Product/1", "/Product/{id}"),
            (Method::POST, "/graphql", "/graphql"),
            (Method::POST, "/_batch", "/_batch"),
            (Method::GET, "/Product/1/picture", "/Product/{id}/{blob}"),
            (Method::DELETE, "/Product/1/picture", "/Product/{id}/{blob}"),
            (Method::OPTIONS, "/Product/1/picture", "/Product/{id}/{blob}"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let route = routes.resolve(&method, &uri, &typed(method.as_str(), uri.path())).unwrap().unwrap();
            assert_eq!(templates[route.template().0], expected, "{uri}");
            assert_eq!(templates[routes.template_of(&uri).unwrap().0], expected, "{uri}");
        }
        let uri: Uri = "/Product/1/nothing".parse().unwrap();
        assert_eq!(templates[routes.template_of(&uri).unwrap().0], "/Product/{id}/{blob}", "that is refused, too");
        assert!(routes.template_of(&Uri::from_static("/Secret/1")).is_none());
    }

    #[test]
    fn types_are_settled_before_the_body() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        assert_eq!(describe(&routes, "GET", "/Product/1", &with(ACCEPT, "text/html")), "406");
        assert_eq!(describe(&routes, "DELETE", "/Product/1", &with(ACCEPT, "text/html")), "delete Product 1");
        assert_eq!(describe(&routes, "POST", "/Product", &with(CONTENT_TYPE, "text/csv")), "415");
        let patch = with(CONTENT_TYPE, "application/merge-patch+json");
        assert_eq!(describe(&routes, "PATCH", "/Product/1", &patch), "merge Product 1");
        assert_eq!(describe(&routes, "PUT", "/Product/1", &patch), "415");
        assert_eq!(describe(&routes, "POST", "/Product", &with(CONTENT_TYPE, "application/x-ndjson")), "load Product");
        assert_eq!(describe(&routes, "PUT", "/Product", &with(CONTENT_TYPE, "application/x-ndjson")), "415");
        let csv = with(ACCEPT, "text/csv");
        assert_eq!(describe(&routes, "GET", "/Product", &csv), "list Product 10000");
        assert_eq!(describe(&routes, "GET", "/Product/1", &csv), "406");
        assert_eq!(describe(&routes, "GET", "/Product?explain=true", &csv), "406");
        let cbor = with(CONTENT_TYPE, "application/cbor");
        assert_eq!(describe(&routes, "POST", "/_batch", &cbor), "batch");
        assert_eq!(describe(&routes, "POST", "/graphql", &cbor), "415", "GraphQL is JSON");
    }

    #[test]
    fn a_list_in_lines_is_cut_only_where_that_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let lines = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/x-ndjson"))]);
        assert_eq!(describe(&routes, "GET", "/Product", &lines), format!("list Product {}", usize::MAX));
        assert_eq!(describe(&routes, "GET", "/Product?id!=1&limit=3", &lines), "list Product 3");
        assert_eq!(describe(&routes, "GET", "/Product?limit=20000", &lines), "400");
        let uri = Uri::from_static("/Product");
        let route = routes.resolve(&Method::GET, &uri, &lines).unwrap().unwrap();
        assert_eq!((route.lane(b""), route.work(b"")), (Lane::Dumping, Work::Long));
    }

    #[test]
    fn paths_of_operations() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let target = |path: &str| match routes.operation_target(path) {
            Ok(batch::Target { table, id }) => format!("{} {}", table.name, id.as_deref().unwrap_or("-")),
            Err(failure) => failure.answer(None).status().as_u16().to_string(),
        };
        for (path, expected) in [
            ("/Product", "Product -"),
            ("/Product/", "Product -"),
            ("/%50roduct/a%2Fb", "Product a/b"),
            ("/Product/1/x", "404"),
            ("/Product/1?select=id", "400"),
            ("/Product/%FF", "400"),
            ("/Secret/1", "404"),
            ("/_batch", "404"),
            ("Product/1", "404"),
            ("", "404"),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }

    #[test]
    fn changes_are_followed_by_get_alone() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        for (method, uri, expected) in [
            ("GET", "/Product?stream=sse", "follow Product  "),
            ("HEAD", "/Product/?stream=sse", "follow Product  "),
            ("GET", "/Product/a%20b?stream=sse", "follow Product a b "),
            ("GET", "/Product?stream=websocket", "400"),
            ("GET", "/Product?stream=", "400"),
            ("GET", "/Product?stream=sse&limit=1", "400"),
            ("GET", "/Product?(stream=sse)", "400"),
            ("GET", "/Product?stream", "400"),
            ("GET", "/Product/1/picture?stream=sse", "400"),
            ("POST", "/Product?stream=sse", "400"),
            ("DELETE", "/Product/1?stream=sse", "400"),
            ("GET", "/Secret?stream=sse", "other"),
        ] {
            assert_eq!(describe(&routes, method, uri, &typed(method, uri)), expected, "{method} {uri}");
        }
        let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        let last_event_id = http::HeaderName::from_static("last-event-id");
        let after = |id| describe(&routes, "GET", "/Product?stream=sse", &with(last_event_id.clone(), id));
        assert_eq!((after("1-2-3"), after("3")), ("follow Product  1-2-3".to_owned(), "400".to_owned()));
        assert_eq!(describe(&routes, "GET", "/Product?stream=sse", &with(ACCEPT, "application/json")), "406");
        let place = |query| match asks_for_changes(query) {
            Err(Failure::Error(Error::Invalid { place: Place::Position(position), .. })) => position,
            other => panic!("{query}: {other:?}"),
        };
        assert_eq!(place("stream=rss"), 7);
        assert_eq!(place("stream=sse&price=gt=5"), 11);
        assert_eq!(place("price=gt=5;stream=sse"), 0);
        assert_eq!(place("stream=sse&stream=sse"), 11);
    }

    #[test]
    fn long_work_is_known_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let work = |method: Method, uri: &str, body: &[u8]| {
            let uri: Uri = uri.parse().unwrap();
            let route = routes.resolve(&method, &uri, &typed(method.as_str(), uri.path())).unwrap().unwrap();
            route.work(body)
        };
        assert_eq!(work(Method::GET, "/Product/1", b""), Work::Short);
        assert_eq!(work(Method::POST, "/Product", b" {}"), Work::Short);
        assert_eq!(work(Method::POST, "/Product", b" [{}]"), Work::Long);
        assert_eq!(work(Method::POST, "/_batch", b"{}"), Work::Long);
        assert_eq!(work(Method::POST, "/Ledger", b"{}"), Work::Short, "its sync is waited for elsewhere");
        for (method, path) in [(Method::POST, "/Product"), (Method::PUT, "/Product/1"), (Method::PATCH, "/Product/1")] {
            assert_eq!(work(method.clone(), path, &[b' '; SHORT_BODY_BYTES]), Work::Short, "{method}");
            assert_eq!(work(method.clone(), path, &[b' '; SHORT_BODY_BYTES + 1]), Work::Long, "{method}");
        }
        assert_eq!(work(Method::GET, "/Ledger/1", b""), Work::Short);
        assert_eq!(work(Method::GET, "/Product?limit=100", b""), Work::Short);
        assert_eq!(work(Method::GET, "/Product", b""), Work::Long);
        assert_eq!(work(Method::GET, "/Product?id==1", b""), Work::Short);
        assert_eq!(work(Method::GET, "/Product?id!=1&limit=1", b""), Work::Long);
        assert_eq!(work(Method::POST, "/Product/query", b"id==1\n"), Work::Short);
        assert_eq!(work(Method::POST, "/Product/query", b"id=ct=1"), Work::Long);
        assert_eq!(work(Method::POST, "/Product/query", b"no such query"), Work::Short);
        let long = format!("id=in=1{}", ",1".repeat(5000));
        assert_eq!(work(Method::POST, "/Product/query", long.as_bytes()), Work::Long);
        assert_eq!(work(Method::GET, "/Product?id==1&id=~=a", b""), Work::Long, "an expression has to be compiled");
    }
}
