//! Which record comes next: random numbers that are the same everywhere, Zipf's law as YCSB draws it, plain and scrambled, and the
//! latest record.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::data::mixed;

/// Random numbers that follow from a seed: splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.drawn += 1;
        mixed(self.drawn, self.seed)
    }

    /// From 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up to but not including `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }
}

/// Ranks from 0, of which rank r is drawn about (r + 1)^-0.99 as often as rank 0.
///
/// The algorithm is that of Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as
/// `ZipfianGenerator` of YCSB has it (Cooper and others, "Benchmarking cloud serving systems with YCSB", SoCC 2010), with YCSB's
/// constant.
#[derive(Clone, Copy, Debug)]
pub struct Zipfian {
    ranks: f64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    /// Over so many ranks, of which there are at least two. Costs as many powers as there are ranks.
    pub fn new(ranks: u64) -> Self {
        assert!(ranks >= 2, "{ranks} ranks have no distribution");
        Self::with_zeta(ranks, (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum())
    }

    /// The same where the sum of the powers is known.
    fn with_zeta(ranks: u64, zeta: f64) -> Self {
        let ranks = ranks as f64;
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - THETA)) / (1.0 - zeta_of_2() / zeta);
        Self { ranks, zeta, eta }
    }

    /// The next rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < zeta_of_2() {
            return 1;
        }
        let rank = self.ranks * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        rank.min(self.ranks - 1.0) as u64
    }
}

fn zeta_of_2() -> f64 {
    1.0 + 0.5f64.powf(THETA)
}

/// Records from 0, of which a few are popular, scattered over all of them.
///
/// This is `ScrambledZipfianGenerator` of YCSB (`core/src/main/java/site/ycsb/generator`): ranks of Zipf's law over [`ITEMS`], whatever
/// the number of records is, folded onto the records by a hash. So the law does not depend on how many records there are, and two
/// popular ranks may be one record.
#[derive(Clone, Copy, Debug)]
pub struct Scrambled {
    items: Zipfian,
    records: u64,
}

/// The items that YCSB's [`ZETA_OF_ITEMS`] was summed up over (its commit cd1589c). Other versions (594ba16) write 10^16 beside the same
/// sum, and draw the most popular ranks less often.
const ITEMS: u64 = 10_000_000_000;
const ZETA_OF_ITEMS: f64 = 26.469_028_201_783_02;

impl Scrambled {
    /// Over so many records, of which there is at least one.
    pub fn new(records: u64) -> Self {
        assert!(records > 0, "there is none to choose");
        Self { items: Zipfian::with_zeta(ITEMS, ZETA_OF_ITEMS), records }
    }

    /// The next record.
    pub fn record(&self, random: &mut Random) -> u64 {
        hashed(self.items.rank(random)) % self.records
    }
}

/// `Utils.fnvhash64` of YCSB: FNV-1a over the eight bytes of a number, lowest first, without its sign.
fn hashed(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step);
    (hash as i64).unsigned_abs()
}

/// Numbers of records that several clients insert: a record may be read when it and all before it are acknowledged
/// (`AcknowledgedCounterGenerator` of YCSB).
#[derive(Debug, Default)]
pub struct Inserted {
    next: AtomicU64,
    acknowledged: AtomicU64,
    beyond: Mutex<BTreeSet<u64>>,
}

impl Inserted {
    /// A number for a record that is about to be inserted, from 0.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The record with this number is there.
    pub fn acknowledge(&self, number: u64) {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        beyond.insert(number);
        let mut first_open = self.acknowledged.load(Ordering::Relaxed);
        while beyond.remove(&first_open) {
            first_open += 1;
        }
        self.acknowledged.store(first_open, Ordering::Release);
    }

    /// All records with a smaller number are there.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_when_all_before_it_are_there() {
        let inserted = Inserted::default();
        assert_eq!([inserted.next(), inserted.next(), inserted.next()], [0, 1, 2]);
        for (number, expected) in [(1, 0), (0, 2), (2, 3)] {
            inserted.acknowledge(number);
            assert_eq!(inserted.acknowledged(), expected, "after {number}");
        }
    }

    const DRAWS: u64 = 200_000;

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        let (ranks, mut random) = (1000, Random::new(7));
        let zipfian = Zipfian::new(ranks);
        let mut counts = vec![0u64; ranks as usize];
        (0..DRAWS).for_each(|_| counts[zipfian.rank(&mut random) as usize] += 1);
        // Exact for the first two ranks; the algorithm gives a tenth too much to the few after them.
        let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum();
        let expected = |range: std::ops::Range<u64>| {
            range.map(|rank| ((rank + 1) as f64).powf(-THETA) / zeta).sum::<f64>() * DRAWS as f64
        };
        for (range, tolerance) in [(0..1, 0.02), (1..2, 0.03), (2..10, 0.12), (10..100, 0.05), (100..1000, 0.05)] {
            let drawn: u64 = counts[range.start as usize..range.end as usize].iter().sum();
            let share = drawn as f64 / expected(range.clone());
            assert!((share - 1.0).abs() < tolerance, "{range:?}: {share}");
        }
    }

    #[test]
    fn numbers_are_hashed_as_ycsb_does() {
        // The names of YCSB's first records are "user" and these numbers.
        assert_eq!([0, 1, 2].map(hashed), [6284781860667377211, 8517097267634966620, 1820151046732198393]);
    }

    #[test]
    fn scrambled_records_are_as_popular_as_ycsb_makes_them() {
        let (records, draws, mut random) = (100_000, 1_000_000, Random::new(7));
        let scrambled = Scrambled::new(records);
        let mut counts = vec![0u64; records as usize];
        (0..draws).for_each(|_| counts[scrambled.record(&mut random) as usize] += 1);
        assert_eq!(counts.iter().max(), Some(&counts[(hashed(0) % records) as usize]));
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let share = |most: usize| counts[..most].iter().sum::<u64>() as f64 / draws as f64;
        // The first rank has 1 / zeta. The first thousand ranks have the sum of their powers over zeta, and with them, folded onto the
        // same thousand records, comes a hundredth of all others.
        let of_ranks = |most: u64| (1..=most).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>() / ZETA_OF_ITEMS;
        let expected = |most: u64| of_ranks(most) + (1.0 - of_ranks(most)) * most as f64 / records as f64;
        for (most, tolerance) in [(1, 0.02), (1000, 0.04)] {
            let found = share(most) / expected(most as u64);
            assert!((found - 1.0).abs() < tolerance, "the hottest {most} have {} of all: {found}", share(most));
        }
        assert!(counts[99_999 / 2] > 0, "what is not popular is chosen too");
    }

    #[test]
    fn numbers_are_even_and_follow_from_the_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..DRAWS).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for digit in 0..10 {
            let count = draw(1).iter().filter(|drawn| **drawn == digit).count() as f64;
            assert!((count / (DRAWS as f64 / 10.0) - 1.0).abs() < 0.04, "{digit}: {count}");
        }
        let mut random = Random::new(3);
        assert!((0..DRAWS).map(|_| random.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }
}
