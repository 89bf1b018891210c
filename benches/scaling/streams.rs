//! Streams: reads at the tail of more and more events, appends to more and more partitions, and beside more and more readers that wait.

use std::sync::Arc;

use strata_harness::{Depth, Facts, Scale, Suite, Unit};

use crate::events::{Ours, PAGE, PAYLOAD_BYTES, append, body, payload};
use crate::prepared::SST;
use crate::writing;

pub fn rows(suite: &mut Suite) {
    let small = suite.scale() == Scale::Smoke;
    for number in [1000, 10_000, 100_000, 1_000_000] {
        let (case, page) = (format!("{number}_events"), PAGE as u64);
        let events = if small { number / 100 / page * page + page } else { number };
        let facts =
            Facts::new(format!("reads the last {PAGE} events of a partition as JSON, appended in lists of {PAGE}"))
                .data(format!("{events} events with payloads of {PAYLOAD_BYTES} bytes"))
                .state(SST)
                .unit(Unit::Records, page)
                .scale("records", events as f64);
        let facts = if number == 1000 { facts } else { facts.against("read_tail/strata/1000_events") };
        let setup = || Ours::with_events("type Click @stream", events, page);
        suite.row("read_tail", "strata", &case, facts, setup, |ours: Arc<Ours>| {
            let (tail, mut answer) = (ours.events() - page, Vec::new());
            move |_| ours.read(tail, PAGE, &mut answer)
        });
    }
    let event = body(&payload(PAYLOAD_BYTES));
    for partitions in [1, 16, 1024] {
        let facts = writing("appends one event, to each partition in turn").scale("partitions", f64::from(partitions));
        let facts = facts.data(format!("payloads of {PAYLOAD_BYTES} bytes"));
        let facts = if partitions == 1 { facts } else { facts.against("append/strata/1_partition") };
        let case = if partitions == 1 { "1_partition".to_owned() } else { format!("{partitions}_partitions") };
        let setup = || Ours::fresh(&format!("type Click @stream(partitions: {partitions})"));
        suite.row("append", "strata", &case, facts, setup, |ours| append(ours, event.clone()));
    }
    for readers in [0, 1, 1000] {
        let facts = writing("appends one event, while readers wait in other partitions");
        let facts = facts.data(format!("payloads of {PAYLOAD_BYTES} bytes")).scale("readers", readers as f64);
        let facts = if readers == 0 { facts } else { facts.against("append_beside/strata/0_readers") };
        let facts = if readers == 1000 { facts.depth(Depth::Default) } else { facts };
        let case = format!("{readers}_reader{}", if readers == 1 { "" } else { "s" });
        suite.row(
            "append_beside",
            "strata",
            &case,
            facts,
            || Ours::with_readers(readers),
            |ours| append(ours, event.replacen('{', r#"{"partition":0,"#, 1)),
        );
    }
}
