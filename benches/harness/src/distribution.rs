//! Which record comes next: random numbers that are the same everywhere, Zipf's law as YCSB draws it, and the latest record.

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
        let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum();
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
