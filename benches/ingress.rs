//! A request in, an answer out: the one place where async meets the blocking layers, without a socket.
//!
//! Rows enter tokio, so each stands beside a driver: the same runtime, the same request, and nothing behind it.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use prepared::{Ours, SST, described, options, records};
use strata::ingress::{Ingress, Options};
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};

fn main() {
    suite("ingress", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        request(suite);
    });
}

fn request(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op: &str| Facts::new(op).data(described(n)).state(SST).unit(Unit::Records, 1);
    let about = facts("answers a request for one record; its body is read");
    suite.row(
        "request",
        "strata",
        "get_by_id",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let (runtime, paths) = (runtime(), paths(n));
            let pool = runtime.handle().clone();
            let handlers = strata::handlers::Options::default();
            let ingress = Arc::new(Ingress::new(ours.database.clone(), handlers, Options::default(), pool));
            move |index| {
                let request = get(&paths[scatter(index, n) as usize]);
                runtime.block_on(async {
                    let answer = ingress.answer(request, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
                    let ok = answer.status() == StatusCode::OK;
                    let body = answer.into_body().collect().await.expect("a body in memory").to_bytes();
                    u64::from(ok && black_box(body).len() > 900)
                })
            }
        },
    );
    let about = facts("makes the same request and answers it with nothing");
    suite.row(
        "request",
        "driver",
        "get_by_id",
        about,
        || (),
        |_: Arc<()>| {
            let (runtime, paths) = (runtime(), paths(n));
            move |index| {
                let request = get(&paths[scatter(index, n) as usize]);
                runtime.block_on(async {
                    let answer = nothing(request).await;
                    let ok = answer.status() == StatusCode::OK;
                    let body = answer.into_body().collect().await.expect("a body in memory").to_bytes();
                    u64::from(ok && black_box(body).is_empty())
                })
            }
        },
    );
}

async fn nothing(request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
    drop(black_box(request));
    Response::new(Full::new(Bytes::new()))
}

fn get(path: &Uri) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = path.clone();
    request
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn paths(n: u64) -> Vec<Uri> {
    (0..n).map(|index| format!("/Product/{}", data::id(index)).parse().expect("a path")).collect()
}
