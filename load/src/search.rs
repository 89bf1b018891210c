//! The highest rate that is still good enough: doubled until it is not, then by bisection.
//!
//! The result is a bracket, not a number: the highest rate that was good and the lowest that was not.

/// Between what was found good and what was not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest rate that was good; none if none was.
    pub good: Option<f64>,
    /// The lowest rate that was not; none if all were good.
    pub bad: Option<f64>,
}

/// No search goes beyond this rate, or below one request a second.
const HIGHEST: f64 = 1e7;

/// Searches from a first rate on, until the bracket's ends are within this share of each other.
pub fn highest<E>(first: f64, width: f64, mut is_good: impl FnMut(f64) -> Result<bool, E>) -> Result<Bracket, E> {
    let (mut bracket, mut rate) = (Bracket { good: None, bad: None }, first);
    loop {
        match is_good(rate)? {
            true => bracket.good = Some(rate),
            false => bracket.bad = Some(rate),
        }
        rate = match (bracket.good, bracket.bad) {
            (Some(good), Some(bad)) if bad / good <= 1.0 + width => return Ok(bracket),
            (Some(good), Some(bad)) => (good * bad).sqrt(),
            (Some(good), None) if good * 2.0 <= HIGHEST => good * 2.0,
            (None, Some(bad)) if bad / 2.0 >= 1.0 => bad / 2.0,
            _ => return Ok(bracket),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(first: f64, limit: f64) -> (Bracket, usize) {
        let mut probes = 0;
        let found = highest::<()>(first, 0.05, |rate| {
            probes += 1;
            Ok(rate <= limit)
        });
        (found.unwrap(), probes)
    }

    #[test]
    fn the_bracket_holds_the_limit_and_is_narrow() {
        for (first, limit) in [(100.0, 12_345.0), (100.0, 99.0), (1.0, 1.0), (50_000.0, 3.0), (1000.0, 1000.0)] {
            let (Bracket { good: Some(good), bad: Some(bad) }, probes) = search(first, limit) else { panic!() };
            assert!(good <= limit && limit < bad && bad / good <= 1.05, "{limit}: {good} to {bad}");
            assert!(probes <= 25, "{limit}: {probes}");
        }
    }

    #[test]
    fn where_all_or_nothing_is_good_one_end_is_open() {
        assert!(matches!(search(100.0, 1e9).0, Bracket { good: Some(_), bad: None }));
        assert!(matches!(search(100.0, 0.0).0, Bracket { good: None, bad: Some(_) }));
    }

    #[test]
    fn what_fails_ends_it() {
        assert_eq!(highest(1.0, 0.05, |_| Err::<bool, _>("why")), Err("why"));
    }
}
