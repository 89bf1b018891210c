//! Operational endpoints beside the tables: health and readiness, counters, metrics and statistics, the list of tables, the console, and
//! checkpoints of the store.
//!
//! Served by an axum `Router`, because none of it is performance-critical.
//!
//! No request names a place in the file system: a checkpoint has a name, and the operator its directory.

mod statistics;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, any, get, post};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RANGE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::OnceCell;

use super::client;
use super::limits::{Limited, Limits, Outcomes};
use super::peer::Peer;
use super::scheduler::Scheduler;
use super::thumbnail_cache;
use crate::console::Console;
use crate::error::Error;
use crate::feed;
use crate::handlers::{
    self, Failure, Response, Validator,
    coding::{self, AcceptedCoding},
};
use crate::multicast::{self, Multicast};
use crate::observability::Observability;
use crate::routing;
use crate::schema::{IndexState, ThumbSize};
use crate::storage;
use crate::streams;
use crate::transaction::Registrations;

/// The router and its shared state.
#[derive(Clone)]
pub(super) struct Operations {
    router: TowerToHyperService<axum::Router>,
    state: Arc<Shared>,
}

struct Shared {
    scheduler: Arc<Scheduler>,
    /// The directory for checkpoints; `None`: there are none.
    checkpoints: Option<Arc<Path>>,
    multicast: Multicast,
    observability: Arc<Observability>,
    began: Instant,
    /// Made when it is first requested.
    console: OnceCell<Console>,
    ready: AtomicBool,
    description: OnceLock<Description>,
}

/// The OpenAPI document and its validator.
struct Description {
    validator: Validator,
    text: Bytes,
}

/// A failure returned through the router, whose handlers can only return responses. The caller that takes it out knows the request id.
#[derive(Clone)]
struct Refused(Arc<Failure>);

/// Whether the request comes from this machine.
#[derive(Clone, Copy)]
struct Local(bool);

const ALLOW: &str = "GET, HEAD, OPTIONS";

impl Operations {
    pub(super) fn new(
        scheduler: Arc<Scheduler>,
        checkpoints: Option<Arc<Path>>,
        multicast: Multicast,
        observability: Arc<Observability>,
    ) -> Self {
        let state = Arc::new(Shared {
            scheduler,
            checkpoints,
            multicast,
            observability,
            began: Instant::now(),
            console: OnceCell::new(),
            ready: AtomicBool::new(false),
            description: OnceLock::new(),
        });
        let coding = |methods: MethodRouter<_>| methods.route_layer(from_fn_with_state(Arc::clone(&state), coded));
        let shown = |methods: MethodRouter<_>| coding(methods.route_layer(from_fn(unversioned))).options(options);
        let router = axum::Router::new()
            .route("/_health", shown(get(health)))
            .route("/_ready", shown(get(ready)))
            .route("/_counters", shown(get(counters)))
            .route("/_metrics", shown(get(metrics)))
            .route("/_stats", shown(get(statistics::statistics)))
            .route("/_tables", shown(get(tables)))
            .route("/_openapi.json", coding(get(described)).options(options))
            .route("/_checkpoint", only_posted(coding(post(checkpoint).route_layer(from_fn(unversioned)))))
            .route("/_console", any(console))
            .route("/_console/", any(console))
            .route("/_console/{*file}", any(console))
            .fallback(nothing)
            .method_not_allowed_fallback(|| async { refused(Failure::Method { allow: ALLOW }) })
            .with_state(Arc::clone(&state));
        Self { router: TowerToHyperService::new(router), state }
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.state.ready.store(ready, Ordering::Relaxed);
    }

