//! `/_stats`: what streams have, and what requests do with them lately.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use http::Response;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Local, Shared, refused};
use crate::error::Result;
use crate::handlers::{Failure, streams::listed};
use crate::schema::Stream;
use crate::streams::{Activity, PartitionStatistics, RequestKind, Streams};
use crate::transaction::Database;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statistics {
    uptime_seconds: f64,
    streams: Vec<OfStream>,
}

#[derive(Serialize)]
struct OfStream {
    name: String,
    partitions: Vec<OfPartition>,
    groups: Box<RawValue>,
    appends: Activity,
    bulks: Activity,
    reads: Activity,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfPartition {
    partition: u32,
    low_watermark: u64,
    high_watermark: u64,
    bytes: u64,
}

/// Returns the statistics, which are not public: they disclose the load.
pub(super) async fn statistics(
    State(shared): State<Arc<Shared>>,
    Extension(Local(is_local)): Extension<Local>,
) -> Response<Body> {
    if !is_local {
        return refused(Failure::LocalOnly);
    }
    let scheduler = Arc::clone(&shared.scheduler);
    let uptime = shared.began.elapsed();
    let made =
        shared.scheduler.blocking(move || made(scheduler.routes().streams(), scheduler.database(), uptime)).await;
    made.map_or_else(refused, |statistics| Json(statistics).into_response())
}

fn made(streams: &Streams, database: &Database, uptime: Duration) -> Result<Statistics> {
    let of_stream = |stream: &Stream| {
        let partition = |of: PartitionStatistics| OfPartition {
            partition: of.partition,
            low_watermark: of.low_watermark,
            high_watermark: of.high_watermark,
            bytes: of.bytes,
        };
        let groups = String::from_utf8(listed(streams, database, stream)?).expect("JSON is UTF-8");
        Ok(OfStream {
            name: stream.name.clone(),
            partitions: streams.partitions(stream)?.into_iter().map(partition).collect(),
            groups: RawValue::from_string(groups).expect("groups are shown as JSON"),
            appends: streams.activity(stream, RequestKind::Append)?,
            bulks: streams.activity(stream, RequestKind::Bulk)?,
            reads: streams.activity(stream, RequestKind::Read)?,
        })
    };
    let exported = database.schema().streams.iter().filter(|stream| stream.exported);
    let streams = exported.map(of_stream).collect::<Result<_>>()?;
    Ok(Statistics { uptime_seconds: uptime.as_secs_f64(), streams })
}
