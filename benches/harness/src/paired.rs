//! A row in lock-step with partner processes, by the word of the broker in the runner.
//!
//! Live processes that take short turns on the same cores see the same machine, so their ratios are steady where their times
//! are not. Criterion is not involved: all sides do exactly as many turns of exactly as many operations, and no wait stands
//! inside anybody's clock. A side runs only between an answer and its next question. Each turn begins with a few operations that are
//! not timed, because the caches are those of the side before.
//!
//! Each message is a line. The side asks, the broker answers:
//!
//! | side | broker | meaning |
//! |---|---|---|
//! | `row ID` | `run`, `run COST_NS` or `skip` | may I set this row up? With a cost: so much an operation takes, by what was measured before |
//! | `meet COST_NS CAPACITY` | `OPERATIONS TURNS` | prepared; an operation costs about this; the state serves so many (0 = no limit) |
//! | `ready` | `go` or `stop` | may I run a turn? |
//! | `done NANOSECONDS` | | the turn is over and the background work of its operations too |
//! | `over` | `rest` | turns are done; may I tear down? (not while a partner runs) |
//!
//! A side that cannot go on just ends: the broker sees the end of the connection. The broker's half is `run_benches/measure/broker.py`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use crate::live::{Live, State};
use crate::row::Row;

/// The connection to the broker.
pub(crate) struct Broker(BufReader<UnixStream>);

impl Broker {
    /// Connects to the socket that `STRATA_TURN` names, if it is set.
    pub(crate) fn from_environment() -> Option<Self> {
        let path = std::env::var_os("STRATA_TURN")?;
        let socket = UnixStream::connect(path).expect("STRATA_TURN names the socket of a live broker");
        Some(Self::new(socket))
    }

    fn new(socket: UnixStream) -> Self {
        Self(BufReader::new(socket))
    }

    fn tell(&mut self, message: &str) {
        let line = format!("{message}\n");
        self.0.get_mut().write_all(line.as_bytes()).expect("the broker is there");
    }

    fn ask(&mut self, message: &str) -> String {
        self.tell(message);
        let mut answer = String::new();
        self.0.read_line(&mut answer).expect("the broker answers");
        assert!(answer.ends_with('\n'), "the broker has gone");
        answer.trim_end().to_owned()
    }

    /// Meets the partners: returns the operations of a turn and how many turns there are.
    fn meet(&mut self, cost_ns: f64, capacity: u64) -> (u64, u64) {
        let answer = self.ask(&format!("meet {cost_ns:.3} {capacity}"));
        let (operations, turns) = answer.split_once(' ').expect("the broker answers a meeting with two numbers");
        let number = |text: &str| text.parse().expect("the broker answers a meeting with two numbers");
        (number(operations), number(turns))
    }
}

/// Of so many operations of a turn one more goes before them, untimed; at least one.
const LEAD_IN: u64 = 16;
/// Index of the first operation of the turns where the state was warmed up before: beyond every warm-up, since no index comes twice.
const FIRST_OF_TURNS: u64 = 1 << 40;
/// The warm-up time of a row that changes nothing, before its turns, where the cost of an operation is known.
const WARM_UP_NS: f64 = 10e6;

/// Runs the row's turns, if the broker wants the row.
pub(crate) fn run<S: State, W: FnMut(u64) -> u64 + Send>(broker: &mut Broker, row: &mut Row<'_, S, W>) {
    if row.facts.background {
        return; // it would go on in the turns of the partners
    }
    let answer = broker.ask(&format!("row {}", row.id));
    let Some(known) = answer.strip_prefix("run") else { return };
    let known = (!known.is_empty()).then(|| known.trim().parse().expect("the broker names a cost in nanoseconds"));
    let (mut live, cost_ns) = prepared(row, known);
    let timed_of = |operations: u64| operations * LEAD_IN / (LEAD_IN + 1);
    let (operations, turns) = broker.meet(cost_ns, row.facts.capacity.map_or(0, timed_of));
    // An operation as long as a warm-up needs none before it. The index passes over it, because the partners' does.
    let is_long = cost_ns >= WARM_UP_NS && !row.facts.changes_store;
    for _ in 0..turns {
        if broker.ask("ready") != "go" {
            break;
        }
        let lead_in = (operations / LEAD_IN).max(u64::from(row.facts.capacity.is_none()));
        match is_long {
            true => live.pass_over(lead_in),
            false => drop(live.run(lead_in, row.facts)),
        }
        let elapsed = row.timed(&mut live, operations);
        live.state().settle();
        broker.tell(&format!("done {}", elapsed.as_nanos()));
    }
    broker.ask("over");
}