    /// Answers a request whose path is not a table's.
    ///
    /// The response to HEAD is that to GET.
    ///
    /// # Errors
    /// 400, 403, 404, 405, 406, 412; errors of the database.
    pub(super) async fn respond(&self, mut parts: Parts, peer: &Peer) -> handlers::Result<Response> {
        if parts.method == Method::OPTIONS && parts.uri.path() == "*" {
            return Ok(handlers::options(routing::METHODS));
        }
        if parts.method == Method::HEAD {
            parts.method = Method::GET;
            parts.headers.remove(RANGE);
        }
        parts.extensions.insert(Local(client::is_local(peer.address(), &parts.headers)));
        let request = Request::from_parts(parts, Body::empty());
        let mut response = match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        match response.extensions_mut().remove::<Refused>().and_then(|Refused(failure)| Arc::into_inner(failure)) {
            None => Ok(in_memory(response).await),
            Some(failure) => Err(failure),
        }
    }
}

/// Refuses preconditions on an endpoint without versions.
async fn unversioned(request: Request, next: Next) -> Response<Body> {
    match handlers::unconditional(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => refused(failure),
    }
}

/// Compresses the response of an endpoint, or refuses the request if it accepts no coding.
async fn coded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response<Body> {
    let accepted = match AcceptedCoding::accepted(request.headers()) {
        Ok(accepted) => accepted,
        Err(failure) => return refused(failure),
    };
    let response = in_memory(next.run(request).await).await;
    let coding = accepted.of_bytes(response.body().len());
    let peer = Peer::server(&shared.scheduler.limits);
    shared.scheduler.compressed(response, coding, &peer).await.map_or_else(refused, into_response)
}

/// Takes a response out of the router, whose handlers have their responses in memory.
async fn in_memory(response: Response<Body>) -> Response {
    let (head, body) = response.into_parts();
    Response::from_parts(head, to_bytes(body, usize::MAX).await.expect("it is in memory"))
}

async fn options() -> Response<Body> {
    into_response(handlers::options(ALLOW))
}

/// Reports whether it can read and write, and how many indexes are not ready; causes are for the operator, in the log.
async fn health(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let database = shared.scheduler.database();
    let failure = match database.store().is_short() {
        false => database.store().failure(),
        true => {
            let database = database.clone();
            shared
                .scheduler
                .blocking(move || Ok(database.store().failure()))
                .await
                .unwrap_or_else(|_| Some("the server stops".to_owned()))
        }
    };
    let (mut status, mut said) = match failure {
        None => (StatusCode::OK, json!({"status": "ok"})),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "the storage refuses writes"})),
    };
    if !database.store().look_at_room() {
        (status, said) = (
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"status": "the disk is nearly full: writes that add are refused"}),
        );
    }
    if let Some(cluster) = database.cluster() {
        if cluster.lease_ms == 0 {
            (status, said) = (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "the database does not answer"}));
        }
        said["cluster"] = json!(cluster);
    }
    let indexes = || database.schema().tables.iter().flat_map(|table| &table.indexes);
    let count = |state| indexes().filter(|index| index.state() == state).count();
    let (building, failed) = (count(IndexState::Building), count(IndexState::Failed));
    if building + failed > 0 {
        said["indexes"] = json!({"building": building, "failed": failed});
    }
    (status, Json(said))
}

async fn ready(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let has_lease = shared.scheduler.database().cluster().is_none_or(|cluster| cluster.lease_ms > 0);
    match shared.ready.load(Ordering::Relaxed) && has_lease {
        true => (StatusCode::OK, Json(json!({"status": "ready"}))),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not ready"}))),
    }
}

/// The counters, and the current state.
#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    storage: storage::Counters,
    feed: feed::Counters,
    streams: OfStreams,
    registry: OfRegistry,
    /// Absent if no table is kept in Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<multicast::RegistryCounters>,
    multicast: multicast::Counters,
    thumbs: thumbnail_cache::Counters,
    limits: BTreeMap<&'static str, Outcomes>,
}

#[derive(Serialize)]
struct OfStreams {
    #[serde(flatten)]
    counters: streams::Counters,
    waiting: usize,
}

#[derive(Serialize)]
struct OfRegistry {
    #[serde(flatten)]
    registrations: Registrations,
    /// Number of records that subscribers hold.
    held: usize,
}

