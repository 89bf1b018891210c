//! Results on disk: `ID.json`, and beside it the histograms as `ID.hlog`, in the log format of HdrHistogram, where a tag is `operation.kind`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::ledger::Account;
use crate::result::{Run, Statistics};

const KINDS: [&str; 3] = ["response", "service", "send_lag"];

/// Writes a run into a folder. What is there is not written over.
pub fn store(run: &Run, folder: &Path, accounts: &[Account]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let create = |extension| fs::File::create_new(folder.join(format!("{}.{extension}", run.id)));
    let mut json = create("json")?;
    serde_json::to_writer_pretty(&mut json, run)?;
    writeln!(json)?;
    write_log(&mut create("hlog")?, run, accounts)
}

fn write_log(file: &mut fs::File, run: &Run, accounts: &[Account]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let failed = |error: &dyn Debug| io::Error::other(format!("{error:?}"));
    let mut builder = IntervalLogWriterBuilder::new();
    let mut log = builder
        .add_comment("nanoseconds; a tag is operation.kind; ok answers, send_lag of all that were sent")
        .with_start_time(SystemTime::UNIX_EPOCH + Duration::from_secs(run.began_unix_seconds))
        .with_max_value_divisor(1e6)
        .begin_log_with(file, &mut serializer)
        .map_err(|error| failed(&error))?;
    let length = Duration::from_secs_f64(run.window.seconds);
    for (cell, account) in run.cells.iter().zip(accounts) {
        for (kind, times) in KINDS.into_iter().zip([&account.response, &account.service, &account.send_lag]) {
            let tag = tag(&cell.operation, kind);
            log.write_histogram(times, Duration::ZERO, length, Tag::new(&tag)).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// How the statistics of a run are not those of the histograms in a log.
pub fn differences(run: &Run, log: &[u8]) -> Result<Vec<String>, String> {
    let histograms = read(log)?;
    let mut found = Vec::new();
    for cell in &run.cells {
        for (kind, stated) in KINDS.into_iter().zip([&cell.response, &cell.service, &cell.send_lag]) {
            let Some(stated) = stated else { continue };
            let tag = tag(&cell.operation, kind);
            let same =
                |times: &Histogram<u64>| Statistics::of(times, stated.beyond, stated.overflow).as_ref() == Some(stated);
            if !histograms.get(&tag).is_some_and(same) {
                found.push(format!("{tag}: its statistics are not those of its histogram"));
            }
        }
    }
    Ok(found)
}

fn tag(operation: &str, kind: &str) -> String {
    format!("{}.{kind}", operation.replace([' ', ','], "_"))
}

fn read(log: &[u8]) -> Result<BTreeMap<String, Histogram<u64>>, String> {
    let mut deserializer = Deserializer::new();
    let mut found = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        let entry = entry.map_err(|error| format!("no log of histograms: {error:?}"))?;
        if let LogEntry::Interval(interval) = entry {
            let tag = interval.tag().map_or(String::new(), |tag| tag.as_str().to_owned());
            let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|error| format!("{tag}: {error}"))?;
            let times = deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| format!("{tag}: {error:?}"))?;
            found.insert(tag, times);
        }
    }
    Ok(found)
}
