//! Which handler a method and a path mean.
//!
//! A small matcher of its own, because the paths of tables have three shapes and are met by every request: the path is split by
//! bytes, only what has a `%` is decoded, and the table is looked up by name in a sorted slice. A [`Route`] that exists is valid:
//! the table is exported, the method is one that the resource has, a query in the path was
//! understood, and client and server speak the same types. What is found out later is about the body and the stored records.
//!
//! Non-goals: paths that are no table's (`ingress` has a router for them); when and where a handler runs (`ingress`).

mod route;

use std::borrow::Cow;

use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Place};
use crate::graphql::{Graphql, Manner};
use crate::handlers::{
    self, Failure, Options, Result, batch,
    coding::AcceptedCoding,
    media::{self, Accepted, Bodies, BodyFormat, Format, Shown, Syntax},
};
use crate::openapi;
use crate::query::{Limits, Query};
use crate::schema::{Schema, Table};
use crate::transaction::Database;
pub use route::{Access, Blob, Lane, Route, Work};
use route::{Asked, Target, Verb};

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
            let detail = "a blob takes no query".to_owned();
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
                let detail = "a single record supports only select".to_owned();
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
            return Err(Error::invalid("the path of an operation takes no query").into());
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
        (None, _) => (at + CLAUSE.len(), "stream must be sse"),
        (Some((other, _)), _) => (other, "stream cannot be combined with a condition or another clause"),
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

#[cfg(test)]
mod tests;
