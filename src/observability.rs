//! Request observability: contexts, ids, spans, counters by route, and the access log; and the messages of the server itself
//! ([`messages`]).
//!
//! Each thread that answers requests has a [`Recorder`], so that counting touches no memory of another core. It returns a [`Context`] when
//! the head of a request has arrived, and consumes it with the response. Counting by route and status class is always enabled; clocks, ids
//! and the log are expensive, so without `timings` and without a log a context is three numbers, and nothing is allocated for it.
//!
//! Non-goals: connections that never became a request (`server` rejects them); the statistics of the store (`storage`).

mod counts;
mod identity;
mod lines;
mod log;
pub mod messages;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use counts::{Counts, Totals};
pub use identity::{Identity, Ids};
use lines::Lines;
use log::{Log, Target};

/// What is recorded of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The file to which the access log is appended, `-` for standard error; `None` = no access log.
    pub access_log: Option<PathBuf>,
    /// Maximum number of pending lines of the access log; further ones are dropped and counted.
    pub access_log_lines: usize,
    /// Whether all requests are timed, for the histogram in the metrics. Implied by an access log.
    pub timings: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { access_log: None, access_log_lines: 8192, timings: false }
    }
}

/// The route under which requests are counted: an index into the names given to [`Observability::start`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteNumber(pub usize);

/// The state shared by all recorders: the names of the routes, the counts, the access log.
pub struct Observability {
    routes: Arc<[String]>,
    timed: bool,
    recorders: Mutex<Vec<Arc<Counts>>>,
    log: Option<(Lines, Target)>,
}

impl Observability {
    /// Counts requests by these routes. The first one is for requests with an unknown route.
    ///
    /// # Errors
    /// `Storage` if the file of the access log cannot be opened.
    ///
    /// # Panics
    /// If the thread of the access log cannot be created.
    pub fn start(options: &Options, routes: impl IntoIterator<Item = String>) -> Result<Self> {
        let log = options.access_log.as_deref();
        let log = log.map(Target::open).transpose()?;
        let log = log.map(|target| (target.lines(options.access_log_lines), target));
        Ok(Self::with(routes.into_iter().collect(), options.timings || log.is_some(), log))
    }

    /// Only counts requests by these routes.
    pub fn counting(routes: impl IntoIterator<Item = String>) -> Self {
        Self::with(routes.into_iter().collect(), false, None)
    }

    fn with(routes: Arc<[String]>, timed: bool, log: Option<(Lines, Target)>) -> Self {
        Self { routes, timed, recorders: Mutex::default(), log }
    }

    /// Returns a recorder for one thread. Its counts are kept when it is dropped.
    pub fn recorder(&self) -> Recorder {
        let counts = Arc::new(Counts::new(self.routes.len(), self.timed));
        self.recorders.lock().push(Arc::clone(&counts));
        let queue = self.log.as_ref().and_then(|(lines, _)| lines.queue());
        let log = queue.map(|queue| Log::new(Arc::clone(&self.routes), queue));
        Recorder { timed: self.timed, counts, ids: Ids::new(), log }
    }

    /// Returns the number of lines of the access log that were lost, because too many were pending or the file could not be written.
    pub fn dropped_lines(&self) -> u64 {
        self.log.as_ref().map_or(0, |(lines, _)| lines.lost())
    }

    /// Returns all counts so far as Prometheus metrics.
    pub fn metrics(&self) -> Registry {
        let mut registry = Registry::default();
        let totals = Totals { routes: Arc::clone(&self.routes), recorders: self.recorders.lock().clone() };
        registry.register_collector(Box::new(totals));
        let lost = "Lines for standard error that were dropped";
        registry.register("strata_messages_dropped_lines", lost, ConstCounter::new(messages::dropped_lines()));
        if let Some((log, _)) = &self.log {
            registry.register(
                "strata_access_log_dropped_lines",
                "Lines of the access log that were dropped",
                ConstCounter::new(log.lost()),
            );
        }
        registry
    }

    /// Waits at most `longest` until all records so far are in the log, since nobody may be reading it. Later ones are not logged.
    pub fn close(&self, longest: Duration) {
        if let Some((log, _)) = &self.log {
            log.close(longest);
        }
    }

    /// Opens the file of the access log again, if there is one: it may have been moved away.
    ///
    /// # Errors
    /// `Storage` if it cannot be opened; lines then go where they went.
    pub fn reopen_log(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |(_, target)| target.reopen())
    }
}

/// A part of the time that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Resolving the request.
    Routing,
    /// Waiting for the body.
    Body,
    /// Waiting for a thread of the pool.
    Pool,
    /// Making the response.
    Handler,
}

/// One request, from its head to its response.
#[derive(Debug)]
pub struct Context {
    route: RouteNumber,
    bytes_in: u64,
    /// `None` if nobody needs them.
    details: Option<Box<Details>>,
}

/// The details that are expensive to obtain.
#[derive(Debug)]
struct Details {
    began: Instant,
    /// The start of the current span.
    marked: Instant,
    spans: [Duration; 4],
    logged: Option<Logged>,
}