/// The state as its turns begin with it, and what an operation costs. Where nobody knows that yet, it is found out, and allocations are
/// counted; a state that this changes is made anew.
fn prepared<S: State, W: FnMut(u64) -> u64 + Send>(row: &mut Row<'_, S, W>, known: Option<f64>) -> (Live<S, W>, f64) {
    let (mut live, cost_ns) = match known {
        Some(cost_ns) => (row.fresh(row.facts.threads), cost_ns),
        None => {
            let mut live = row.probed();
            let cost_ns = row.cost_ns(&mut live);
            (live, cost_ns)
        }
    };
    if !row.facts.changes_store {
        if known.is_some() {
            live.run((WARM_UP_NS / cost_ns) as u64, row.facts);
        }
        live.state().settle();
        // Each side has warmed up by its own clock; from here on all do the same operations in the same order.
        live.go_on_from(FIRST_OF_TURNS);
    } else if known.is_none() {
        drop(live); // closed before the next is made; all sides begin with an untouched one
        live = row.fresh(row.facts.threads);
    }
    (live, cost_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::live::Data;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// Answers a side by the script, one line a question; returns what the side said.
    fn scripted(socket: UnixStream, answers: &'static [&'static str]) -> thread::JoinHandle<Vec<String>> {
        thread::spawn(move || {
            let (mut heard, mut answers) = (Vec::new(), answers.iter());
            for line in BufReader::new(socket.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                if !line.starts_with("done") {
                    let Some(answer) = answers.next() else { break };
                    writeln!(&socket, "{answer}").unwrap();
                }
                heard.push(line);
            }
            heard
        })
    }

    /// Runs one row that notes how often it was set up and the highest index it saw in its present state.
    fn run_row(facts: &Facts, answers: &'static [&'static str]) -> (u64, u64, Vec<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let script = scripted(theirs, answers);
        let (mut setups, highest) = (0, AtomicU64::new(0));
        let mut setup = || {
            setups += 1;
            Data(())
        };
        let worker = |_: Arc<Data<()>>| {
            |index| {
                highest.store(index, Ordering::Relaxed);
                1
            }
        };
        run(&mut Broker::new(ours), &mut Row::new("test/note/strata/1", facts, &mut setup, &worker));
        (setups, highest.into_inner(), script.join().unwrap())
    }

    #[test]
    fn takes_the_turns_it_is_given() {
        let facts = Facts::new("notes its index").changes_store(10, 1000);
        let (setups, highest, heard) = run_row(&facts, &["run", "50 3", "go", "go", "go", "rest"]);
        assert_eq!(setups, 2, "warmed up on a state of its own");
        assert_eq!(highest, 158, "the index goes on from turn to turn, and through what comes before each");
        let words: Vec<&str> = heard.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(words, ["row", "meet", "ready", "done", "ready", "done", "ready", "done", "over"]);
        assert_eq!(heard[0], "row test/note/strata/1");
        assert!(heard[1].ends_with(" 941"), "what comes before the turns uses up some of it: {}", heard[1]);
    }

    #[test]
    fn a_row_that_changes_nothing_keeps_its_state() {
        let (setups, highest, heard) = run_row(&Facts::new("notes its index"), &["run", "50 1", "go", "rest"]);
        assert_eq!(setups, 1);
        assert_eq!(highest, FIRST_OF_TURNS + 52, "the same operations as the partner, however long each has warmed up");
        assert!(heard[1].ends_with(" 0"), "no limit: {}", heard[1]);
    }

    #[test]
    fn a_known_cost_is_not_found_out_again() {
        let changing = Facts::new("notes its index").changes_store(10, 1000);
        let (setups, highest, heard) = run_row(&changing, &["run 125.5", "50 3", "go", "go", "go", "rest"]);
        assert_eq!((setups, highest), (1, 158), "the first state is untouched");
        assert_eq!(heard[1], "meet 125.500 941");
        let (setups, highest, heard) = run_row(&Facts::new("notes its index"), &["run 2e6", "50 1", "go", "rest"]);
        assert_eq!(
            (setups, highest),
            (1, FIRST_OF_TURNS + 52),
            "after a warm-up of as many operations as the partner's"
        );
        assert_eq!(heard[1], "meet 2000000.000 0");
    }

    #[test]
    fn a_long_operation_needs_none_before_it() {
        let (_, highest, heard) = run_row(&Facts::new("notes its index"), &["run 2e7", "1 2", "go", "go", "rest"]);
        assert_eq!(highest, FIRST_OF_TURNS + 3, "its index goes on as that of a partner that has them");
        assert_eq!(heard[1], "meet 20000000.000 0");
    }

    #[test]
    fn a_skipped_row_is_not_set_up() {
        let (setups, ..) = run_row(&Facts::new("notes its index"), &["skip"]);
        assert_eq!(setups, 0);
    }

    #[test]
    fn stops_when_told() {
        let (.., heard) = run_row(&Facts::new("notes its index"), &["run", "50 3", "go", "stop", "rest"]);
        assert_eq!(heard.iter().filter(|line| line.starts_with("done")).count(), 1);
    }

    #[test]
    #[should_panic(expected = "the broker has gone")]
    fn does_not_wait_for_a_broker_that_ended() {
        run_row(&Facts::new("notes its index"), &["run"]);
    }
}
