//! The promises of a stream, checked over what was acknowledged, what has no answer, and what was read back. It is a function of these
//! and of nothing else, so that each fault can be planted.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::event::Content;

/// A gap that is longer is not filled, or a wrong offset would take all memory.
const LONGEST_GAP: u64 = 10_000_000;

/// An event that was acknowledged at an offset.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// The user who sent it, one request after the other.
    pub user: u32,
    /// The partition.
    pub partition: usize,
    /// The offset.
    pub offset: u64,
    /// True if the response says that it was there before.
    pub duplicate: bool,
    /// The event that was sent.
    pub event: u64,
}

/// A request that may have been carried out, and has no answer that says so.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// The events that it sent.
    pub events: Vec<u64>,
    /// True if the record that it writes too is there; none where it writes none.
    pub record: Option<bool>,
}

/// The events that were read of a stream: for each partition those from an offset on, none where one is missing.
#[derive(Debug, Default)]
pub struct ReadBack {
    partitions: Vec<Partition>,
    keys: Vec<u64>,
    gaps: u64,
    events: u64,
}

#[derive(Debug)]
struct Partition {
    from: u64,
    /// 0 where there is none.
    events: Vec<u64>,
    /// Those that a request is known to have appended.
    accounted: Vec<bool>,
}

impl ReadBack {
    /// Nothing yet, of partitions that are read from these offsets on.
    pub fn new(from: &[u64]) -> Self {
        let partition = |from: &u64| Partition { from: *from, events: Vec::new(), accounted: Vec::new() };
        Self { partitions: from.iter().map(partition).collect(), ..Self::default() }
    }

    /// The next event of a partition.
    pub fn add(&mut self, partition: usize, offset: u64, content: Content) {
        let into = &mut self.partitions[partition];
        let expected = into.from + into.events.len() as u64;
        self.events += 1;
        self.keys.extend(content.idempotency_key);
        self.gaps += u64::from(offset != expected);
        if (expected..expected + LONGEST_GAP).contains(&offset) {
            into.events.resize((offset - into.from) as usize, 0);
            into.events.push(content.event);
        }
    }
}

/// The number of checks of a promise, and the number of times that it was not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The number of checks.
    pub checked: u64,
    /// The number of times that it was broken.
    pub wrong: u64,
}

impl Kept {
    fn note(&mut self, right: bool) {
        self.checked += 1;
        self.wrong += u64::from(!right);
    }
}

/// The outcome of each promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promises {
    /// S1: events that were read have the offset behind the one before.
    pub gapless: Kept,
    /// S2: events that were acknowledged stand at their offsets, byte for byte.
    pub in_place: Kept,
    /// S3: events that one user sent one after the other have rising offsets in a partition.
    pub in_order: Kept,
    /// S4: of requests that write several things all are there, or none.
    pub whole: Kept,
    /// S5: an idempotency key stands once.
    pub keys_once: Kept,
    /// T13: an offset was acknowledged once, unless the answer says that the event was there before.
    pub offsets_once: Kept,
    /// T13: events that were read were acknowledged, or sent by a request without an answer.
    pub sent: Kept,
}

impl Promises {
    /// Each with the rule that names it, and in words.
    pub fn rows(&self) -> [(&'static str, &'static str, Kept); 7] {
        [
            ("S1", "offsets without a gap", self.gapless),
            ("S2", "acknowledged events at their offsets", self.in_place),
            ("S3", "events of a user in their order", self.in_order),
            ("S4", "requests all or nothing", self.whole),
            ("S5", "idempotency keys once", self.keys_once),
            ("T13", "offsets acknowledged once", self.offsets_once),
            ("T13", "events that somebody sent", self.sent),
        ]
    }

    /// Notes whether the record is there that an answered request wrote beside its event (S4).
    pub fn note_record(&mut self, is_there: bool) {
        self.whole.note(is_there);
    }
}

