//! The facts on disk: one JSON file a process, in the folder that `STRATA_FACTS_DIR` names.
//!
//! Written beside and renamed, again after each row, so that a reader never sees half a file and a killed process leaves what it
//! knew. Rows stand in the order of the source.
//!
//! History of the format:
//! 1. `schema`, `layer`, `engine`, `process`, `rows` by full id: the facts; for a row that ran also `allocations_per_operation`,
//!    `timed_operations` and `counters`.
//! 2. also `workload` and `background`; for a row that ran, `latencies` by the kind of operation and `measures` by name, both empty but
//!    for workloads.

use std::path::PathBuf;
use std::{fs, io, process, thread};

use serde::ser::Serializer;
use serde_json::Value;

use crate::facts::Facts;
use crate::folders;
use crate::row::Seen;
use crate::scale::Scale;

const SCHEMA: u32 = 2;

/// Everything one process says about its rows and itself.
#[derive(serde::Serialize)]
pub(crate) struct Record {
    schema: u32,
    layer: &'static str,
    engine: Value,
    process: Process,
    #[serde(serialize_with = "as_map")]
    rows: Vec<(String, Entry)>,
    #[serde(skip)]
    path: Option<PathBuf>,
}

/// The process, and its view of the machine.
#[derive(serde::Serialize)]
struct Process {
    pid: u32,
    /// Cores this process may use.
    cores: Option<usize>,
    /// Type of the file system on which stores lie; `None` = there is no place for stores.
    file_system: Option<String>,
    scale: Scale,
    mode: &'static str,
}

#[derive(serde::Serialize)]
struct Entry {
    #[serde(flatten)]
    facts: Facts,
    #[serde(flatten)]
    seen: Option<Seen>,
}

fn as_map<S: Serializer>(rows: &[(String, Entry)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rows.iter().map(|(id, entry)| (id, entry)))
}

impl Record {
    pub(crate) fn new(layer: &'static str, scale: Scale, mode: &'static str) -> Self {
        let pid = process::id();
        let cores = thread::available_parallelism().ok().map(usize::from);
        let file_system = folders::root().ok().and_then(folders::file_system);
        let path = std::env::var_os("STRATA_FACTS_DIR").map(|folder| PathBuf::from(folder).join(format!("{pid}.json")));
        let process = Process { pid, cores, file_system, scale, mode };
        Self { schema: SCHEMA, layer, engine: Value::Null, process, rows: Vec::new(), path }
    }

    /// One process runs with one set of engine options.
    pub(crate) fn engine(&mut self, options: Value) {
        assert!(self.engine.is_null() || self.engine == options, "this process already runs with other engine options");
        self.engine = options;
    }

    /// Notes a row, whether or not it will run.
    pub(crate) fn declare(&mut self, id: &str, facts: &Facts) {
        assert!(self.rows.iter().all(|(known, _)| known != id), "two rows have the id {id}");
        self.rows.push((id.to_owned(), Entry { facts: facts.clone(), seen: None }));
    }

    /// Notes what was seen while the last declared row ran.
    pub(crate) fn ran(&mut self, seen: Seen) {
        let (_, entry) = self.rows.last_mut().expect("a row is declared before it runs");
        entry.seen = Some(seen);
        self.write();
    }

    /// Writes the file, if somebody wants it.
    pub(crate) fn write(&self) {
        if let Some(path) = &self.path {
            self.replace(path)
                .unwrap_or_else(|error| panic!("the facts cannot be written to {}: {error}", path.display()));
        }
    }

    fn replace(&self, path: &PathBuf) -> io::Result<()> {
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_source() {
        let mut record = Record::new("test", Scale::Smoke, "paired");
        record.declare("test/z/strata/1", &Facts::new("waits").threads(8).durability("soft"));
        record.declare("test/a/strata/1", &Facts::new("waits"));
        record.ran(Seen::default());
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.find("test/z/strata/1") < text.find("test/a/strata/1"));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["rows"]["test/z/strata/1"]["threads"], 8);
        assert!(read["rows"]["test/z/strata/1"].get("counters").is_none(), "did not run");
        assert!(read["rows"]["test/a/strata/1"]["counters"].is_object());
    }

    #[test]
    #[should_panic(expected = "two rows have the id")]
    fn an_id_is_used_once() {
        let mut record = Record::new("test", Scale::Smoke, "paired");
        record.declare("test/a/strata/1", &Facts::new("waits"));
        record.declare("test/a/strata/1", &Facts::new("waits"));
    }
}
