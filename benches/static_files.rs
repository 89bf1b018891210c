//! Files of a folder as answers, from memory: an answer is a look-up of the path, headers, and a reference to the bytes.
//!
//! `servedir` is tower-http's `ServeDir` over the same files, which opens and reads the file on each request, on another thread. It keeps
//! nothing in memory, so its files are on a memory file system if there is one (`/dev/shm`), and no disk is involved. It is async, so both
//! it and Strata enter tokio in these rows, and `driver` does only that. All other rows call the layer directly. `tcp` compares a whole
//! Strata server with a bare hyper that holds the same body in memory and ignores paths, by the CPU time of the server's threads.

mod floor;
mod prepared;
mod served;

#[path = "static_files/site.rs"]
mod site;

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use strata::handlers;
use strata::static_files::{Response, media_type};
use strata_harness::data::scatter;
use strata_harness::{Facts, Suite, suite};
use tower_http::services::ServeDir;

use crate::floor::Raw;
use crate::served::{Bare, Client};
use crate::site::{EXTENSIONS, FILE_BYTES, Files, Served};

fn main() {
    suite("static_files", |suite| {
        for files in [100, 1000] {
            get(suite, files);
        }
        beside(suite);
        mime(suite);
        paths(suite);
        decisions(suite);
        tcp(suite);
    });
}

fn facts(op: &str, files: u64) -> Facts {
    Facts::new(op).data(format!("{files} files of {FILE_BYTES} bytes")).state("in memory")
}

/// A request as a server gets it.
fn request(path: &Uri) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = path.clone();
    request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("localhost"));
    request
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn get(suite: &mut Suite, files: u64) {
    let about = facts("answers GET of one file; its body is read", files).bytes_per_operation(FILE_BYTES);
    let case = format!("{files}_files");
    let about = match files {
        100 => about.against("get/servedir/100_files").against("get/driver/100_files"),
        _ => about,
    };
    suite.row(
        "get",
        "strata",
        &case,
        about,
        || Files::with(files),
        |folder: Arc<Files>| {
            let (runtime, paths) = (runtime(), folder.uris());
            move |index| {
                let (request, _) = request(&paths[scatter(index, files) as usize]).into_parts();
                runtime.block_on(async {
                    let response = folder.site.respond(&request.method, &request.uri, &request.headers);
                    let bytes = Full::new(site::bytes(response)).collect().await.expect("a body in memory").to_bytes();
                    u64::from(black_box(bytes).len() as u64 == FILE_BYTES)
                })
            }
        },
    );
}

/// The same request, answered by `ServeDir` and by a driver.
fn beside(suite: &mut Suite) {
    let files = 100;
    let op = "answers GET of one file with tower-http's ServeDir, which opens and reads it on each request; its body is read";
    let about = facts(op, files).bytes_per_operation(FILE_BYTES).state(site::where_in_memory());
    suite.row(
        "get",
        "servedir",
        "100_files",
        about,
        || Files::in_memory(files),
        |folder: Arc<Files>| {
            let (runtime, paths) = (runtime(), folder.uris());
            let service = TowerToHyperService::new(ServeDir::new(folder.path()));
            move |index| {
                let request = request(&paths[scatter(index, files) as usize]);
                runtime.block_on(async {
                    let response = service.call(request).await.expect("it has no errors");
                    assert_eq!(response.status(), StatusCode::OK);
                    let bytes = response.into_body().collect().await.expect("a file").to_bytes();
                    u64::from(black_box(bytes).len() as u64 == FILE_BYTES)
                })
            }
        },
    );
    let about = facts("builds the same request and answers it with the same bytes, without reading it", files);
    suite.row(
        "get",
        "driver",
        "100_files",
        about.bytes_per_operation(FILE_BYTES),
        || Files::with(files),
        |folder: Arc<Files>| {
            let (runtime, paths, body) = (runtime(), folder.uris(), Bytes::from(site::content(0)));
            move |index| {
                let request = request(&paths[scatter(index, files) as usize]);
                runtime.block_on(async {
                    drop(black_box(request));
                    let response = Response::new(Full::new(body.clone()));
                    let bytes = response.into_body().collect().await.expect("a body in memory").to_bytes();
                    u64::from(black_box(bytes).len() as u64 == FILE_BYTES)
                })
            }
        },
    );
}

fn mime(suite: &mut Suite) {
    let about = Facts::new("finds the media type of a name by its extension").data("names with 10 extensions");
    suite.row(
        "mime",
        "strata",
        "10_extensions",
        about.allocations_at_most(0),
        || (),
        |_: Arc<()>| {
            let names: Vec<String> = (0..1000).map(|number| format!("assets/{}", site::name(number))).collect();
            move |index| {
                let (number, extension) = (scatter(index, 1000), EXTENSIONS.len() as u64);
                let found = media_type(&names[number as usize]);
                u64::from(black_box(found) == EXTENSIONS[(number % extension) as usize].1)
            }
        },
    );
}

/// The requests of a row of the layer alone, and the expected response.
struct Asked {
    operation: &'static str,
    op: &'static str,
    paths: Vec<Uri>,
    headers: HeaderMap,
    /// True if the client has the file, and sends its tag.
    is_known: bool,
    is_right: fn(Option<handlers::Result<Response>>) -> bool,
    allocations: u64,
}

