//! Slow-downs of known size, one for each of four layers: what has to find slow-downs is tried on them.
//!
//! Only with the feature `plant`; without it neither a call of this module is there nor, but for its own tests, the module.
//! `STRATA_PLANT=indexes:120,storage:40` makes each lookup of an index 120 steps longer and each get 40. A step is a few dependent
//! instructions without memory, so that it costs the same wherever it stands and moves nothing out of a cache.

#![cfg_attr(not(feature = "plant"), expect(dead_code, reason = "its calls are there with the feature alone"))]

use std::hint::black_box;
use std::sync::LazyLock;

/// The layers that have a plant, each at one place: the encoding of a record, a get, a lookup, the search for a route.
const LAYERS: [&str; 4] = ["encoding", "storage", "indexes", "routing"];

/// Runs the steps that are planted in a layer.
///
/// # Panics
/// If `STRATA_PLANT` is not understood.
pub(crate) fn burn(layer: &str) {
    static PLANTED: LazyLock<Vec<(String, u64)>> = LazyLock::new(|| {
        let planted = std::env::var("STRATA_PLANT").unwrap_or_default();
        parse(&planted).unwrap_or_else(|| panic!("STRATA_PLANT: not layer:steps of {LAYERS:?}: {planted:?}"))
    });
    let steps = PLANTED.iter().find(|(name, _)| name == layer).map_or(0, |(_, steps)| *steps);
    black_box(turned(black_box(1), steps));
}

/// Layers and their steps; `None` if the text is not of this form.
fn parse(planted: &str) -> Option<Vec<(String, u64)>> {
    let plants = planted.split(',').filter(|plant| !plant.is_empty()).map(|plant| {
        let (layer, steps) = plant.split_once(':')?;
        Some((LAYERS.contains(&layer).then(|| layer.to_owned())?, steps.parse().ok()?))
    });
    plants.collect()
}

/// A number after so many steps, each of which needs the one before.
fn turned(mut number: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        number = (number ^ (number >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plants_are_named_by_layer() {
        assert_eq!(parse(""), Some(Vec::new()));
        assert_eq!(
            parse("indexes:120,storage:40"),
            Some(vec![("indexes".to_owned(), 120), ("storage".to_owned(), 40)])
        );
        for wrong in ["indices:120", "indexes", "indexes:", "indexes:-1", "indexes:1.5", "indexes=1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_step_is_taken() {
        assert_ne!(turned(1, 99), turned(1, 100));
        assert_eq!(turned(turned(1, 40), 60), turned(1, 100));
    }
}
