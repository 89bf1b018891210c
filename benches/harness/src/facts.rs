//! The facts about a row: the words and numbers without which its figure means nothing.
//!
//! The runner takes everything from here (what an operation is, its unit, its threads, its floor) and knows no bench by name.

use serde::Serialize;

/// Samples of a workload, all of one state: the fewest that Criterion takes.
pub(crate) const WORKLOAD_SAMPLES: usize = 10;

/// The unit in which the work of an operation is counted. Figures of different units never share a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Whole operations.
    Operations,
    /// Records read or written.
    Records,
    /// Bytes, counted and not computed.
    Bytes,
    /// Elements of a collection: keys, routes, tokens.
    Elements,
}

/// The clock from which the time of a row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Time on the wall, from the first thread's start to the last thread's end.
    Wall,
    /// The sum of the CPU clocks of the server's threads, see [`State::cpu`](crate::State::cpu).
    Cpu,
}

/// The row that this one is compared with, and how close it must come. Ratio = the floor's time / this row's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Full id of the row it is compared with.
    pub id: String,
    /// The least ratio that is acceptable; `None` = no goal: it is a peer, and either may win.
    pub at_least: Option<f64>,
    /// The ratio that is aimed at.
    pub aim: Option<f64>,
}

/// Where a row stands on an axis along which rows of one operation differ and nothing else does. The law of growth is fitted to them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The quantity that grows: "threads", "records", "indexes", "sharing".
    pub axis: &'static str,
    /// The number of them.
    pub x: f64,
}

/// The smallest run of the runner in which a row takes turns with those it is compared with. In a smaller one it runs alone, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// `--quick`: what most people ask first.
    Quick,
    /// The run that the performance page reports.
    Default,
    /// `--full`, and where the row is named.
    Full,
}

/// The facts of one row. Built with [`Facts::new`] and the methods named like the fields.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// One sentence: what one operation is.
    pub op: String,
    /// The unit of what an operation yields.
    pub unit: Unit,
    /// The number of units that one operation yields; asserted.
    pub units_per_operation: u64,
    /// Threads that run the operation at once.
    pub threads: usize,
    /// The clock from which the time is read.
    pub clock: Clock,
    /// True if the operation changes what is measured, so that the work on one state must be fixed.
    pub changes_store: bool,
    /// The greatest number of operations that one prepared state can serve; `None` = no limit.
    pub capacity: Option<u64>,
    /// Operations of one unpaired sample, for rows that change their store and for workloads.
    pub turn_operations: u64,
    /// True if the row is fixed work of seconds on one state, with figures beside its time.
    pub workload: bool,
    /// True if a part of the row goes on beside its operations, so that it cannot take turns with a partner.
    pub background: bool,
    /// When a write counts as done ("none", "soft", "strong"), for rows that write.
    pub durability: Option<&'static str>,
    /// The data set, with its size.
    pub data_set: String,
    /// Where the data are: "memtable", "SST, cached", "SST, larger than the cache".
    pub state: String,
    /// Secondary indexes of the table.
    pub indexes: Option<u32>,
    /// Bytes of payload that one operation moves.
    pub bytes_per_operation: Option<u64>,
    /// The floor that the row is compared with.
    pub floor: Option<Floor>,
    /// Full ids of other rows that this one is compared with.
    pub against: Vec<String>,
    /// The smallest run in which the row takes turns with those it is compared with.
    pub depth: Depth,
    /// Where the row stands on an axis of growth.
    pub scale: Option<Place>,
    /// The most allocations per operation that are accepted; asserted.
    pub allocations_at_most: Option<u64>,
}

impl Facts {
    /// Facts of a row with one thread, that changes nothing and whose operation is one unit. `op` is one sentence: what one
    /// operation is.
    pub fn new(op: impl Into<String>) -> Self {
        Self {
            op: op.into(),
            unit: Unit::Operations,
            units_per_operation: 1,
            threads: 1,
            clock: Clock::Wall,
            changes_store: false,
            capacity: None,
            turn_operations: 0,
            workload: false,
            background: false,
            durability: None,
            data_set: String::new(),
            state: String::new(),
            indexes: None,
            bytes_per_operation: None,
            floor: None,
            against: Vec::new(),
            depth: Depth::Full,
            scale: None,
            allocations_at_most: None,
        }
    }

    /// One operation yields `per_operation` units.
    #[must_use]
    pub fn unit(mut self, unit: Unit, per_operation: u64) -> Self {
        (self.unit, self.units_per_operation) = (unit, per_operation);
        self
    }

    /// This many threads run the operation at once.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The time is the CPU time of the server's threads.
    #[must_use]
    pub fn cpu_clock(mut self) -> Self {
        self.clock = Clock::Cpu;
        self
    }

    /// The operation changes its store: one state serves at most `capacity` operations (`None` = no limit), and an unpaired sample
    /// is `turn_operations` operations on a fresh one.
    #[must_use]
    pub fn changes_store(mut self, turn_operations: u64, capacity: impl Into<Option<u64>>) -> Self {
        (self.changes_store, self.turn_operations, self.capacity) = (true, turn_operations, capacity.into());
        self
    }

    /// A workload: `turn_operations` on one state warm it up, ten times as many on the same state are timed, and what the state has
    /// [`found`](crate::State::found) meanwhile stands beside the time.
    #[must_use]
    pub fn workload(mut self, turn_operations: u64) -> Self {
        (self.workload, self.turn_operations) = (true, turn_operations);
        self
    }

