//! When requests should start: closed forms, from a shape to the time of its k-th arrival.
//!
//! A schedule is pieces of linear rate. With L(t) the arrivals expected until t, arrival k is at the t where L(t) = k; nothing is
//! accumulated, so no error is. A Poisson process is the same with k replaced by a sum of exponential times (time change). So what is
//! left of a schedule is counted without making it, however much it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Requests a second at most: one each nanosecond, the unit of times.
const MOST: f64 = 1e9;

/// So little is left out at the end of a schedule that a sum of its pieces which should be whole is.
const ROUNDING: f64 = 1e-6;

/// A shape of load over time; rates are in requests a second, times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase", deny_unknown_fields)]
pub enum Schedule {
    /// One rate.
    Constant {
        /// Requests a second.
        rate: f64,
        /// The duration.
        seconds: f64,
    },
    /// From one rate to the next in straight lines, each as long as the others.
    Ramp {
        /// At least two.
        rates: Vec<f64>,
        /// The total duration.
        seconds: f64,
    },
    /// One rate after the other, each as long as the others.
    Step {
        /// At least one.
        rates: Vec<f64>,
        /// The total duration.
        seconds: f64,
    },
    /// In each period first a burst, then the base rate.
    Burst {
        /// During a burst.
        rate: f64,
        /// Between bursts.
        base: f64,
        /// The duration of a burst.
        burst_seconds: f64,
        /// From burst to burst.
        period_seconds: f64,
        /// The total duration.
        seconds: f64,
    },
    /// One rate, and over time nothing may grow.
    Sustained {
        /// Requests a second.
        rate: f64,
        /// The duration.
        seconds: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: f64,
    seconds: f64,
    from: f64,
    to: f64,
}

impl Piece {
    fn arrivals(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// Returns the number of arrivals until a time of the schedule.
    fn until(&self, time: f64) -> f64 {
        let into = (time - self.start).max(0.0);
        let slope = (self.to - self.from) / self.seconds;
        if into >= self.seconds { self.arrivals() } else { (self.from + slope * into / 2.0) * into }
    }

    /// When so many arrivals of this piece have been: from t + slope t^2 / 2 = count, written so that no digits cancel.
    fn time_of(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        match self.from + root {
            0.0 => self.start,
            sum => self.start + (2.0 * count / sum).min(self.seconds),
        }
    }
}

impl Schedule {
    /// Why it cannot be run, with the key that is wrong.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let seconds = self.seconds();
        let (rates, least) = match self {
            Self::Constant { rate, .. } | Self::Sustained { rate, .. } => (vec![*rate], 1),
            Self::Ramp { rates, .. } => (rates.clone(), 2),
            Self::Step { rates, .. } => (rates.clone(), 1),
            Self::Burst { rate, base, burst_seconds, period_seconds, .. } => {
                if !(*burst_seconds > 0.0 && period_seconds >= burst_seconds) {
                    return Some(("burst_seconds", "it must be above 0 and not above period_seconds"));
                }
                if *period_seconds > 1e6 || seconds / period_seconds > 1e6 {
                    return Some(("period_seconds", "at most a million seconds, and at most a million periods"));
                }
                (vec![*rate, *base], 2)
            }
        };
        if rates.len() < least || !rates.iter().all(|rate| (0.0..=MOST).contains(rate)) {
            return Some(("rate", "rates must be numbers from 0 to 1e9, one for a step, two for a ramp, or more"));
        }
        if !(0.001..=1e6).contains(&seconds) {
            return Some(("seconds", "from a thousandth to a million"));
        }
        (self.arrivals() < 1.0).then_some(("rate", "no request would ever start"))
    }

    /// Returns the time for which arrivals go on.
    pub fn seconds(&self) -> f64 {
        match self {
            Self::Constant { seconds, .. }
            | Self::Ramp { seconds, .. }
            | Self::Step { seconds, .. }
            | Self::Burst { seconds, .. }
            | Self::Sustained { seconds, .. } => *seconds,
        }
    }

    /// The same shape with another length.
    pub fn lasting(mut self, length: f64) -> Self {
        match &mut self {
            Self::Constant { seconds, .. }
            | Self::Ramp { seconds, .. }
            | Self::Step { seconds, .. }
            | Self::Burst { seconds, .. }
            | Self::Sustained { seconds, .. } => *seconds = length,
        }
        self
    }

    /// The arrivals expected in all: the area under the rate.
    pub fn arrivals(&self) -> f64 {
        self.pieces().iter().map(Piece::arrivals).sum()
    }

    /// The number of arrivals of the schedule that is not random: k from 0 while k is below the area.
    pub fn planned(&self) -> u64 {
        (self.arrivals() - ROUNDING).ceil().max(0.0) as u64
    }

