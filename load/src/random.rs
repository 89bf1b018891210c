//! Random numbers that follow from a seed, and which row comes next: uniform, Zipf's law, the latest.
//!
//! The same seed draws the same rows on every machine, so that two runs ask for the same things.

use serde::{Deserialize, Serialize};

/// Random numbers that follow from a seed: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// From 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up to but not including `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// An exponential time with mean 1, by which the arrivals of a Poisson process are apart.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// The bits of a number scattered: the finalizer of splitmix64.
pub fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The distribution by which rows are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// Zipf's law with exponent 0.99, popular rows scattered over all.
    Zipfian,
    /// Zipf's law with exponent 0.99, the last row being the most popular.
    Latest,
}

/// Chooses among rows numbered from 0.
#[derive(Clone, Debug)]
pub struct Choice {
    distribution: Distribution,
    rows: u64,
    zipfian: Option<Zipfian>,
}

impl Choice {
    /// Among so many rows, of which there is at least one.
    pub fn new(distribution: Distribution, rows: u64) -> Self {
        let zipfian = (distribution != Distribution::Uniform && rows >= 2).then(|| Zipfian::new(rows));
        Self { distribution, rows, zipfian }
    }

    /// The next row.
    pub fn row(&self, random: &mut Random) -> u64 {
        match (&self.zipfian, self.distribution) {
            (None, _) => random.below(self.rows),
            (Some(zipfian), Distribution::Latest) => self.rows - 1 - zipfian.rank(random),
            (Some(zipfian), _) => mixed(zipfian.rank(random)) % self.rows,
        }
    }
}

const THETA: f64 = 0.99;

/// Ranks from 0, of which rank r is drawn about (r + 1)^-0.99 as often as rank 0: Gray and others, "Quickly generating
/// billion-record synthetic databases" (SIGMOD 1994), with YCSB's constant.
#[derive(Clone, Copy, Debug)]
struct Zipfian {
    ranks: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(ranks: u64) -> Self {
        let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum();
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_2() / zeta);
        Self { ranks: ranks as f64, zeta, eta }
    }

    fn rank(&self, random: &mut Random) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 100_000;

    fn counts(distribution: Distribution, rows: u64) -> Vec<u64> {
        let (choice, mut random, mut counts) =
            (Choice::new(distribution, rows), Random::new(7), vec![0; rows as usize]);
        (0..DRAWS).for_each(|_| counts[choice.row(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn each_distribution_draws_as_often_as_its_law_says() {
        for count in counts(Distribution::Uniform, 10) {
            assert!((9_500..10_500).contains(&count), "{count}");
        }
        let zeta: f64 = (1..=100).map(|rank| f64::from(rank).powf(-THETA)).sum();
        let hottest = (DRAWS as f64 / zeta) as u64;
        let latest = counts(Distribution::Latest, 100);
        assert!(latest[99].abs_diff(hottest) < hottest / 20, "{} of {hottest}", latest[99]);
        let zipfian = counts(Distribution::Zipfian, 100);
        assert!(*zipfian.iter().max().unwrap() >= hottest * 95 / 100);
    }

    #[test]
    fn numbers_follow_from_the_seed() {
        let draw = |seed| {
            std::iter::repeat_with({
                let mut random = Random::new(seed);
                move || random.bits()
            })
            .take(9)
            .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn exponential_times_have_mean_one() {
        let mut random = Random::new(3);
        let mean = (0..DRAWS).map(|_| random.exponential()).sum::<f64>() / DRAWS as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