impl Asked {
    /// A row over a folder with this many files.
    fn row(self, suite: &mut Suite, files: u64, setup: impl FnMut() -> Files) {
        let about = facts(self.op, files).allocations_at_most(self.allocations);
        suite.row(self.operation, "strata", &format!("{files}_files"), about, setup, |folder: Arc<Files>| {
            let (paths, is_right) = (self.paths.clone(), self.is_right);
            let paths = if paths.is_empty() { folder.uris() } else { paths };
            let headers = |path| match self.is_known {
                false => self.headers.clone(),
                true => {
                    HeaderMap::from_iter([(IF_NONE_MATCH, tag(folder.site.respond(&Method::GET, path, &self.headers)))])
                }
            };
            let requests: Vec<_> = paths.iter().map(|path| (path.clone(), headers(path))).collect();
            // The first response to each builds what the later ones share.
            for (path, headers) in &requests {
                assert!(is_right(folder.site.respond(&Method::GET, path, headers)), "{path}");
            }
            move |index| {
                let (path, headers) = &requests[scatter(index, requests.len() as u64) as usize];
                u64::from(is_right(black_box(folder.site.respond(&Method::GET, path, headers))))
            }
        });
    }
}

/// The tag of a file.
fn tag(response: Option<handlers::Result<Response>>) -> HeaderValue {
    let response = response.and_then(Result::ok).expect("a file");
    response.headers().get(ETAG).expect("a file has one").clone()
}

fn is_found(response: Option<handlers::Result<Response>>) -> bool {
    let response = response.and_then(Result::ok);
    response.is_some_and(|response| response.status() == StatusCode::OK && response.body().length_bytes() == FILE_BYTES)
}

fn paths(suite: &mut Suite) {
    let row = Asked {
        operation: "path_matching",
        op: "answers GET of a file four folders deep whose path is percent-encoded",
        paths: Vec::new(),
        headers: HeaderMap::new(),
        is_known: false,
        is_right: is_found,
        allocations: 3,
    };
    row.row(suite, 1000, || Files::deep(1000));
    let row = Asked {
        operation: "similar_names",
        op: "answers GET of one of ten files whose names differ only in their extensions",
        paths: Vec::new(),
        headers: HeaderMap::new(),
        is_known: false,
        is_right: is_found,
        allocations: 2,
    };
    row.row(suite, 10, Files::of_one_name);
}

/// Paths of pages that are not files.
fn pages() -> Vec<Uri> {
    (0..1000).map(|number| site::uri(&format!("/page/{number}"))).collect()
}

fn decisions(suite: &mut Suite) {
    let html = HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8");
    let row = Asked {
        operation: "index_fallback",
        op: "answers GET of a page that is not a file with the index",
        paths: pages(),
        headers: HeaderMap::from_iter([(ACCEPT, html.clone())]),
        is_known: false,
        is_right: is_found,
        allocations: 2,
    };
    row.row(suite, 1000, || Files::with(1000));
    let row = Asked {
        operation: "not_found",
        op: "finds that a path has no file",
        paths: pages(),
        headers: HeaderMap::new(),
        is_known: false,
        is_right: |response| response.is_none(),
        allocations: 0,
    };
    row.row(suite, 1000, || Files::with(1000));
    let row = Asked {
        operation: "not_modified",
        op: "answers GET of a file whose tag the client sends",
        paths: Vec::new(),
        headers: HeaderMap::new(),
        is_known: true,
        is_right: |response| {
            let response = response.and_then(Result::ok);
            response.is_some_and(|response| response.status() == StatusCode::NOT_MODIFIED)
        },
        allocations: 2,
    };
    row.row(suite, 1000, || Files::with(1000));
    let op = "answers GET of a file in 7 of 10 operations, of a page with the index in 2, finds nothing in 1";
    let about = facts(op, 1000);
    suite.row(
        "mixed",
        "strata",
        "1000_files",
        about,
        || Files::with(1000),
        |folder: Arc<Files>| {
            let (files, pages, none) = (folder.uris(), pages(), HeaderMap::new());
            let html = HeaderMap::from_iter([(ACCEPT, html.clone())]);
            move |index| {
                let place = scatter(index, 1000) as usize;
                let (path, headers, found) = match index % 10 {
                    0..7 => (&files[place], &none, true),
                    7 | 8 => (&pages[place], &html, true),
                    _ => (&pages[place], &none, false),
                };
                u64::from(is_found(black_box(folder.site.respond(&Method::GET, path, headers))) == found)
            }
        },
    );
}

fn tcp(suite: &mut Suite) {
    let client = |address| {
        let mut client = Client::connect(address);
        move |_| {
            let (status, bytes) = client.exchange(b"GET /assets/file-0.html HTTP/1.1\r\nhost: localhost\r\n\r\n");
            u64::from(status == 200 && bytes as u64 == FILE_BYTES)
        }
    };
    let about = facts("answers GET of one file over HTTP/1.1, server CPU", 100).cpu_clock().floor("floor", 0.95, None);
    suite.row("tcp", "strata", "1_kb", about, || Served::start(100), |served: Arc<Served>| client(served.address()));
    let about = facts("answers each request with the same bytes from a bare hyper server, server CPU", 1).cpu_clock();
    let setup = || {
        let content = Bytes::from(site::content(0));
        Bare::start(Raw::copy(0, 1), move |_| {
            let body = content.clone();
            move |_: &http::request::Parts, _: &[u8]| {
                let mut response = Response::new(Full::new(body.clone()));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
                response
            }
        })
    };
    suite.row("tcp", "floor", "1_kb", about, setup, |bare: Arc<Bare>| client(bare.address));
}
