//! The growth of a figure over a run: what leaks grows, and so does what slows down with its age.
//!
//! The slope is that of Theil and Sen (the median of the slopes between all pairs of points), so a few spikes do not make one; its interval
//! is Sen's ("Estimates of the regression coefficient based on Kendall's tau", 1968). The first third of the points is left out: caches and
//! buffers fill then, and are meant to. Neighbouring points resemble each other, so of the others at most [`BLOCKS`] means are looked at.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The number of blocks of points, of which the means are taken.
const BLOCKS: usize = 20;

/// The least number of means that say something.
const FEWEST: usize = 10;

/// The least number of times of which there is a 99th percentile.
const TIMES_OF_A_P99: u64 = 1000;

/// The quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.96;

/// By which share of its median a figure has grown over the points that are looked at; negative where it shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// The estimate.
    pub share: f64,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

/// The growth of points, given as time and value. None of fewer than [`FEWEST`], and of a median of 0.
pub fn of(points: &[(f64, f64)]) -> Option<Growth> {
    let looked_at = &points[points.len() / 3..];
    let block = looked_at.len().div_ceil(BLOCKS).max(1);
    let mean =
        |of: fn(&(f64, f64)) -> f64, points: &[(f64, f64)]| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let means: Vec<_> = looked_at
        .chunks_exact(block)
        .map(|points| (mean(|point| point.0, points), mean(|point| point.1, points)))
        .collect();
    let middle = median(&sorted(means.iter().map(|(_, value)| *value).collect()))?;
    if means.len() < FEWEST || middle <= 0.0 {
        return None;
    }
    let slopes = means.iter().enumerate().flat_map(|(at, from)| {
        let slope = |to: &(f64, f64)| (to.1 - from.1) / (to.0 - from.0);
        means[at + 1..].iter().filter(|to| to.0 > from.0).map(slope)
    });
    let slopes = sorted(slopes.collect());
    let (number, pairs) = (means.len() as f64, slopes.len() as f64);
    let half = Z * (number * (number - 1.0) * (2.0 * number + 5.0) / 18.0).sqrt() / 2.0;
    let at = |rank: f64| slopes.get(rank.clamp(0.0, pairs - 1.0) as usize).copied();
    let scale = (looked_at.last()?.0 - looked_at.first()?.0) / middle;
    let interval = [at((pairs / 2.0 - half).floor())? * scale, at((pairs / 2.0 + half).ceil())? * scale];
    Some(Growth { share: median(&slopes)? * scale, interval })
}

/// The 99th percentile of each slice of a run; none of one with too few times. Where most would have too few, as many neighbours are joined as
/// it takes, if enough of them are left to say something.
pub fn p99_of_slices(slices: &[Histogram<u64>]) -> Vec<Option<u64>> {
    // The last one may have only what ended behind the others.
    let whole = &slices[..slices.len().saturating_sub(1)];
    let number = |joined: &[Histogram<u64>]| joined.iter().map(Histogram::len).sum::<u64>();
    let suffice = |count: &usize| whole.chunks_exact(*count).all(|joined| number(joined) >= TIMES_OF_A_P99);
    // The first third of the points is not looked at.
    let joined = (1..=whole.len() / (FEWEST * 3 / 2)).find(suffice).unwrap_or(1);
    let p99 = |times: Histogram<u64>| (times.len() >= TIMES_OF_A_P99).then(|| times.value_at_quantile(0.99));
    let all = slices.chunks_exact(joined).map(|slices| slices.iter().cloned().reduce(|all, slice| all + slice));
    all.map(|times| times.and_then(p99)).collect()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn points(count: u32, value: impl FnMut(f64) -> f64) -> Vec<(f64, f64)> {
        let times = (0..count).map(f64::from);
        times.clone().zip(times.map(value)).collect()
    }

    fn share(points: &[(f64, f64)]) -> Option<f64> {
        of(points).map(|growth| growth.share)
    }

    #[test]
    fn a_straight_line_has_its_slope() {
        // From the tenth point to the last: 10 to 29, with 19.5 in the middle.
        let grown = of(&points(30, |at| at)).unwrap();
        assert!((grown.share - 19.0 / 19.5).abs() < 1e-9, "{grown:?}");
        assert!(grown.interval.iter().all(|end| (end - grown.share).abs() < 1e-9), "{grown:?}");
        assert_eq!(share(&points(30, |_| 5.0)), Some(0.0));
        assert!(share(&points(30, |at| 100.0 - at)).unwrap() < 0.0);
        // In blocks of two.
        assert!((share(&points(60, |at| at)).unwrap() - 39.0 / 39.5).abs() < 1e-9);
    }

    #[test]
    fn what_fills_at_first_and_a_spike_are_no_growth() {
        assert_eq!(share(&points(30, |at| at.min(10.0))), Some(0.0));
        assert_eq!(share(&points(30, |at| if at == 20.0 { 1e9 } else { 5.0 })), Some(0.0));
    }

    #[test]
    fn a_few_points_say_nothing() {
        assert_eq!(share(&points(13, |at| at)), None);
        assert!(share(&points(15, |at| at)).is_some());
        assert_eq!(share(&[]), None);
        assert_eq!(share(&points(30, |_| 0.0)), None);
    }

    /// Noise of 10 % around a line: the interval has the line's slope in about 19 of 20 cases, and shows one that is large.
    #[test]
    fn the_interval_has_the_slope() {
        let (mut random, mut covered, mut shown) = (Random::new(1), 0, 0);
        for _ in 0..400 {
            let noisy = |slope: f64, random: &mut Random| {
                of(&points(60, |at| 100.0 + slope * at + 20.0 * (random.unit() - 0.5))).unwrap().interval
            };
            let [low, high] = noisy(0.0, &mut random);
            covered += usize::from(low <= 0.0 && 0.0 <= high);
            shown += usize::from(noisy(1.0, &mut random)[0] > 0.0);
        }
        assert!((360..=396).contains(&covered) && shown == 400, "{covered}, {shown}");
    }

    /// Slices of so many times each, the n-th of n ms, and a last one with what ended late.
    fn slices(count: u64, times: u64) -> Vec<Histogram<u64>> {
        let slice = |value: u64, times: u64| {
            let mut slice = Histogram::new(2).unwrap();
            slice.record_n(value, times).unwrap();
            slice
        };
        (1..=count).map(|number| slice(number, times)).chain([slice(count + 1, 3)]).collect()
    }

    #[test]
    fn slices_of_too_few_times_are_joined_if_enough_of_them_are_left() {
        let whole: Vec<_> = (1..=60).map(Some).chain([None]).collect();
        assert_eq!(p99_of_slices(&slices(60, 1000)), whole);
        let thirds: Vec<_> = (1..=20).map(|number| Some(number * 3)).collect();
        assert_eq!(p99_of_slices(&slices(60, 400)), thirds);
        assert_eq!(p99_of_slices(&slices(60, 100)), [None; 61]);
        assert_eq!(p99_of_slices(&slices(3, 400)), [None; 4]);
        assert_eq!(p99_of_slices(&[]), []);
    }
}
