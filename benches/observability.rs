//! The cost of observing a request: its context, the spans in it, its ids, and its end with and without a log.
//!
//! Off is the default of a server: requests are counted by route and status class, and no clock is read. When on, each is timed, or has a
//! line in the access log; another thread writes the line, and its time is not part of these rows. Neither thread waits, so a line is
//! dropped when the queue is full; here it has room for all, and a dropped line fails the row. Spans are marked 64 times per operation,
//! because once takes a few nanoseconds; `driver` is the same loop without the marks.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Request, StatusCode};
use strata::observability::{Ids, Observability, Options, Recorder, RouteNumber, Span};
use strata_harness::{Data, Facts, State, Suite, Unit, suite, temporary_directory};
use tempfile::TempDir;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Requests that one log has room for.
const LINES: u64 = 4096;

fn main() {
    suite("observability", |suite| {
        context(suite);
        spans(suite);
        request_ids(suite);
        log_completion(suite);
    });
}

/// A recorder, its observability, and the folder of its log, if any.
struct Recording {
    recorder: Recorder,
    observability: Observability,
    _folder: Option<TempDir>,
}

impl State for Recording {}

impl Recording {
    fn start(options: &Options, folder: Option<TempDir>) -> Self {
        let routes = ["other", "/Product", "/Product/{id}"].map(str::to_owned);
        let observability = Observability::start(options, routes).expect("a log can be opened");
        Self { recorder: observability.recorder(), observability, _folder: folder }
    }

    fn off() -> Self {
        Self::start(&Options::default(), None)
    }

    fn timed() -> Self {
        Self::start(&Options { timings: true, ..Options::default() }, None)
    }

    fn logged() -> Self {
        let folder = temporary_directory();
        let access_log = Some(folder.path().join("access.log"));
        let options = Options { access_log, access_log_lines: LINES as usize, ..Options::default() };
        Self::start(&options, Some(folder))
    }

    /// Records a request from head to answer. Returns 1 if no line was dropped.
    fn request(&self, parts: &Parts) -> u64 {
        let mut context = self.recorder.begin(parts, || PEER);
        context.set_route(RouteNumber(2));
        self.recorder.finish(black_box(context), StatusCode::OK, 1000);
        u64::from(self.observability.dropped_lines() == 0)
    }
}

fn parts() -> Parts {
    let request = Request::get("/Product/8f7f1d36-5b0c-4f6b-9d0e-3f3d1d1f0c11?select=id").header("host", "localhost");
    request.header("accept", "application/json").body(()).expect("a request").into_parts().0
}

fn context(suite: &mut Suite) {
    let about = Facts::new("begins the context of a request and counts its answer").allocations_at_most(0);
    suite.row("context", "strata", "off", about, Recording::off, |recording: Arc<Recording>| {
        let parts = parts();
        move |_| recording.request(&parts)
    });
    let about = Facts::new("begins the context of a request, times it and counts its answer").allocations_at_most(1);
    suite.row("context", "strata", "timed", about, Recording::timed, |recording: Arc<Recording>| {
        let parts = parts();
        move |_| recording.request(&parts)
    });
}

/// The number of times that an operation marks all spans: once takes so few nanoseconds that the loop around it would dominate.
const AT_ONCE: u64 = 64;

fn spans(suite: &mut Suite) {
    const SPANS: [Span; 4] = [Span::Routing, Span::Body, Span::Pool, Span::Handler];
    let facts = |op: &str| {
        let about = Facts::new(format!("{AT_ONCE} times: {op}")).unit(Unit::Elements, 4 * AT_ONCE);
        about.allocations_at_most(0)
    };
    for (case, timed) in [("off", false), ("timed", true)] {
        let about = facts("marks the end of four spans of a request").against("spans/driver/off");
        let setup = if timed { Recording::timed } else { Recording::off };
        suite.row("spans", "strata", case, about, setup, |recording: Arc<Recording>| {
            let mut context = recording.recorder.begin(&parts(), || PEER);
            move |_| {
                let mark = |_| {
                    for span in SPANS {
                        black_box(&mut context).mark(span);
                    }
                    let marked = SPANS.map(|span| black_box(&context).span(span).is_some() == timed);
                    marked.into_iter().map(u64::from).sum::<u64>()
                };
                (0..AT_ONCE).map(mark).sum()
            }
        });
    }
    let about = facts("reads four unmarked spans of a request: the cost of the loop");
    suite.row("spans", "driver", "off", about, Recording::off, |recording: Arc<Recording>| {
        let context = recording.recorder.begin(&parts(), || PEER);
        let asked =
            move |_| SPANS.map(|span| u64::from(black_box(&context).span(span).is_none())).into_iter().sum::<u64>();
        move |_| (0..AT_ONCE).map(&asked).sum()
    });
}

fn request_ids(suite: &mut Suite) {
    const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    let traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (case, traceparent, op) in [
        ("made", None, "makes the ids of a request that begins a trace"),
        ("continued", Some(traced), "reads the trace in the headers of a request and makes its own id"),
    ] {
        let about = Facts::new(op).allocations_at_most(0);
        suite.row(
            "request_ids",
            "strata",
            case,
            about,
            || Data(Ids::new()),
            |ids: Arc<Data<Ids>>| {
                let mut headers = parts().headers;
                headers.extend(
                    traceparent
                        .map(|text| (http::HeaderName::from_static("traceparent"), HeaderValue::from_static(text))),
                );
                let mut last = None;
                move |_| {
                    let identity = black_box(ids.of(&headers));
                    let right = (identity.trace == TRACE) == traceparent.is_some()
                        && last.replace(identity.span) != Some(identity.span);
                    u64::from(right)
                }
            },
        );
    }
}

fn log_completion(suite: &mut Suite) {
    let about = Facts::new("completes a request without a log").allocations_at_most(0);
    suite.row("log_completion", "strata", "off", about, Recording::off, |recording: Arc<Recording>| {
        let parts = parts();
        move |_| recording.request(&parts)
    });
    let about = Facts::new("completes a request and passes its line to the log, which writes it to a file meanwhile");
    let about = about.changes_store(LINES / 2, LINES).state("a file that is appended to");
    suite.row("log_completion", "strata", "file", about, Recording::logged, |recording: Arc<Recording>| {
        let parts = parts();
        move |_| recording.request(&parts)
    });
}