    /// The times of all arrivals from the start, in order; a seed makes them a Poisson process.
    pub fn times(&self, poisson: Option<u64>) -> Times {
        let mut random = poisson.map(Random::new);
        let count = random.as_mut().map_or(0.0, Random::exponential);
        Times { pieces: self.pieces(), piece: 0, before: 0.0, count, end: self.arrivals() - ROUNDING, random }
    }

    /// The time of the last arrival of the schedule that is not random; none where there is none.
    pub fn last(&self) -> Option<Duration> {
        let count = self.planned().checked_sub(1)? as f64;
        Times { count, ..self.times(None) }.next()
    }

    fn pieces(&self) -> Vec<Piece> {
        match self {
            Self::Constant { rate, seconds } | Self::Sustained { rate, seconds } => {
                vec![Piece { start: 0.0, seconds: *seconds, from: *rate, to: *rate }]
            }
            Self::Ramp { rates, seconds } => {
                let each = seconds / (rates.len() - 1) as f64;
                let piece = |(at, pair): (usize, &[f64])| Piece {
                    start: at as f64 * each,
                    seconds: each,
                    from: pair[0],
                    to: pair[1],
                };
                rates.windows(2).enumerate().map(piece).collect()
            }
            Self::Step { rates, seconds } => {
                let each = seconds / rates.len() as f64;
                let piece = |(at, rate): (usize, &f64)| Piece {
                    start: at as f64 * each,
                    seconds: each,
                    from: *rate,
                    to: *rate,
                };
                rates.iter().enumerate().map(piece).collect()
            }
            Self::Burst { rate, base, burst_seconds, period_seconds, seconds } => {
                let mut pieces = Vec::new();
                let mut start = 0.0;
                while start < *seconds {
                    for (offset, end, rate) in [(0.0, *burst_seconds, *rate), (*burst_seconds, *period_seconds, *base)]
                    {
                        let length = (start + end).min(*seconds) - (start + offset);
                        if length > 0.0 {
                            pieces.push(Piece { start: start + offset, seconds: length, from: rate, to: rate });
                        }
                    }
                    start += period_seconds;
                }
                pieces
            }
        }
    }
}

/// The times of arrivals that are still to come.
#[derive(Debug)]
pub struct Times {
    pieces: Vec<Piece>,
    /// The piece in which the next one is, or a piece before it.
    piece: usize,
    /// Arrivals of the pieces before that one.
    before: f64,
    /// Arrivals that are expected before the next one.
    count: f64,
    end: f64,
    random: Option<Random>,
}

impl Iterator for Times {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.count >= self.end {
            return None;
        }
        while self.piece + 1 < self.pieces.len() && self.count - self.before >= self.pieces[self.piece].arrivals() {
            self.before += self.pieces[self.piece].arrivals();
            self.piece += 1;
        }
        let time = self.pieces[self.piece].time_of(self.count - self.before);
        self.count += self.random.as_mut().map_or(1.0, Random::exponential);
        Some(Duration::from_secs_f64(time))
    }
}

