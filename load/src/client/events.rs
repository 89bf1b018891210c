//! The events of a stream: appended before a run, counted by its watermarks, and read back after it.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde::Deserialize;
use tokio::task::LocalSet;

use crate::connection::Connection;
use crate::event::Event;
use crate::streams::promises::ReadBack;

use super::{Client, TIMEOUT, accepted, quoted};

/// Partitions that a stream has at most.
const MOST_PARTITIONS: usize = 1024;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Place {
    partition: u64,
    offset: u64,
}

/// The answer to an append of several events.
#[derive(Deserialize)]
struct Appended {
    offsets: Vec<Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watermarks {
    high_watermark: u64,
}

/// The answer to a read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<'a> {
    #[serde(borrow)]
    records: Vec<Event<'a>>,
    next: u64,
    high_watermark: u64,
}

/// Events of a read at most.
const EVENTS_A_READ: u64 = 10_000;

/// Connections that ask for records at a time.
const READERS: usize = 8;

impl Client {
    /// All events of a stream, of each partition from an offset on.
    ///
    /// # Errors
    /// The server does not read them.
    pub fn read_back(&self, stream: &str, from: &[u64]) -> Result<ReadBack, String> {
        let mut read = ReadBack::new(from);
        for (partition, from) in from.iter().enumerate() {
            let (mut from, mut high) = (*from, u64::MAX);
            while from < high {
                let path = format!("/{stream}?partition={partition}&from={from}&limit={EVENTS_A_READ}");
                let answer = self.get(&path)?;
                let told = || quoted(answer.status.as_u16(), &answer.body);
                if answer.status != 200 {
                    return Err(format!("{path}: the events are not read back: {}", told()));
                }
                let Read { records, next, high_watermark } = serde_json::from_slice(&answer.body)
                    .map_err(|error| format!("{path}: the events are not read back: {error}: {}", told()))?;
                for event in &records {
                    match (event.partition, event.offset) {
                        (Some(of), Some(offset)) if of == partition => read.add(partition, offset, event.content()),
                        place => return Err(format!("{path}: an event at {place:?} was read")),
                    }
                }
                // One that does not go on has no more to say; what is missing was acknowledged.
                high = if next > from { high_watermark } else { from };
                from = next;
            }
        }
        Ok(read)
    }

    /// Returns true for each of these paths at which there is a record.
    ///
    /// # Errors
    /// The server does not say of one.
    pub fn are_there(&self, paths: &[String]) -> Result<Vec<bool>, String> {
        let local = LocalSet::new();
        let reader = |some: &[String]| {
            let (connection, some) = (Connection::slots(&self.target, 1).remove(0), some.to_vec());
            local.spawn_local(async move { each_is_there(&connection, &some).await })
        };
        let readers: Vec<_> = paths.chunks(paths.len().div_ceil(READERS).max(1)).map(reader).collect();
        local.block_on(&self.runtime, async {
            let mut all = Vec::with_capacity(paths.len());
            for reader in readers {
                all.extend(reader.await.expect("no reader panics")?);
            }
            Ok(all)
        })
    }

    /// The high watermark of each partition of a stream: how many events it has had.
    ///
    /// # Errors
    /// The stream is not there, or the server does not tell.
    pub fn high_watermarks(&self, stream: &str) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        while found.len() < MOST_PARTITIONS {
            let answer = self.get(&format!("/{stream}?partition={}&limit=0", found.len()))?;
            match serde_json::from_slice::<Watermarks>(&answer.body) {
                Ok(told) if answer.status == 200 => found.push(told.high_watermark),
                // The partition behind the last one.
                _ if answer.status == 400 && !found.is_empty() => break,
                _ => {
                    let told = quoted(answer.status.as_u16(), &answer.body);
                    return Err(format!("the server does not tell the watermarks of {stream}: {told}"));
                }
            }
        }
        Ok(found)
    }

    /// Appends events numbered from `first` on, of which number n has to stand in partition n % `partitions`, at offset n / `partitions`.
    pub(super) fn append(&self, stream: &str, partitions: u64, first: u64, events: &[String]) -> Result<(), String> {
        let body = format!("{{\"records\":[{}]}}", events.join(","));
        let answer = self.ask("POST", &format!("/{stream}/bulk"), body)?;
        accepted(&answer, 202)?;
        let told =
            serde_json::from_slice::<Appended>(&answer.body).map_err(|error| format!("{stream}/bulk: {error}"))?;
        let expected = (first..first + events.len() as u64)
            .map(|number| Place { partition: number % partitions, offset: number / partitions });
        let wrong = told.offsets.iter().zip(expected).find(|(found, expected)| *found != expected);
        match (wrong, told.offsets.len() == events.len()) {
            (None, true) => Ok(()),
            (None, false) => Err(format!("{stream}/bulk: {} offsets for {} events", told.offsets.len(), events.len())),
            (Some((found, expected)), _) => Err(format!(
                "{stream}: event n has to stand in partition n % {partitions} at offset n / {partitions}, so one at {expected:?}; it is at \
                 {found:?}: data.row"
            )),
        }
    }
}

async fn each_is_there(connection: &Connection, paths: &[String]) -> Result<Vec<bool>, String> {
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
        let answer = tokio::time::timeout(TIMEOUT, connection.exchange(request)).await;
        match answer
            .map_err(|_| "no response".to_owned())
            .and_then(|answer| answer.map_err(|failure| failure.to_string()))
        {
            Ok(answer) if answer.status == 200 => found.push(true),
            Ok(answer) if answer.status == 404 => found.push(false),
            Ok(answer) => return Err(format!("{path}: {}", quoted(answer.status.as_u16(), &answer.body))),
            Err(reason) => return Err(format!("{path}: {reason}")),
        }
    }
    Ok(found)
}