/// What the access log needs from the beginning of a request.
#[derive(Debug)]
struct Logged {
    at: SystemTime,
    /// The client's address.
    peer: IpAddr,
    method: Method,
    /// Owned: a slice of the head would keep all of it in memory until the response is there.
    path: Box<str>,
    identity: Identity,
}

impl Context {
    /// Sets the route of the request.
    #[inline]
    pub fn set_route(&mut self, route: RouteNumber) {
        self.route = route;
    }

    /// Adds the number of bytes read of its body.
    pub fn add_bytes_in(&mut self, bytes: usize) {
        self.bytes_in += bytes as u64;
    }

    /// Attributes the time since the last mark to this span.
    #[inline]
    pub fn mark(&mut self, span: Span) {
        if self.details.is_some() {
            self.mark_at(span, Instant::now());
        }
    }

    /// Attributes the time from the last mark to `now` to this span.
    pub fn mark_at(&mut self, span: Span, now: Instant) {
        if let Some(details) = &mut self.details {
            details.spans[span as usize] += now.saturating_duration_since(details.marked);
            details.marked = now;
        }
    }

    /// Returns the duration of a span, if the request is timed.
    pub fn span(&self, span: Span) -> Option<Duration> {
        self.details.as_ref().map(|details| details.spans[span as usize])
    }
}

/// Returns the status recorded for a request whose client disconnected before the response: 499 by convention, which is never sent.
fn client_left() -> StatusCode {
    StatusCode::from_u16(499).expect("three digits")
}

/// Records the requests answered by one thread. It may be shared, at the cost of shared counters.
pub struct Recorder {
    timed: bool,
    counts: Arc<Counts>,
    ids: Ids,
    log: Option<Log>,
}

impl Recorder {
    /// Begins a request whose head has arrived. `client` returns the address of who sent it, which only the log needs.
    #[inline]
    pub fn begin(&self, parts: &Parts, client: impl FnOnce() -> IpAddr) -> Context {
        let details = self.timed.then(|| self.details(parts, client));
        Context { route: RouteNumber::default(), bytes_in: 0, details }
    }

    fn details(&self, parts: &Parts, client: impl FnOnce() -> IpAddr) -> Box<Details> {
        let began = Instant::now();
        let logged = self.log.is_some().then(|| Logged {
            at: SystemTime::now(),
            peer: client(),
            method: parts.method.clone(),
            path: parts.uri.path().into(),
            identity: self.ids.of(&parts.headers),
        });
        Box::new(Details { began, marked: began, spans: [Duration::ZERO; 4], logged })
    }

    /// Returns the id of a request: that in the log if there is one, else one that continues the trace in its headers.
    pub fn identity(&self, context: &Context, headers: &HeaderMap) -> Identity {
        let logged = context.details.as_ref().and_then(|details| details.logged.as_ref());
        logged.map_or_else(|| self.ids.of(headers), |logged| logged.identity)
    }

    /// Records a request whose client disconnected before the response.
    pub fn abandon(&self, context: Context) {
        self.finish(context, client_left(), 0);
    }