/// Holds what was read against what was acknowledged, which comes in the order of the answers of each user, and what has no answer.
pub fn check(
    mut read: ReadBack,
    acknowledged: impl Iterator<Item = Acknowledged>,
    unanswered: impl Iterator<Item = Unanswered>,
) -> Promises {
    let mut promises = Promises { gapless: Kept { checked: read.events, wrong: read.gaps }, ..Promises::default() };
    for partition in &mut read.partitions {
        partition.accounted = vec![false; partition.events.len()];
    }
    let mut last: HashMap<(u32, usize), u64> = HashMap::new();
    for Acknowledged { user, partition, offset, duplicate, event } in acknowledged {
        let found = read.partitions.get_mut(partition).and_then(|found| {
            let at = usize::try_from(offset.checked_sub(found.from)?).ok()?;
            Some((*found.events.get(at)?, &mut found.accounted[at]))
        });
        promises.in_place.note(found.as_ref().is_some_and(|(stands, _)| *stands == event));
        if let Some((_, accounted)) = found {
            promises.offsets_once.note(duplicate || !*accounted);
            *accounted = true;
        }
        // A duplicate was appended by an earlier request.
        if !duplicate && let Some(before) = last.insert((user, partition), offset) {
            promises.in_order.note(before < offset);
        }
    }
    let mut left: HashMap<u64, u64> = HashMap::new();
    for partition in &read.partitions {
        let all = partition.events.iter().zip(&partition.accounted);
        all.filter(|(event, accounted)| **event != 0 && !**accounted)
            .for_each(|(event, _)| *left.entry(*event).or_default() += 1);
    }
    for Unanswered { events, record } in unanswered {
        let mut take = |event: &u64| match left.get_mut(event) {
            Some(number @ 1..) => {
                *number -= 1;
                true
            }
            _ => false,
        };
        let there = events.iter().filter(|event| take(event)).count();
        if events.len() > 1 || record.is_some() {
            let all = there == events.len() && record != Some(false);
            let nothing = there == 0 && record != Some(true);
            promises.whole.note(all || nothing);
        }
    }
    promises.sent = Kept { checked: read.events, wrong: left.values().sum() };
    let different = read.keys.iter().collect::<HashSet<_>>().len();
    promises.keys_once = Kept { checked: read.keys.len() as u64, wrong: (read.keys.len() - different) as u64 };
    promises
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two partitions from offsets 0 and 5 on, with these events at these offsets.
    fn read(events: &[(usize, u64, u64)]) -> ReadBack {
        let mut read = ReadBack::new(&[0, 5]);
        for (partition, offset, event) in events {
            // Those from 100 on have a key, which is their last digit.
            let idempotency_key = (*event >= 100).then_some(event % 10);
            read.add(*partition, *offset, Content { event: *event, idempotency_key });
        }
        read
    }

    fn told(user: u32, partition: usize, offset: u64, event: u64) -> Acknowledged {
        Acknowledged { user, partition, offset, duplicate: false, event }
    }

    fn unanswered(events: &[u64], record: Option<bool>) -> Unanswered {
        Unanswered { events: events.to_vec(), record }
    }

    /// Returns the broken promises, by the names of the fields.
    fn wrong(read: ReadBack, acknowledged: &[Acknowledged], unanswered: &[Unanswered]) -> Vec<(&'static str, u64)> {
        let promises = check(read, acknowledged.iter().copied(), unanswered.iter().cloned());
        let rows = promises.rows().into_iter();
        rows.filter(|(.., kept)| kept.wrong > 0).map(|(_, what, kept)| (what, kept.wrong)).collect()
    }

    const RIGHT: [(usize, u64, u64); 4] = [(0, 0, 10), (0, 1, 11), (1, 5, 101), (0, 2, 12)];

    fn right() -> Vec<Acknowledged> {
        vec![told(1, 0, 0, 10), told(1, 0, 1, 11), told(2, 1, 5, 101)]
    }

    #[test]
    fn what_is_as_promised_is_counted() {
        let lost = [unanswered(&[12], None), unanswered(&[12, 13], None), unanswered(&[14], Some(false))];
        let promises = check(read(&RIGHT), right().into_iter(), lost.into_iter());
        let checked = promises.rows().map(|(.., kept)| (kept.checked, kept.wrong));
        assert_eq!(checked, [(4, 0), (3, 0), (1, 0), (2, 0), (1, 0), (3, 0), (4, 0)]);
    }

    #[test]
    fn each_fault_is_named() {
        let twelve = [unanswered(&[12], None)];
        let of = |events: &[(usize, u64, u64)]| wrong(read(events), &right(), &twelve);
        assert_eq!(of(&RIGHT), []);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 11), (1, 5, 101), (0, 4, 12)]), [("offsets without a gap", 1)]);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 11), (1, 5, 101), (0, 1, 12)]), [("offsets without a gap", 1)]);
        let far = u64::MAX - 1;
        assert_eq!(of(&[(0, 0, 10), (0, 1, 11), (1, 5, 101), (0, far, 12)]), [("offsets without a gap", 1)]);
        let place = "acknowledged events at their offsets";
        assert_eq!(of(&[(0, 0, 10), (0, 1, 11)]), [(place, 1)], "lost");
        assert_eq!(of(&[]), [(place, 3)], "nothing is read");
        let nobody = "events that somebody sent";
        assert_eq!(of(&[(0, 0, 10), (0, 1, 99), (1, 5, 101)]), [(place, 1)], "other bytes");
        assert_eq!(of(&[(0, 0, 10), (0, 1, 11), (0, 2, 98), (1, 5, 101)]), [(nobody, 1)]);
        let twice = [(0, 0, 10), (0, 1, 11), (1, 5, 101), (1, 6, 101)];
        assert_eq!(of(&twice), [("idempotency keys once", 1), (nobody, 1)]);
    }

    #[test]
    fn faults_of_answers_are_named() {
        let twelve = [unanswered(&[12], None)];
        let of =
            |acknowledged: &[Acknowledged]| wrong(read(&RIGHT), &[right(), acknowledged.to_vec()].concat(), &twelve);
        assert_eq!(of(&[told(3, 0, 1, 11)]), [("offsets acknowledged once", 1)]);
        let duplicate = Acknowledged { duplicate: true, ..told(1, 0, 0, 10) };
        assert_eq!(of(&[duplicate]), [], "it says so, and its order is that of the first");
        assert_eq!(of(&[told(4, 7, 0, 1)]), [("acknowledged events at their offsets", 1)], "no such partition");
        let mut reversed = right();
        reversed.swap(0, 1);
        assert_eq!(wrong(read(&RIGHT), &reversed, &twelve), [("events of a user in their order", 1)]);
    }

    #[test]
    fn parts_of_requests_are_named() {
        let of = |lost: Unanswered| wrong(read(&RIGHT), &right(), &[lost]);
        let whole = "requests all or nothing";
        assert_eq!(of(unanswered(&[12, 13], None)), [(whole, 1)]);
        assert_eq!(of(unanswered(&[12], Some(false))), [(whole, 1)]);
        assert_eq!(of(unanswered(&[12], Some(true))), []);
        assert_eq!(
            wrong(read(&RIGHT), &right(), &[unanswered(&[12], None), unanswered(&[13], Some(true))]),
            [(whole, 1)]
        );
        let mut promises = Promises::default();
        promises.note_record(false);
        assert_eq!(promises.whole, Kept { checked: 1, wrong: 1 });
    }
}