/// Returns the counts since the store was opened, which are not public: they disclose the load.
async fn counters(State(shared): State<Arc<Shared>>, Extension(Local(is_local)): Extension<Local>) -> Response<Body> {
    match is_local {
        true => {
            let (storage, feed) = (shared.scheduler.database().counters(), shared.multicast.feed().counters());
            let outcomes = |limited: Limited| (limited.name(), shared.scheduler.limits.outcomes(limited));
            let limits = Limited::ALL.into_iter().map(outcomes).collect();
            let streams = shared.scheduler.routes().streams();
            let streams = OfStreams { counters: streams.counters(), waiting: streams.waiting() };
            let registrations = shared.scheduler.database().registrations();
            let registry = OfRegistry { registrations, held: shared.multicast.feed().held() };
            let redis = shared.scheduler.routes().registry().map(multicast::Registry::counters);
            let multicast = shared.multicast.counters();
            let thumbs = shared.scheduler.thumbnails.counters();
            Json(Counted { storage, feed, streams, registry, redis, multicast, thumbs, limits }).into_response()
        }
        false => refused(Failure::LocalOnly),
    }
}

/// A served table, in the terms of its schema.
#[derive(Serialize)]
struct Served<'t> {
    name: &'t str,
    /// Where its records are kept, if not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    registry: Option<&'static str>,
    durability: &'static str,
    primary_key: &'t str,
    /// Whether its records may end.
    expires: bool,
    /// Whether it takes multicasts.
    multicast: bool,
    attributes: Vec<Described<'t>>,
    indexes: Vec<Indexed<'t>>,
    relationships: Vec<Related<'t>>,
}

#[derive(Serialize)]
struct Described<'t> {
    name: &'t str,
    r#type: String,
    /// The sizes of thumbnails that may be asked for, if not all may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thumb_sizes: Vec<String>,
}

#[derive(Serialize)]
struct Indexed<'t> {
    attributes: Vec<&'t str>,
    r#type: &'static str,
    state: &'static str,
    /// The number of records indexed so far, during a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
}

/// A relationship, its target table, and its foreign key: an attribute of this table or, for a to-many relationship, of the other.
#[derive(Serialize)]
struct Related<'t> {
    name: &'t str,
    table: &'t str,
    many: bool,
    key: &'t str,
}

async fn tables(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let schema = shared.scheduler.database().schema();
    let served = schema.tables.iter().filter(|table| table.exported).map(|table| {
        let name = |position: usize| table.attributes[position].name.as_str();
        let attributes = table.attributes.iter().map(|attribute| Described {
            name: &attribute.name,
            r#type: attribute.type_name(),
            thumb_sizes: attribute.thumb_sizes.iter().map(ThumbSize::to_string).collect(),
        });
        let indexes = table.indexes.iter().map(|index| Indexed {
            attributes: index.attributes().map(name).collect(),
            r#type: index.kind.name(),
            state: index.state().name(),
            records: (index.state() == IndexState::Building).then(|| index.built_records()),
        });
        let relationships = table.relationships.iter().map(|relationship| {
            let other = &schema.tables[relationship.table];
            let owner = if relationship.many { other } else { table };
            let key = &owner.attributes[relationship.foreign_key].name;
            Related { name: &relationship.name, table: &other.name, many: relationship.many, key }
        });
        Served {
            name: &table.name,
            registry: table.in_redis.then_some("redis"),
            durability: table.durability.name(),
            primary_key: name(table.primary_key),
            expires: table.expires(),
            multicast: table.multicast.is_some(),
            attributes: attributes.collect(),
            indexes: indexes.collect(),
            relationships: relationships.collect(),
        }
    });
    Json(served.collect::<Vec<_>>()).into_response()
}