    /// Records an answered request.
    pub fn finish(&self, context: Context, status: StatusCode, bytes_out: u64) {
        let took = context.details.as_ref().map(|details| details.began.elapsed());
        self.counts.count(context.route, status, context.bytes_in, bytes_out, took);
        if let Some((log, took)) = self.log.as_ref().zip(took) {
            log.write(&context, took, status, bytes_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::net::Ipv4Addr;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const KNOWN: RouteNumber = RouteNumber(1);

    fn routes() -> [String; 2] {
        ["other".to_owned(), "/Product/{id}".to_owned()]
    }

    fn parts(uri: &str) -> Parts {
        Request::get(uri).body(()).unwrap().into_parts().0
    }

    fn text(observability: &Observability) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &observability.metrics()).unwrap();
        text
    }

    fn respond(recorder: &Recorder, uri: &str, status: StatusCode) {
        let mut context = recorder.begin(&parts(uri), || PEER);
        context.set_route(KNOWN);
        context.add_bytes_in(3);
        recorder.finish(context, status, 40);
    }

    #[test]
    fn recorders_are_counted_together() {
        let observability = Observability::counting(routes());
        let (one, two) = (observability.recorder(), observability.recorder());
        respond(&one, "/Product/1", StatusCode::OK);
        respond(&two, "/Product/2", StatusCode::OK);
        drop(two);
        respond(&one, "/Product/3", StatusCode::NOT_FOUND);
        one.finish(one.begin(&parts("/"), || PEER), StatusCode::NOT_FOUND, 7);
        let metrics = text(&observability);
        for line in [
            "strata_requests_total{route=\"/Product/{id}\",class=\"2xx\"} 2",
            "strata_requests_total{route=\"/Product/{id}\",class=\"4xx\"} 1",
            "strata_requests_total{route=\"other\",class=\"4xx\"} 1",
            "strata_request_body_bytes_total{route=\"/Product/{id}\"} 9",
            "strata_response_body_bytes_total{route=\"/Product/{id}\"} 120",
            "strata_response_body_bytes_total{route=\"other\"} 7",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
        }
        assert!(!metrics.contains("seconds"), "nothing was timed: {metrics}");
    }

    #[test]
    fn spans_are_the_time_between_marks() {
        let options = Options { timings: true, ..Options::default() };
        let observability = Observability::start(&options, routes()).unwrap();
        let recorder = observability.recorder();
        let mut context = recorder.begin(&parts("/Product/1"), || PEER);
        let began = context.details.as_ref().unwrap().began;
        let after = |milliseconds| began + Duration::from_millis(milliseconds);
        context.mark_at(Span::Routing, after(1));
        context.mark_at(Span::Handler, after(3));
        context.mark_at(Span::Pool, after(10));
        context.mark_at(Span::Handler, after(14));
        context.mark_at(Span::Body, after(13));
        let milliseconds = |span| context.span(span).unwrap().as_millis();
        assert_eq!([Span::Routing, Span::Body, Span::Pool, Span::Handler].map(milliseconds), [1, 0, 7, 6]);
        context.set_route(KNOWN);
        recorder.finish(context, StatusCode::OK, 0);
        let metrics = text(&observability);
        let all = "strata_request_duration_seconds_bucket{le=\"+Inf\",route=\"/Product/{id}\"} 1";
        assert!(metrics.contains(all) && metrics.contains("_seconds_count{route=\"/Product/{id}\"} 1"), "{metrics}");
    }

    #[test]
    fn without_timings_nothing_is_known_but_the_route() {
        let observability = Observability::counting(routes());
        let mut context = observability.recorder().begin(&parts("/Product/1"), || PEER);
        context.mark(Span::Routing);
        assert_eq!(context.span(Span::Routing), None);
        assert_eq!(size_of::<Context>(), 24);
    }

    #[test]
    fn the_log_has_a_line_for_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let options = Options { access_log: Some(path.clone()), ..Options::default() };
        let observability = Observability::start(&options, routes()).unwrap();
        let recorder = observability.recorder();
        let mut traced = parts("/Product/a%20b?name==secret");
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        traced.headers.insert("traceparent", http::HeaderValue::from_static(traceparent));
        let mut context = recorder.begin(&traced, || PEER);
        context.set_route(KNOWN);
        recorder.finish(context, StatusCode::OK, 12);
        respond(&recorder, "/Product/2", StatusCode::CREATED);
        drop(recorder);
        observability.close(Duration::from_secs(60));
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), observability.dropped_lines()), (2, 0), "{text}");
        assert_eq!(lines[0]["id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(lines[0]["parent"], "b7ad6b7169203331");
        assert_eq!((&lines[0]["path"], &lines[0]["route"]), (&"/Product/a%20b".into(), &"/Product/{id}".into()));
        assert_eq!((&lines[0]["method"], &lines[0]["status"]), (&"GET".into(), &200.into()));
        assert_eq!((&lines[1]["bytes_in"], &lines[1]["bytes_out"]), (&3.into(), &40.into()));
        assert!(lines[1]["parent"].is_null() && lines[1]["duration_us"].is_u64());
        assert!(!text.contains("secret"), "what was asked for is the client's affair");
    }

    #[test]
    fn a_client_that_leaves_is_recorded() {
        let observability = Observability::counting(routes());
        let recorder = observability.recorder();
        let mut context = recorder.begin(&parts("/Product/1"), || PEER);
        context.set_route(KNOWN);
        recorder.abandon(context);
        let metrics = text(&observability);
        assert!(metrics.contains("strata_requests_total{route=\"/Product/{id}\",class=\"4xx\"} 1"), "{metrics}");
    }

    #[test]
    fn a_request_that_is_logged_keeps_no_head_in_memory() {
        let options = Options { access_log: Some(PathBuf::from("/dev/null")), ..Options::default() };
        let observability = Observability::start(&options, routes()).unwrap();
        let recorder = observability.recorder();
        let head = bytes::Bytes::from(format!("/Product/1?{}", "x".repeat(8000)));
        let mut parts = parts("/");
        parts.uri = http::Uri::from_maybe_shared(head.clone()).unwrap();
        let context = recorder.begin(&parts, || PEER);
        drop(parts);
        assert!(head.is_unique(), "the context has a part of it");
        recorder.finish(context, StatusCode::OK, 0);
    }

    #[test]
    fn lines_that_find_no_place_are_counted() {
        let options =
            Options { access_log: Some(PathBuf::from("/dev/full")), access_log_lines: 4, ..Options::default() };
        let observability = Observability::start(&options, routes()).unwrap();
        let recorder = observability.recorder();
        for _ in 0..100 {
            respond(&recorder, "/Product/1", StatusCode::OK);
        }
        drop(recorder);
        observability.close(Duration::from_secs(60));
        assert_eq!(observability.dropped_lines(), 100, "some had no place in the queue, the others none on the device");
        assert!(text(&observability).contains("strata_access_log_dropped_lines_total 100"));
    }
}
