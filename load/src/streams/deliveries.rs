//! The deliveries to subscribers, held against what was acknowledged: every event once and in order, and how long it took.

use hdrhistogram::Histogram;

/// A gap that is longer is not filled, or a wrong offset would take all memory.
const LONGEST_GAP: u64 = 10_000_000;

/// The events that one subscriber has taken: the time at which each came, by partition and offset.
#[derive(Clone, Debug)]
pub struct Taken {
    /// By partition; none of those that it does not follow.
    partitions: Vec<Option<Partition>>,
    /// Events that came again, or behind later ones, or of other partitions.
    repeated: u64,
    /// True if the server ended it, or refused it.
    pub ended: bool,
}

#[derive(Clone, Debug)]
struct Partition {
    from: u64,
    /// Nanoseconds; 0 of those that have not come.
    came: Vec<u64>,
}

impl Taken {
    /// Nothing yet, of one partition or of all, from these offsets on.
    pub fn new(partition: Option<usize>, from: &[u64]) -> Self {
        let followed = |at: usize| partition.is_none_or(|partition| partition == at);
        let start = |(at, from): (usize, &u64)| followed(at).then(|| Partition { from: *from, came: Vec::new() });
        Self { partitions: from.iter().enumerate().map(start).collect(), repeated: 0, ended: false }
    }

    /// An event came then.
    pub fn note(&mut self, partition: usize, offset: u64, now: u64) {
        let Some(Some(followed)) = self.partitions.get_mut(partition) else {
            self.repeated += 1;
            return;
        };
        let next = followed.from + followed.came.len() as u64;
        match offset.checked_sub(next) {
            Some(gap) if gap < LONGEST_GAP => {
                followed.came.resize((offset - followed.from) as usize, 0);
                followed.came.push(now.max(1));
            }
            _ => self.repeated += 1,
        }
    }

    /// Where the only partition that it follows goes on.
    pub fn next(&self) -> u64 {
        self.partitions.iter().flatten().next().map_or(0, |followed| followed.from + followed.came.len() as u64)
    }

    /// Returns true if it has come to these offsets, one for each partition.
    pub fn has_come_to(&self, until: &[u64]) -> bool {
        let pairs = self.partitions.iter().zip(until);
        pairs
            .filter_map(|(followed, until)| Some((followed.as_ref()?, until)))
            .all(|(followed, until)| followed.from + followed.came.len() as u64 >= *until)
    }

    /// When an event came: none where the partition is not followed, `Some(0)` where it has not come.
    fn came(&self, partition: usize, offset: u64) -> Option<u64> {
        let followed = self.partitions.get(partition)?.as_ref()?;
        let at = offset.checked_sub(followed.from)?;
        Some(usize::try_from(at).ok().and_then(|at| followed.came.get(at)).copied().unwrap_or(0))
    }
}

/// An event that was acknowledged, and is not one that was there before.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The partition.
    pub partition: usize,
    /// The offset.
    pub offset: u64,
    /// When its request should have started; nanoseconds.
    pub intended: u64,
    /// When its request started; nanoseconds.
    pub started: u64,
    /// True if that was in a window, not in the warm-up.
    pub is_measured: bool,
}

/// The deliveries to the subscribers of one kind.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Acknowledged events that had to come to them, those of the warm-up apart.
    pub due: u64,
    /// Those of the warm-up.
    pub due_before: u64,
    /// Acknowledged events that did not come.
    pub missing: u64,
    /// Events that came again, or behind later ones.
    pub repeated: u64,
    /// Events that came and were not acknowledged.
    pub unanswered: u64,
    /// Subscribers that the server ended, or refused.
    pub ended: u64,
    /// From the intended start of the append to the arrival; nanoseconds. Of events that came in a window.
    pub from_intended: Histogram<u64>,
    /// From the start of the append to the arrival.
    pub from_start: Histogram<u64>,
    /// The number of durations that no histogram could hold.
    pub unrecorded: u64,
}

