//! The same three requests at every rung: what each layer adds to the raw path under it.
//!
//! GET of one record by id, CREATE of one record with two indexes, and LIST of 20 records by equality of an attribute that has a
//! hash index. Rungs: raw (RocksDB called directly), storage, indexes, transaction (of a list: query), handlers, routing, ingress, each in process and
//! by time; tcp by the CPU time of the server's threads, because the client shares the process. The floor of tcp is bare hyper with
//! the raw path in its handler; GET also has axum's router on that server, with the same raw path behind it.
//!
//! A rung is the request from its layer down. Encoding is none: it calls no layer, so its rows are what that layer alone costs the
//! request, and stand beside the rungs. Locking has no row, because none of the three takes a lock: an id that the server makes is
//! known to nobody else. GET asks no index.

mod floor;
mod prepared;
mod served;
mod verbs;

#[path = "ladder/create.rs"]
mod create;
#[path = "ladder/get.rs"]
mod get;
#[path = "ladder/list.rs"]
mod list;

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use prepared::{Ours, SST, described, options};
use strata::ingress::Ingress;
use strata::schema::Table;
use strata::{handlers, ingress};
use strata_harness::data::{self, Id};
use strata_harness::{Facts, Unit, suite};

fn main() {
    suite("ladder", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        get::in_process(suite);
        get::encoding(suite);
        get::tcp(suite);
        create::in_process(suite);
        create::encoding(suite);
        for (operation, indexes) in [("create", 2), ("create_0_indexes", 0)] {
            create::tcp(suite, operation, indexes);
        }
        list::in_process(suite);
        list::encoding(suite);
        list::tcp(suite);
    });
}

/// Whether a handler answered with a record.
fn whole(answer: handlers::Result<handlers::Answer>) -> bool {
    answer.is_ok_and(|answer| answer.status().is_success() && black_box(answer.body()).len() > 900)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn ingress(ours: &Ours, runtime: &tokio::runtime::Runtime) -> Arc<Ingress> {
    let pool = runtime.handle().clone();
    let (handlers, ingress) = (handlers::Options::default(), ingress::Options::default());
    Arc::new(Ingress::new(ours.database.clone(), handlers, ingress, pool))
}

/// The status of an answer, and how many bytes its body has, which has been read.
async fn answered(ingress: &Arc<Ingress>, request: Request<Full<Bytes>>) -> (StatusCode, usize) {
    let answer = ingress.answer(request, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body in memory").to_bytes();
    (status, black_box(body).len())
}

/// Facts of a row over TCP.
fn over_tcp(op: &str, n: u64, indexes: u32) -> Facts {
    Facts::new(op).data(described(n)).state(SST).indexes(indexes).unit(Unit::Records, 1).cpu_clock()
}

/// The stored bytes of records of the data set.
fn stored(table: &Table, indexes: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let stored = indexes.map(|index| {
        let mut bytes = Vec::new();
        prepared::encode(table, &data::product(index, Id::Given), &mut bytes);
        bytes
    });
    stored.collect()
}
