//! Whether a figure grows over a run: what leaks does, and so does what slows down with its age.
//!
//! The slope is that of Theil and Sen (the median of the slopes between all pairs of points), so a few spikes do not make one. The first
//! third of the points is left out: caches and buffers fill then, and are meant to.

/// By which share of its median a figure has grown over the points that are looked at, given as time and value; negative where it
/// shrinks. None of fewer than ten of them, and of a median of 0.
pub fn share(points: &[(f64, f64)]) -> Option<f64> {
    let looked_at = &points[points.len() / 3..];
    let ((first, _), (last, _)) = (looked_at.first()?, looked_at.last()?);
    let slopes = looked_at.iter().enumerate().flat_map(|(at, from)| {
        let slope = |to: &(f64, f64)| (to.1 - from.1) / (to.0 - from.0);
        looked_at[at + 1..].iter().filter(|to| to.0 > from.0).map(slope)
    });
    let slope = median(slopes.collect())?;
    let middle = median(looked_at.iter().map(|(_, value)| *value).collect())?;
    (looked_at.len() >= 10 && middle > 0.0).then(|| slope * (last - first) / middle)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: u32, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..count).map(|at| (f64::from(at), value(f64::from(at)))).collect()
    }

    #[test]
    fn a_straight_line_has_its_slope() {
        // From the tenth point to the last: 10 to 29, with 19.5 in the middle.
        let grown = share(&points(30, |at| at)).unwrap();
        assert!((grown - 19.0 / 19.5).abs() < 1e-9, "{grown}");
        assert_eq!(share(&points(30, |_| 5.0)), Some(0.0));
        assert!(share(&points(30, |at| 100.0 - at)).unwrap() < 0.0);
    }

    #[test]
    fn what_fills_at_first_and_a_spike_are_no_growth() {
        assert_eq!(share(&points(30, |at| at.min(10.0))), Some(0.0));
        assert_eq!(share(&points(30, |at| if at == 20.0 { 1e9 } else { 5.0 })), Some(0.0));
    }

    #[test]
    fn a_few_points_say_nothing() {
        assert_eq!(share(&points(13, |at| at)), None);
        assert!(share(&points(14, |at| at)).is_some());
        assert_eq!(share(&[]), None);
        assert_eq!(share(&points(30, |_| 0.0)), None);
    }
}