/// Serves the console, only to browsers on this machine.
async fn console(
    State(shared): State<Arc<Shared>>,
    Extension(Local(is_local)): Extension<Local>,
    request: Request,
) -> Response<Body> {
    if !is_local {
        return refused(Failure::LocalOnly);
    }
    let made = shared.console.get_or_try_init(|| shared.scheduler.blocking(|| Ok(Console::new()))).await;
    match made.map(|console| console.respond(request.method(), request.uri(), request.headers())) {
        Ok(Some(Ok(response))) => into_response(response),
        Ok(Some(Err(failure))) | Err(failure) => refused(failure),
        Ok(None) => refused(Failure::nothing_at(request.uri().path())),
    }
}

/// Returns the OpenAPI document. The schema does not change while the server runs, so the document is made once.
async fn described(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response<Body> {
    let description = shared.description.get_or_init(|| {
        let text = Bytes::from(shared.scheduler.routes().described().to_string());
        Description { validator: Validator::of_text(&text), text }
    });
    let Description { validator, text } = description;
    if handlers::is_stale(&headers, validator) {
        return refused(Error::Stale.into());
    }
    let coding = AcceptedCoding::accepted(&headers).ok().and_then(|accepted| accepted.of_bytes(text.len()));
    let as_sent = coding.map_or_else(|| validator.clone(), |coding| validator.clone().with(coding.name()));
    if !as_sent.is_known(&headers) {
        return into_response(handlers::with_record(StatusCode::OK, validator, text.clone()));
    }
    let mut response = handlers::not_modified(&as_sent);
    coding::vary(coding, response.headers_mut());
    into_response(response)
}

/// The parameters of a checkpoint.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: Option<Name>,
}

/// The name of a checkpoint, which is that of its directory.
#[derive(Clone, Deserialize, Serialize)]
#[serde(try_from = "String")]
struct Name(String);

impl Name {
    /// Returns the time in UTC.
    fn of_now() -> Self {
        Self(jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string())
    }
}

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match matches!(text.len(), 1..=64) && text.bytes().all(is_allowed) {
            true => Ok(Self(text)),
            false => Err("not a name"),
        }
    }
}

/// Adds the methods that an endpoint does not serve which is only posted to.
fn only_posted(post: MethodRouter<Arc<Shared>>) -> MethodRouter<Arc<Shared>> {
    const ALLOW: &str = "POST, OPTIONS";
    post.options(|| async { into_response(handlers::options(ALLOW)) })
        .fallback(|| async { refused(Failure::Method { allow: ALLOW }) })
}

