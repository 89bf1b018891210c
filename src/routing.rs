//! Which handler a method and a path mean.
//!
//! A small matcher of its own, because the paths of tables have two shapes and are met by every request: the path is split by
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
use crate::handlers::{self, Answer, Failure, Options, Result};
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
pub enum Route<'r> {
    /// Of a table.
    Table(TableRoute<'r>),
    /// Of all of them.
    Graphql(GraphqlRoute<'r>),
}

/// A request to a table.
#[derive(Debug)]
pub struct TableRoute<'r> {
    schema: &'r Schema,
    table: &'r Table,
    verb: Verb<'r>,
}

/// A request to `/graphql`.
pub struct GraphqlRoute<'r> {
    graphql: &'r Graphql,
    asked: Asked<'r>,
    manner: Manner,
}

/// Where a GraphQL request stands.
enum Asked<'r> {
    Body,
    Url(&'r str),
    /// Nowhere: which methods there are is asked.
    Options,
}

#[derive(Debug)]
enum Verb<'r> {
    Read(Cow<'r, str>),
    ReadSelected(Cow<'r, str>, Box<Query<'r>>),
    List(Box<Query<'r>>),
    /// A list whose query is the body.
    ListByBody(Limits),
    Create,
    Replace(Cow<'r, str>),
    Merge(Cow<'r, str>),
    Delete(Cow<'r, str>),
    /// All that a query means.
    DeleteMatching(&'r str, Limits),
    /// The changes of a record, or of all, behind an event or from now on.
    Follow(Option<Cow<'r, str>>, Option<EventId>),
    Options(&'static str),
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
}

/// A query that is longer is not even read where others wait.
const SHORT_QUERY_BYTES: usize = 8 << 10;

/// Where GraphQL is served; no table has that name.
const GRAPHQL: &str = "/graphql";
const GRAPHQL_METHODS: &str = "GET, HEAD, POST, OPTIONS";

const COLLECTION: &str = "GET, HEAD, POST, DELETE, OPTIONS";
const RECORD: &str = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";

/// Every method that some resource has.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Routes {
    /// The routes to the exported tables of a database.
    pub fn new(database: Database, options: Options) -> Self {
        let tables = names(database.schema());
        let places = places(database.schema(), &tables);
        let graphql = Graphql::new(&database, options.max_rows);
        Self { database, options, tables, places, graphql }
    }

    /// The shapes of all paths that are tables', `{id}` standing for any id.
    pub fn templates(&self) -> Vec<String> {
        let of_tables = self.tables.iter().flat_map(|(name, _)| [format!("/{name}"), format!("/{name}/{{id}}")]);
        of_tables.chain([GRAPHQL.to_owned()]).collect()
    }

    /// The shape of a route's path.
    pub fn template(&self, route: &Route<'_>) -> Template {
        let Route::Table(route) = route else { return Template(2 * self.tables.len()) };
        let record = match &route.verb {
            Verb::Read(_) | Verb::ReadSelected(..) | Verb::Replace(_) | Verb::Merge(_) | Verb::Delete(_) => true,
            Verb::Follow(id, _) => id.is_some(),
            Verb::Options(allow) => *allow != COLLECTION,
            _ => false,
        };
        Template(2 * self.places[route.table.id as usize] + usize::from(record))
    }

    /// The shape of a path that is a table's, whether or not it is right.
    pub fn template_of(&self, uri: &Uri) -> Option<Template> {
        let path = uri.path().strip_prefix('/')?;
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let Some(table) = self.table(name) else {
            return (uri.path() == GRAPHQL).then(|| Template(2 * self.tables.len()));
        };
        Some(Template(2 * self.places[table.id as usize] + usize::from(!rest.is_empty())))
    }

    /// What a request means; `None` if its path is no table's.
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
        let query = uri.query().unwrap_or("");
        match self.table(name) {
            Some(table) => Some(self.resolve_in(table, rest, method, query, headers).map(Route::Table)),
            None => (uri.path() == GRAPHQL).then(|| self.resolve_graphql(method, query, headers).map(Route::Graphql)),
        }
    }

    fn resolve_graphql<'r>(&'r self, method: &Method, query: &'r str, headers: &HeaderMap) -> Result<GraphqlRoute<'r>> {
        let asked = match *method {
            Method::POST => Asked::Body,
            Method::GET | Method::HEAD => Asked::Url(query),
            Method::OPTIONS => Asked::Options,
            _ => return Err(Failure::Method { allow: GRAPHQL_METHODS }),
        };
        let manner = Manner { safe: !matches!(asked, Asked::Body), strict: handlers::accepts_graphql(headers)? };
        if matches!(asked, Asked::Body) {
            handlers::speaks_json(headers, false)?;
        }
        Ok(GraphqlRoute { graphql: &self.graphql, asked, manner })
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
    ) -> Result<TableRoute<'r>> {
        let follows = matches!(*method, Method::GET | Method::HEAD) && asks_for_changes(query)?;
        let verb = match rest {
            "" if follows => Verb::Follow(None, handlers::last_event_id(headers)?),
            "" => self.collection_verb(table, method, query)?,
            "query" if *method == Method::POST => Verb::ListByBody(Limits::in_body(self.options.max_rows)),
            "query" if *method == Method::OPTIONS => Verb::Options(METHODS),
            _ if rest.contains('/') => {
                let detail = format!("a record of {} has no resources below it", table.name);
                return Err(Error::NotFound { detail }.into());
            }
            _ => record_verb(rest, method)?,
        };
        let verb = match verb {
            Verb::Read(id) if follows => Verb::Follow(Some(id), handlers::last_event_id(headers)?),
            verb if query.is_empty() || follows || matches!(verb, Verb::List(_) | Verb::DeleteMatching(..)) => verb,
            Verb::Read(id) => Verb::ReadSelected(id, Box::new(self.selection(table, query)?)),
            _ => {
                let detail = "a query is supported on GET, and on DELETE of a table".to_owned();
                return Err(Error::Invalid { detail, place: Place::Position(0) }.into());
            }
        };
        match verb {
            Verb::Options(_) | Verb::Delete(_) => {}
            Verb::Follow(..) => handlers::accepts_events(headers)?,
            Verb::Read(_) | Verb::ReadSelected(..) | Verb::List(_) | Verb::DeleteMatching(..) => {
                handlers::accepts_json(headers)?;
            }
            Verb::ListByBody(_) => {
                handlers::accepts_json(headers)?;
                handlers::speaks_text(headers)?;
            }
            Verb::Create | Verb::Replace(_) => {
                handlers::accepts_json(headers)?;
                handlers::speaks_json(headers, false)?;
            }
            Verb::Merge(_) => {
                handlers::accepts_json(headers)?;
                handlers::speaks_json(headers, true)?;
            }
        }
        Ok(TableRoute { schema: self.database.schema(), table, verb })
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

    fn collection_verb<'r>(&self, table: &Table, method: &Method, query: &'r str) -> Result<Verb<'r>> {
        match *method {
            Method::GET | Method::HEAD => {
                let limits = Limits::in_url(self.options.max_rows);
                Ok(Verb::List(Box::new(Query::parse(self.database.schema(), table, query, &limits)?)))
            }
            Method::POST => Ok(Verb::Create),
            Method::DELETE => Ok(Verb::DeleteMatching(query, Limits::in_url(self.options.max_rows))),
            Method::OPTIONS => Ok(Verb::Options(COLLECTION)),
            _ => Err(Failure::Method { allow: COLLECTION }),
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
    let id = match raw_id.contains('%') {
        false => Cow::Borrowed(raw_id),
        true => {
            let decoded = percent_decode_str(raw_id).decode_utf8();
            decoded.map_err(|_| Error::invalid("the id in the path is not UTF-8"))?
        }
    };
    match *method {
        Method::GET | Method::HEAD => Ok(Verb::Read(id)),
        Method::PUT => Ok(Verb::Replace(id)),
        Method::PATCH => Ok(Verb::Merge(id)),
        Method::DELETE => Ok(Verb::Delete(id)),
        Method::OPTIONS => Ok(Verb::Options(RECORD)),
        _ => Err(Failure::Method { allow: RECORD }),
    }
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
    /// What it subscribes to, and behind which event, if it does. Then [`Route::answer`] has the head alone.
    pub fn follows(&self) -> Option<(Topic, Option<EventId>)> {
        let Self::Table(TableRoute { table, verb: Verb::Follow(id, after), .. }) = self else { return None };
        let topic = id.as_ref().map_or_else(|| Topic::table(table), |id| Topic::record(table, id));
        Some((topic, *after))
    }

    /// Where the handler runs with this body if it does not run at once.
    pub fn lane(&self, body: &[u8]) -> Lane {
        match self {
            Self::Table(route) => route.lane(),
            Self::Graphql(route) => route.lane(body),
        }
    }

    /// Whether the handler may write.
    pub fn may_write(&self) -> bool {
        match self {
            Self::Table(route) => route.lane() == Lane::Writing,
            Self::Graphql(route) => !route.manner.safe,
        }
    }

    /// How much work the handler has with this body.
    pub fn work(&self, body: &[u8]) -> Work {
        match self {
            Self::Table(route) => route.work(body),
            // Whatever is long says so when it has begun.
            Self::Graphql(_) => {
                if body.len() > SHORT_BODY_BYTES {
                    Work::Long
                } else {
                    Work::Short
                }
            }
        }
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
        match self {
            Self::Table(route) => route.answer_in_pieces(database, headers, body, hand_over),
            Self::Graphql(route) => route.answer(database, body),
        }
    }

    /// Runs the handler.
    ///
    /// # Errors
    /// What the handler returns.
    pub fn answer(&self, database: &Database, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
        match self {
            Self::Table(route) => route.answer(database, headers, body),
            Self::Graphql(route) => route.answer(database, body),
        }
    }
}

impl GraphqlRoute<'_> {
    fn lane(&self, body: &[u8]) -> Lane {
        match self.request(body).ok().and_then(|request| self.graphql.known_kind(&request)) {
            Some(Kind::Reads) => Lane::Reading,
            Some(Kind::Mutation) => Lane::Writing,
            // Validating a document that is new takes a processor, too.
            Some(Kind::Lists) | None => Lane::Scanning,
        }
    }

    fn request(&self, body: &[u8]) -> crate::error::Result<graphql::Request> {
        match self.asked {
            Asked::Url(query) => graphql::Request::in_url(query),
            Asked::Body | Asked::Options => graphql::Request::in_body(body),
        }
    }

    fn answer(&self, database: &Database, body: &[u8]) -> Result<Answer> {
        match self.asked {
            Asked::Options => Ok(handlers::options(GRAPHQL_METHODS)),
            _ => self.graphql.answer(database, &self.request(body)?, self.manner),
        }
    }
}

impl TableRoute<'_> {
    fn lane(&self) -> Lane {
        match &self.verb {
            Verb::Read(_) | Verb::ReadSelected(..) | Verb::Follow(..) | Verb::Options(_) => Lane::Reading,
            Verb::List(_) | Verb::ListByBody(_) | Verb::DeleteMatching(..) => Lane::Scanning,
            Verb::Create | Verb::Replace(_) | Verb::Merge(_) | Verb::Delete(_) => Lane::Writing,
        }
    }

    fn work(&self, body: &[u8]) -> Work {
        let long = match &self.verb {
            Verb::Read(_) | Verb::ReadSelected(..) | Verb::Follow(..) | Verb::Options(_) => false,
            Verb::DeleteMatching(..) => true,
            Verb::List(query) => !query.is_short(self.table),
            // Reading one that is not long itself says how long it takes; whatever is wrong with it is said where it is read again.
            Verb::ListByBody(limits) => {
                body.len() > SHORT_QUERY_BYTES
                    || read_query(self.schema, self.table, body, limits).is_ok_and(|query| !query.is_short(self.table))
            }
            Verb::Create | Verb::Replace(_) | Verb::Merge(_) | Verb::Delete(_) => {
                is_array(body) || body.len() > SHORT_BODY_BYTES
            }
        };
        if long { Work::Long } else { Work::Short }
    }

    fn answer_in_pieces(
        &self,
        database: &Database,
        headers: &HeaderMap,
        body: &[u8],
        hand_over: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
    ) -> Result<Answer> {
        match &self.verb {
            Verb::List(query) => handlers::list_in_pieces(database, self.table, query, hand_over),
            Verb::ListByBody(limits) => handlers::list_in_pieces(
                database,
                self.table,
                &read_query(self.schema, self.table, body, limits)?,
                hand_over,
            ),
            _ => self.answer(database, headers, body),
        }
    }

    fn answer(&self, database: &Database, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
        let table = self.table;
        match &self.verb {
            Verb::Read(id) => handlers::read(database, table, id, headers),
            Verb::ReadSelected(id, query) => handlers::read_selected(database, table, id, query, headers),
            Verb::List(query) => handlers::list(database, table, query),
            Verb::ListByBody(limits) => handlers::list(database, table, &read_query(self.schema, table, body, limits)?),
            Verb::Create if is_array(body) => handlers::create_all(database, table, headers, body),
            Verb::Create => handlers::create(database, table, headers, body),
            Verb::Replace(id) => handlers::replace(database, table, id, headers, body),
            Verb::Merge(id) => handlers::merge(database, table, id, headers, body),
            Verb::Delete(id) => handlers::delete(database, table, id, headers),
            Verb::DeleteMatching(text, limits) => handlers::delete_matching(database, table, text, headers, limits),
            Verb::Follow(..) => Ok(handlers::event_stream(Bytes::new())),
            Verb::Options(allow) => Ok(handlers::options(allow)),
        }
    }
}

/// A record in a longer body may take a millisecond to be read and written, and others would wait for it.
const SHORT_BODY_BYTES: usize = 128 << 10;

/// The query that is a body; white space at its end is that of an editor.
fn read_query<'b>(schema: &Schema, table: &Table, body: &'b [u8], limits: &Limits) -> Result<Query<'b>> {
    let text = std::str::from_utf8(body.trim_ascii_end()).map_err(|error| Error::Invalid {
        detail: "the query is not UTF-8".to_owned(),
        place: Place::Position(error.valid_up_to()),
    })?;
    Ok(Query::parse(schema, table, text, limits)?)
}

/// Whether JSON text is an array, if it is anything.
fn is_array(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage;
    use http::HeaderValue;
    use http::header::{ACCEPT, CONTENT_TYPE};

    fn routes(folder: &tempfile::TempDir) -> Routes {
        let schema = "type Product @table @export { id: ID! @primaryKey } \
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
            Some(Ok(Route::Graphql(_))) => "graphql".to_owned(),
            Some(Ok(Route::Table(TableRoute { table, verb, .. }))) => match verb {
                Verb::Read(id) => format!("read {} {id}", table.name),
                Verb::ReadSelected(id, _) => format!("read {} {id} cut", table.name),
                Verb::Replace(id) => format!("replace {} {id}", table.name),
                Verb::Merge(id) => format!("merge {} {id}", table.name),
                Verb::Delete(id) => format!("delete {} {id}", table.name),
                Verb::DeleteMatching(text, _) => format!("delete {} where {text}", table.name),
                Verb::List(query) => format!("list {} {}", table.name, query.limit.unwrap()),
                Verb::ListByBody(_) => format!("list {} by body", table.name),
                Verb::Create => format!("create {}", table.name),
                Verb::Follow(id, after) => {
                    let (id, after) = (id.unwrap_or_default(), after.map(|after| after.to_string()));
                    format!("follow {} {id} {}", table.name, after.unwrap_or_default())
                }
                Verb::Options(_) => "options".to_owned(),
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
            ("PUT", "/Product", "405"),
            ("TRACE", "/Product", "405"),
            ("GET", "/Product/1/picture", "404"),
            ("GET", "/Product/%FF", "400"),
            ("POST", "/Product?x", "400"),
            ("GET", "/Secret/1", "other"),
            ("GET", "/product/1", "other"),
            ("GET", "/", "other"),
            ("OPTIONS", "*", "other"),
            ("GET", "/_health", "other"),
            ("POST", "/graphql", "graphql"),
            ("GET", "/graphql?query=x", "graphql"),
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
    fn requests_to_one_table_have_two_shapes() {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder);
        let templates = routes.templates();
        assert_eq!(templates, ["/Ledger", "/Ledger/{id}", "/Product", "/Product/{id}", "/graphql"]);
        for (method, uri, expected) in [
            (Method::GET, "/Ledger/a", "/Ledger/{id}"),
            (Method::GET, "/Product?limit=1", "/Product"),
            (Method::POST, "/%50roduct/", "/Product"),
            (Method::PUT, "/Product/a%2Fb", "/Product/{id}"),
            (Method::OPTIONS, "/Product", "/Product"),
            (Method::OPTIONS, "/Product/1", "/Product/{id}"),
            (Method::POST, "/graphql", "/graphql"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let route = routes.resolve(&method, &uri, &typed(method.as_str(), uri.path())).unwrap().unwrap();
            assert_eq!(templates[routes.template(&route).0], expected, "{uri}");
            assert_eq!(templates[routes.template_of(&uri).unwrap().0], expected, "{uri}");
        }
        let uri: Uri = "/Product/1/picture".parse().unwrap();
        assert_eq!(templates[routes.template_of(&uri).unwrap().0], "/Product/{id}", "that is refused, too");
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
            ("GET", "/Product/1/picture?stream=sse", "404"),
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
