//! Results on disk: `ID.json`, and beside it the histograms as `ID.hlog`, in the log format of HdrHistogram, where a tag is `operation.kind`.
//!
//! The name of an operation is written there as in a URL, so that each has its own tag in one line: `get one` is `get%20one`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use tempfile::Builder;

use crate::clocks::Held;
use crate::ledger::Account;
use crate::result::{Run, Statistics};

const KINDS: [&str; 3] = ["response", "service", "send_lag"];

/// More than a result has.
const MOST_BYTES: usize = 1 << 20;

/// Makes a folder for results if there is none, and writes to it as much as a result has, of which nothing is left: what keeps a result
/// from being stored is known before the run.
pub fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![0; MOST_BYTES])?;
    file.sync_data()
}

/// The end of the name of a file with samples: `ID.held.jsonl`.
const SAMPLES: &str = ".held.jsonl";

/// Adds what the server holds while a run is under way to the samples of the run, a line each. The file is removed when the result, which
/// has them too, is stored; what is left of a run that was cut off has slopes nevertheless (`load slopes`).
pub fn keep_sample(folder: &Path, id: &str, held: &Held) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(folder.join(format!("{id}{SAMPLES}")))?;
    writeln!(file, "{}", serde_json::to_string(held)?)
}

/// Reads such a file; a last line that was cut off is left out.
pub fn read_samples(file: &Path) -> io::Result<Vec<Held>> {
    let text = fs::read_to_string(file)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

/// Writes a run into a folder. What is there is not written over, and what cannot be written to its end is not there.
pub fn store(run: &Run, folder: &Path, accounts: &[Account]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let create = || Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder);
    let (mut json, mut log) = (create()?, create()?);
    let text = serde_json::to_string_pretty(run)? + "\n";
    json.write_all(text.as_bytes())?;
    write_log(log.as_file_mut(), run, accounts)?;
    log.persist_noclobber(folder.join(format!("{}.hlog", run.id)))?;
    json.persist_noclobber(folder.join(format!("{}.json", run.id)))?;
    let _ = fs::remove_file(folder.join(format!("{}{SAMPLES}", run.id)));
    Ok(())
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
            let tag = tag(run.format, &cell.operation, kind);
            log.write_histogram(times, Duration::ZERO, length, Tag::new(&tag)).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// Returns the differences between the statistics of a run and those of the histograms in a log.
pub fn differences(run: &Run, log: &[u8]) -> Result<Vec<String>, String> {
    let histograms = read(log)?;
    let mut found = Vec::new();
    for cell in &run.cells {
        for (kind, stated) in KINDS.into_iter().zip([&cell.response, &cell.service, &cell.send_lag]) {
            let Some(stated) = stated else { continue };
            let tag = tag(run.format, &cell.operation, kind);
            let found_in = |times| Statistics::of(times, stated.beyond, stated.overflow);
            let mut counted = histograms.get(&tag).and_then(found_in);
            if stated.curve.is_empty() {
                counted.iter_mut().for_each(|counted| counted.curve.clear());
            }
            if counted.as_ref() != Some(stated) {
                found.push(format!("{tag}: its statistics are not those of its histogram"));
            }
        }
    }
    Ok(found)
}

fn tag(format: u32, operation: &str, kind: &str) -> String {
    // Format 1 had one tag for `get one` and `get_one`.
    if format == 1 {
        return format!("{}.{kind}", operation.replace([' ', ','], "_"));
    }
    let letter = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    format!("{}.{kind}", operation.bytes().map(letter).collect::<String>())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_run_that_was_cut_off_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let held = |seconds| Held { seconds, resident_bytes: 1000, descriptors: 10, threads: 3 };
        for seconds in [1.0, 2.0] {
            keep_sample(folder.path(), "run-1", &held(seconds)).unwrap();
        }
        let file = folder.path().join("run-1.held.jsonl");
        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"seconds\":3").unwrap();
        assert_eq!(read_samples(&file).unwrap(), [1.0, 2.0].map(held));
        fs::write(&file, "").unwrap();
        assert!(read_samples(&file).unwrap().is_empty());
    }
}