/// Makes an online copy of the store in the directory for checkpoints. Only the operator chooses that: the server may write where those who
/// may connect to it may not.
async fn checkpoint(
    State(shared): State<Arc<Shared>>,
    Extension(Local(is_local)): Extension<Local>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response<Body> {
    if !is_local {
        return refused(Failure::LocalOnly);
    }
    if let Err(error) = shared.scheduler.database().store().check_has_files() {
        return refused(Failure::from(error));
    }
    let Some(directory) = &shared.checkpoints else {
        let detail = "the server keeps no checkpoints: start it with --checkpoint-dir DIR".to_owned();
        return refused(Error::NotFound { detail }.into());
    };
    let Ok(Query(Wanted { name })) = wanted else {
        let detail = "the only parameter is name, of 1 to 64 characters, each one of A-Z, a-z, 0-9, - and _";
        return refused(Error::invalid(detail).into());
    };
    let name = name.unwrap_or_else(Name::of_now);
    let (database, copy) = (shared.scheduler.database().clone(), directory.join(&name.0));
    let made = shared.scheduler.blocking(move || database.store().checkpoint(&copy)).await;
    match made {
        Ok(()) => (StatusCode::CREATED, Json(json!({ "name": name }))).into_response(),
        Err(Failure::Error(Error::Invalid { .. })) => {
            let detail = format!("the checkpoint {} exists, or is being made: choose another name", name.0);
            refused(Error::invalid(detail).into())
        }
        Err(failure) => refused(failure),
    }
}

/// What became of requests for parts of the limits that clients share.
fn register_limits(limits: &Limits, registry: &mut Registry) {
    let refused = Family::<[(&str, &str); 1], Counter>::default();
    let given_up = Family::<[(&str, &str); 1], Counter>::default();
    for limited in Limited::ALL {
        let Outcomes { refused: refusals, given_up: gifts } = limits.outcomes(limited);
        refused.get_or_create(&[("limit", limited.name())]).inc_by(refusals);
        given_up.get_or_create(&[("limit", limited.name())]).inc_by(gifts);
    }
    registry.register("strata_limit_refused", "Refused, because the limit was full", refused);
    registry.register("strata_limit_given_up", "Ended for a client that holds less of the limit", given_up);
}

/// Returns Prometheus metrics: requests by route for everyone, and those of the store for clients that may see the counters.
async fn metrics(State(shared): State<Arc<Shared>>, Extension(Local(is_local)): Extension<Local>) -> impl IntoResponse {
    let mut registry = shared.observability.metrics();
    let ready = u64::from(shared.ready.load(Ordering::Relaxed));
    registry.register("strata_ready", "Whether the server is ready for requests", ConstGauge::new(ready));
    let waiting = ConstGauge::new(shared.scheduler.waiting());
    registry.register("strata_requests_waiting", "Requests waiting for their bodies or for a pool", waiting);
    let held = ConstGauge::new(shared.scheduler.body_bytes());
    registry.register("strata_request_body_held_bytes", "Bytes of request bodies in memory", held);
    register_feed(&shared.multicast.feed().counters(), &mut registry);
    register_limits(&shared.scheduler.limits, &mut registry);
    if is_local {
        let streams = shared.scheduler.routes().streams();
        register_all("storage", &shared.scheduler.database().counters(), &mut registry);
        register_all("streams", &streams.counters(), &mut registry);
        register_all("registry", &shared.scheduler.database().registrations(), &mut registry);
        register_all("multicast", &shared.multicast.counters(), &mut registry);
        register_all("thumbs", &shared.scheduler.thumbnails.counters(), &mut registry);
        if let Some(redis) = shared.scheduler.routes().registry() {
            register_all("redis", &redis.counters(), &mut registry);
        }
        let held = ConstGauge::new(shared.multicast.feed().held() as u64);
        registry.register("strata_registry_held", "Records that subscribers hold", held);
        let waiting = ConstGauge::new(streams.waiting() as u64);
        registry.register("strata_streams_waiting", "Readers and subscribers waiting for an event", waiting);
    }
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to memory does not fail");
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

/// Registers each member of a struct of counters.
fn register_all(layer: &str, counters: &impl Serialize, registry: &mut Registry) {
    let counters = serde_json::to_value(counters).unwrap_or_default();
    for (name, number) in counters.as_object().into_iter().flatten() {
        let counter = ConstCounter::new(number.as_u64().unwrap_or_default());
        registry.register(format!("strata_{layer}_{name}"), "Counted since the store was opened", counter);
    }
}

fn register_feed(counters: &feed::Counters, registry: &mut Registry) {
    let subscribers = ConstGauge::new(counters.subscribers as u64);
    registry.register("strata_feed_subscribers", "Subscribers to the change feed", subscribers);
    let queued_bytes = ConstGauge::new(counters.queued_bytes as u64);
    registry.register("strata_feed_queued_bytes", "Bytes of events not sent yet", queued_bytes);
    let events = ConstCounter::new(counters.events);
    registry.register("strata_feed_events", "Events delivered to subscribers", events);
    let lagged = ConstCounter::new(counters.lagged);
    registry.register("strata_feed_lagged", "Subscribers informed that they lag behind", lagged);
}

async fn nothing(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    refused(shared.scheduler.routes().nothing_at(request.uri().path()))
}

fn refused(failure: Failure) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Refused(Arc::new(failure)));
    response
}

fn into_response(response: Response) -> Response<Body> {
    response.map(Body::from)
}
