//! Data sets: seeded, the same on every machine and in every process, with their sizes asserted.
//!
//! The record of all benches is a product of eight attributes and about 1 KB. Everything about it follows from its index, so that a
//! bench can say what a lookup must find without keeping a list.

use serde::Serialize;

/// Bytes of one record as JSON; asserted.
const RECORD_BYTES: std::ops::RangeInclusive<usize> = 1000..=1100;
/// Bytes of filler text in a record, chosen to reach its size.
const DESCRIPTION_BYTES: usize = 900;
/// Categories in a data set.
pub const CATEGORIES: u64 = 100;

/// The source of a record's id: the record itself, or the server, which gives it one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// The record has the attribute `id`, see [`id`].
    Given,
    /// The record has the seven other attributes only.
    LeftOut,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Product<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    category: String,
    price: f64,
    stock: u64,
    in_stock: bool,
    rating: f64,
    description: &'a str,
}

/// The product number `index` as JSON text of 1000 to 1100 bytes: id, name, category, price (Float), stock (Int), inStock
/// (Boolean), rating (Float) and description.
pub fn product(index: u64, with: Id) -> Vec<u8> {
    let stock = mixed(index, 1) % 1000;
    let product = Product {
        id: (with == Id::Given).then(|| id(index)),
        name: format!("Product {index:08}"),
        category: category(index),
        price: price(index),
        stock,
        in_stock: stock > 0,
        rating: 1.0 + (mixed(index, 2) % 41) as f64 / 10.0,
        description: &description(index),
    };
    let text = serde_json::to_vec(&product).expect("strings and finite numbers are valid JSON");
    assert!(RECORD_BYTES.contains(&text.len()), "a record of {} bytes", text.len());
    text
}

/// The id of product `index`: `prod-` and eight digits.
pub fn id(index: u64) -> String {
    format!("prod-{index:08}")
}

/// The category of product `index`: each block of [`CATEGORIES`] neighbours holds every category once, in scattered order, so n
/// products hold each category exactly n / 100 times where 100 divides n.
pub fn category(index: u64) -> String {
    format!("category-{:02}", scatter(index, CATEGORIES))
}

/// The price of product `index`: evenly distributed over the cents from 1.00 to 1000.99.
pub fn price(index: u64) -> f64 {
    (100 + mixed(index, 3) % 100_000) as f64 / 100.0
}

/// A value of product `index` that no other product has, in an order unlike that of the ids.
pub fn sku(index: u64) -> String {
    format!("sku-{:016x}", mixed(index, 0))
}

/// The description of product `index`, which no other product has: words in no order, so that a compressor finds as much in them as in text.
pub fn description(index: u64) -> String {
    const WORDS: [&str; 16] = [
        "light", "strong", "quiet", "compact", "durable", "simple", "modern", "smooth", "portable", "precise", "warm",
        "fast", "sturdy", "clear", "gentle", "handy",
    ];
    let mut text = String::with_capacity(DESCRIPTION_BYTES + 16);
    for place in 0.. {
        let random = mixed(index, 16 + place);
        text.push_str(WORDS[(random % 16) as usize]);
        text.push(if random & 0x700 == 0 { '.' } else { ' ' });
        if text.len() >= DESCRIPTION_BYTES {
            break;
        }
    }
    text.truncate(DESCRIPTION_BYTES);
    text
}

/// A random number that `index` and `stream` name: splitmix64 (Steele, Lea and Flood, 2014). Within a stream, distinct indexes have
/// distinct numbers.
pub(crate) fn mixed(index: u64, stream: u64) -> u64 {
    let state = index ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let z = state.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A permutation of 0..n, repeated every n indexes: every key comes once a round, in an order that no prefetcher follows. Costs a
/// few nanoseconds; `n` must not be 0.
///
/// Mixes within the next power of two, which is reversible, until it falls below n (cycle walking: fewer than two rounds on
/// average).
#[inline]
pub fn scatter(index: u64, n: u64) -> u64 {
    assert!(n > 0, "there is no permutation of nothing");
    let bits = u64::BITS - (n - 1).leading_zeros();
    let (mask, half) = ((1u64 << bits) - 1, bits / 2 + 1);
    let mut x = index % n;
    loop {
        x = (x ^ 0x2545_f491_4f6c_dd1d).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        x = ((x ^ (x >> half)).wrapping_mul(0xbf58_476d_1ce4_e5b9)) & mask;
        x ^= x >> half;
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_product_is_what_it_always_was() {
        let text = String::from_utf8(product(7, Id::Given)).unwrap();
        let start = r#"{"id":"prod-00000007","name":"Product 00000007","category":"#;
        assert!(text.starts_with(start), "{text}");
        let fingerprint = |with| product(7, with).iter().fold(0u64, |sum, byte| mixed(sum ^ u64::from(*byte), 9));
        assert_eq!(
            (fingerprint(Id::Given), fingerprint(Id::LeftOut)),
            (3_523_429_077_337_855_268, 1_958_285_618_225_363_974)
        );
    }

    #[test]
    fn a_product_has_eight_attributes_of_the_declared_types() {
        for index in (0..10_000).chain([u64::from(u32::MAX)]) {
            let given: BTreeMap<String, serde_json::Value> =
                serde_json::from_slice(&product(index, Id::Given)).unwrap();
            assert_eq!(given.len(), 8);
            assert!(given["price"].is_f64() && given["rating"].is_f64() && given["stock"].is_u64());
            assert_eq!(given["inStock"], given["stock"] != 0);
            let left_out: BTreeMap<String, serde_json::Value> =
                serde_json::from_slice(&product(index, Id::LeftOut)).unwrap();
            assert_eq!(left_out.len(), 7);
        }
    }

    #[test]
    fn categories_are_exactly_even_and_skus_distinct() {
        let mut counts = BTreeMap::new();
        (0..1000).for_each(|index| *counts.entry(category(index)).or_insert(0) += 1);
        assert_eq!(counts.len() as u64, CATEGORIES);
        assert!(counts.values().all(|count| *count == 10));
        assert_eq!((0..10_000).map(sku).collect::<BTreeSet<_>>().len(), 10_000);
        assert!((0..10_000).map(price).all(|price| (1.0..1001.0).contains(&price)));
    }

    #[test]
    fn scatter_is_a_permutation_out_of_order() {
        for n in (1..300).chain([1000, 4096, 99_991]) {
            let round: BTreeSet<u64> = (0..n).map(|index| scatter(index, n)).collect();
            assert_eq!((round.len() as u64, round.last()), (n, Some(&(n - 1))));
            assert_eq!(scatter(n + 3, n), scatter(3, n));
        }
        let neighbours =
            (0..9999).filter(|index| scatter(*index, 10_000).abs_diff(scatter(index + 1, 10_000)) <= 1).count();
        assert!(neighbours < 20, "{neighbours} of 9999 steps go to a neighbour");
    }
}