    /// Something goes on beside the operations from [`begin`](crate::State::begin) to [`found`](crate::State::found).
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// When a write counts as done.
    #[must_use]
    pub fn durability(mut self, durability: &'static str) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The data set, with its size.
    #[must_use]
    pub fn data(mut self, data_set: impl Into<String>) -> Self {
        self.data_set = data_set.into();
        self
    }

    /// Where the data are.
    #[must_use]
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.state = state.into();
        self
    }

    /// Secondary indexes of the table.
    #[must_use]
    pub fn indexes(mut self, indexes: u32) -> Self {
        self.indexes = Some(indexes);
        self
    }

    /// Bytes of payload that one operation moves.
    #[must_use]
    pub fn bytes_per_operation(mut self, bytes: u64) -> Self {
        self.bytes_per_operation = Some(bytes);
        self
    }

    /// Compared with the row of the same operation and case whose subject is `subject`.
    #[must_use]
    pub fn floor(self, subject: &str, at_least: f64, aim: impl Into<Option<f64>>) -> Self {
        self.floor_id(subject, at_least, aim)
    }

    /// Compared with the row whose full id is `id`.
    #[must_use]
    pub fn floor_id(mut self, id: impl Into<String>, at_least: f64, aim: impl Into<Option<f64>>) -> Self {
        self.floor = Some(Floor { id: id.into(), at_least: Some(at_least), aim: aim.into() });
        self
    }

    /// Compared with the row of the same operation and case whose subject is `subject`, another system that does the same work. No
    /// ratio is a goal: wins and losses are told alike.
    #[must_use]
    pub fn peer(mut self, subject: &str) -> Self {
        self.floor = Some(Floor { id: subject.to_owned(), at_least: None, aim: None });
        self
    }

    /// Compared with the row of this layer whose id ends so, `operation/subject/case`.
    #[must_use]
    pub fn against(mut self, row: impl Into<String>) -> Self {
        self.against.push(row.into());
        self
    }

    /// Takes turns with the rows it is compared with from runs of this size on.
    #[must_use]
    pub fn depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    /// The row is the point `x` of those of its operation along `axis`, which alone sets them apart.
    #[must_use]
    pub fn scale(mut self, axis: &'static str, x: f64) -> Self {
        self.scale = Some(Place { axis, x });
        self
    }

    /// More allocations per operation than this are a failure.
    #[must_use]
    pub fn allocations_at_most(mut self, allocations: u64) -> Self {
        self.allocations_at_most = Some(allocations);
        self
    }

    /// Completes a floor that was given by its subject alone, and checks that the facts do not contradict each other.
    pub(crate) fn registered(mut self, group: &str, case: &str) -> Self {
        if let Some(floor) = self.floor.as_mut().filter(|floor| !floor.id.contains('/')) {
            floor.id = format!("{group}/{}/{case}", floor.id);
        }
        let layer = group.split('/').next().unwrap_or_default();
        self.against.iter_mut().for_each(|row| *row = format!("{layer}/{row}"));
        assert!(self.threads > 0, "{group}: a row needs a thread");
        assert!(
            self.units_per_operation > 0,
            "{group}: an operation that yields nothing cannot be told from one that failed"
        );
        assert!(
            self.changes_store || self.capacity.is_none(),
            "{group}: a state that is used up is a state that changes"
        );
        assert!(
            !self.changes_store || self.turn_operations > 0,
            "{group}: a row that changes its store needs turn_operations"
        );
        assert!(self.workload || !self.background, "{group}: only a workload says when its background begins");
        let turns = if self.workload { 1 + WORKLOAD_SAMPLES as u64 } else { 1 };
        let capacity = self.capacity.unwrap_or(u64::MAX);
        assert!(turns * self.turn_operations <= capacity, "{group}: one turn needs more than the capacity of a state");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_given_by_subject_means_the_same_operation_and_case() {
        let facts =
            Facts::new("reads one record by id").floor("floor", 0.95, 0.98).registered("storage/get", "memtable");
        assert_eq!(facts.floor.unwrap().id, "storage/get/floor/memtable");

        let facts = Facts::new("reads one record by id").floor_id("storage/get/floor/sst", 0.95, None);
        assert_eq!(facts.registered("storage/get", "memtable").floor.unwrap().id, "storage/get/floor/sst");
    }

    #[test]
    fn rows_of_the_layer_are_compared_by_the_rest_of_their_ids() {
        let facts = Facts::new("creates one record").against("create/strata/0_indexes");
        assert_eq!(
            facts.registered("integration/create", "2_indexes").against,
            ["integration/create/strata/0_indexes"]
        );
    }

    #[test]
    fn a_peer_is_compared_without_a_goal() {
        let facts = Facts::new("reads one record by id").peer("sqlite").registered("integration/read", "1_index");
        let compared = Floor { id: "integration/read/sqlite/1_index".to_owned(), at_least: None, aim: None };
        assert_eq!(facts.floor, Some(compared));
    }

    #[test]
    fn the_place_on_an_axis_is_a_number() {
        let facts = serde_json::to_value(Facts::new("reads one record by id").scale("threads", 4.0)).unwrap();
        assert_eq!(facts["scale"], serde_json::json!({"axis": "threads", "x": 4.0}));
        assert!(serde_json::to_value(Facts::new("reads one record by id")).unwrap()["scale"].is_null());
    }

    #[test]
    #[should_panic(expected = "one turn needs more than the capacity")]
    fn a_turn_fits_into_the_capacity() {
        let _ = Facts::new("deletes one record").changes_store(1001, 1000).registered("storage/delete", "1k");
    }
}