impl Times {
    /// Returns the number of arrivals still to come in each second of the schedule, where only every `each`-th counts; of a Poisson process
    /// as many as its rate has.
    pub fn by_second(mut self, each: u64) -> Vec<u64> {
        let end = self.pieces.last().map_or(0.0, |piece| piece.start + piece.seconds);
        let mut passed = 0;
        let mut count = |second: u64| {
            let time = second as f64;
            while self.pieces.get(self.piece + 1).is_some_and(|next| next.start <= time) {
                self.before += self.pieces[self.piece].arrivals();
                self.piece += 1;
            }
            let until = self.before + self.pieces[self.piece].until(time);
            let now = ((until - ROUNDING).ceil() - self.count).max(0.0) as u64 / each;
            let more = now.saturating_sub(passed);
            passed += more;
            more
        };
        (1..=end.ceil() as u64).map(&mut count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(schedule: &Schedule) -> Vec<f64> {
        schedule.times(None).map(|time| time.as_secs_f64()).collect()
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let schedule = Schedule::Constant { rate: 4.0, seconds: 1.0 };
        assert_eq!(seconds(&schedule), [0.0, 0.25, 0.5, 0.75]);
        assert_eq!(schedule.planned(), 4);
    }

    #[test]
    fn a_ramp_follows_the_square_root() {
        let schedule = Schedule::Ramp { rates: vec![0.0, 100.0], seconds: 10.0 };
        let times = seconds(&schedule);
        assert_eq!(times.len(), 500);
        for (k, time) in times.iter().enumerate() {
            assert!((time - (k as f64 / 5.0).sqrt()).abs() < 1e-6, "{k}: {time}");
        }
    }

    #[test]
    fn bursts_and_steps_have_their_counts_in_their_places() {
        let burst =
            Schedule::Burst { rate: 500.0, base: 10.0, burst_seconds: 10.0, period_seconds: 60.0, seconds: 120.0 };
        let times = seconds(&burst);
        let within = |from: f64, to: f64| times.iter().filter(|time| (from..to).contains(*time)).count();
        assert_eq!((within(0.0, 10.0), within(10.0, 60.0), within(60.0, 70.0)), (5000, 500, 5000));
        let step = Schedule::Step { rates: vec![10.0, 0.0, 20.0], seconds: 3.0 };
        let times = seconds(&step);
        assert_eq!(times.len(), 30);
        assert!(times.iter().all(|time| !(1.0..2.0).contains(time)));
    }

    #[test]
    fn a_poisson_process_has_the_rate_and_follows_from_its_seed() {
        let schedule = Schedule::Constant { rate: 1000.0, seconds: 10.0 };
        let times = |seed| schedule.times(Some(seed)).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        assert!(times(1).len().abs_diff(10_000) < 500);
        assert!(times(1).is_sorted());
    }

    #[test]
    fn what_is_left_is_counted_as_if_it_were_made() {
        for schedule in [
            Schedule::Constant { rate: 100.0, seconds: 2.5 },
            Schedule::Ramp { rates: vec![0.0, 30.0, 5.0], seconds: 7.0 },
            Schedule::Step { rates: vec![10.0, 0.0, 20.5], seconds: 3.3 },
            Schedule::Burst { rate: 40.0, base: 0.0, burst_seconds: 0.25, period_seconds: 0.75, seconds: 4.0 },
        ] {
            let all = schedule.times(None).collect::<Vec<_>>();
            assert_eq!((all.len() as u64, all.last().copied()), (schedule.planned(), schedule.last()));
            for (taken, each) in [(0, 1), (1, 1), (7, 3), (all.len() - 1, 2), (all.len(), 1)] {
                let mut left = schedule.times(None);
                left.by_ref().take(taken).for_each(drop);
                let mut expected = vec![0; schedule.seconds().ceil() as usize];
                let counted = all[taken..].iter().skip(each - 1).step_by(each);
                counted.for_each(|time| expected[time.as_secs() as usize] += 1);
                assert_eq!(left.by_second(each as u64), expected, "{schedule:?} after {taken}");
            }
        }
        let whole = Schedule::Constant { rate: 1e9, seconds: 1e6 };
        let left = whole.times(None).by_second(1);
        assert_eq!((left.len(), left.iter().sum::<u64>()), (1_000_000, whole.planned()));
        let mut poisson = Schedule::Constant { rate: 1000.0, seconds: 10.0 }.times(Some(1));
        poisson.by_ref().take(3000).for_each(drop);
        assert!(poisson.by_second(1).iter().sum::<u64>().abs_diff(7000) < 300);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let burst = |period_seconds, seconds| Schedule::Burst {
            rate: 1.0,
            base: 0.0,
            burst_seconds: 1e-4,
            period_seconds,
            seconds,
        };
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e18] {
            for schedule in [
                Schedule::Constant { rate: wrong, seconds: 10.0 },
                Schedule::Sustained { rate: 10.0, seconds: wrong },
                Schedule::Ramp { rates: vec![1.0, wrong], seconds: 10.0 },
                Schedule::Step { rates: vec![wrong, 1.0], seconds: 10.0 },
                Schedule::Burst { rate: 9.0, base: wrong, burst_seconds: 1.0, period_seconds: 2.0, seconds: 9.0 },
                Schedule::Burst { rate: 9.0, base: 1.0, burst_seconds: wrong, period_seconds: 2.0, seconds: 9.0 },
            ] {
                assert!(schedule.fault().is_some(), "{schedule:?}");
            }
        }
        for schedule in [
            burst(f64::INFINITY, 1e5),
            burst(f64::NAN, 1e5),
            burst(1e-3, 1e5),
            Schedule::Constant { rate: -1.0, seconds: 1.0 },
            Schedule::Constant { rate: 1.0, seconds: 0.0 },
            Schedule::Constant { rate: 0.0, seconds: 9.0 },
            Schedule::Ramp { rates: vec![1.0], seconds: 1.0 },
            Schedule::Step { rates: vec![], seconds: 1.0 },
            Schedule::Burst { rate: 1.0, base: 0.0, burst_seconds: 2.0, period_seconds: 1.0, seconds: 9.0 },
        ] {
            assert!(schedule.fault().is_some(), "{schedule:?}");
        }
    }
}