/// Holds what subscribers have taken against what was acknowledged.
pub fn judge(taken: &[Taken], sent: impl Iterator<Item = Sent>) -> Delivered {
    let empty = || Histogram::new(3).expect("3 significant digits are allowed");
    let came = taken.iter().flat_map(|taken| taken.partitions.iter().flatten());
    let came: u64 = came.map(|followed| followed.came.iter().filter(|time| **time > 0).count() as u64).sum();
    let mut all = Delivered {
        due: 0,
        due_before: 0,
        missing: 0,
        repeated: taken.iter().map(|taken| taken.repeated).sum(),
        unanswered: 0,
        ended: taken.iter().filter(|taken| taken.ended).count() as u64,
        from_intended: empty(),
        from_start: empty(),
        unrecorded: 0,
    };
    let mut acknowledged = 0;
    for event in sent {
        for time in taken.iter().filter_map(|taken| taken.came(event.partition, event.offset)) {
            *(if event.is_measured { &mut all.due } else { &mut all.due_before }) += 1;
            match time {
                0 => all.missing += 1,
                time => {
                    acknowledged += 1;
                    if event.is_measured {
                        let since = |start: u64| time.saturating_sub(start);
                        let recorded = all.from_intended.record(since(event.intended)).is_ok()
                            && all.from_start.record(since(event.started)).is_ok();
                        all.unrecorded += u64::from(!recorded);
                    }
                }
            }
        }
    }
    all.unanswered = came.saturating_sub(acknowledged);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(partition: usize, offset: u64, is_measured: bool) -> Sent {
        Sent { partition, offset, intended: 100, started: 150, is_measured }
    }

    fn judged(of: Option<usize>, came: &[(usize, u64, u64)]) -> Delivered {
        let mut taken = Taken::new(of, &[0, 7]);
        came.iter().for_each(|(partition, offset, time)| taken.note(*partition, *offset, *time));
        judge(&[taken], [sent(0, 0, false), sent(0, 1, true), sent(1, 7, true)].into_iter())
    }

    /// Returns the numbers of events that are due, missing, repeated, not acknowledged, and of samples.
    fn figures(found: &Delivered) -> [u64; 6] {
        let Delivered { due, due_before, missing, repeated, unanswered, .. } = *found;
        [due, due_before, missing, repeated, unanswered, found.from_intended.len()]
    }

    #[test]
    fn every_event_comes_once_and_in_order() {
        let all = judged(None, &[(0, 0, 200), (1, 7, 300), (0, 1, 400)]);
        assert_eq!(figures(&all), [2, 1, 0, 0, 0, 2]);
        assert_eq!((all.from_intended.max(), all.from_start.min()), (300, 150));
        assert_eq!(figures(&judged(Some(1), &[(1, 7, 300)])), [1, 0, 0, 0, 0, 1]);
        assert_eq!(figures(&judged(None, &[(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 7, 4)])), [2, 1, 0, 0, 1, 2]);
    }

    #[test]
    fn what_is_missing_doubled_or_late_is_told() {
        assert_eq!(figures(&judged(None, &[(0, 0, 1), (0, 1, 2)])), [2, 1, 1, 0, 0, 1]);
        assert_eq!(figures(&judged(None, &[(0, 0, 1), (0, 1, 2), (0, 1, 3), (1, 7, 4)])), [2, 1, 0, 1, 0, 2]);
        assert_eq!(figures(&judged(None, &[(0, 1, 2), (0, 0, 3), (1, 7, 4)])), [2, 1, 1, 1, 0, 2]);
        assert_eq!(figures(&judged(Some(1), &[(0, 0, 1), (1, 7, 4)])), [1, 0, 0, 1, 0, 1], "another's");
        assert_eq!(figures(&judged(Some(1), &[(1, u64::MAX, 4)])), [1, 0, 1, 1, 0, 0], "far beyond");
    }

    #[test]
    fn it_has_come_to_where_its_own_partitions_end() {
        let mut taken = Taken::new(Some(1), &[0, 7]);
        assert!(taken.has_come_to(&[9, 7]) && !taken.has_come_to(&[0, 8]));
        taken.note(1, 7, 1);
        assert!(taken.has_come_to(&[9, 8]));
        assert_eq!(taken.next(), 8);
    }
}
