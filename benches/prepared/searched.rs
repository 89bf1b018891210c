//! The products with keywords, in a store with a composite index of category and price and a full-text index of the keywords.
//!
//! The keywords of a record follow from its number, so that a bench can compute what a search must find. The composite index and the
//! full-text index are the only ones.

use strata::schema::{Index, IndexKind, Schema, Table};
use strata_harness::data::{self, Id, scatter};
use tempfile::TempDir;

use super::{Ours, copy_of, create_all, options, template};
use crate::floor::Raw;

/// Keywords of a product.
pub const KEYWORDS: u64 = 12;
/// All distinct keywords.
const VOCABULARY: u64 = 500;
/// Keywords repeat after this many products.
const PERIOD: u64 = 125;

pub fn schema() -> Schema {
    let sdl = "type Product @table @export @compositeIndex(fields: [\"category\", \"price\"]) {
        id: ID @primaryKey
        name: String!
        category: String
        price: Float
        stock: Int
        inStock: Boolean
        rating: Float
        description: String
        keywords: String @indexed(type: \"fulltext\")
    }";
    Schema::parse(sdl).expect("the schema of the data set with keywords")
}

/// The index of a kind.
pub fn index(table: &Table, kind: IndexKind) -> &Index {
    table.indexes.iter().find(|index| index.kind == kind).expect("an index of the store")
}

/// One of the keywords of a product.
fn keyword(product: u64, place: u64) -> String {
    format!("word{:03}", scatter(product * KEYWORDS + place, VOCABULARY))
}

/// All of them, as the text of the attribute.
pub fn keywords(product: u64) -> String {
    (0..KEYWORDS).map(|place| keyword(product, place)).collect::<Vec<_>>().join(", ")
}

/// Two keywords of a product: every 125th product has both, and three times as many have each.
pub fn two_keywords(product: u64) -> [String; 2] {
    [keyword(product, 0), keyword(product, 9)]
}

/// Returns the number of products, out of `n`, that have two such keywords.
pub fn have_both(n: u64) -> u64 {
    let [one, other] = two_keywords(0);
    let having = (0..PERIOD).filter(|product| [&one, &other].iter().all(|word| keywords(*product).contains(*word)));
    assert_eq!((having.count(), n % PERIOD), (1, 0));
    n / PERIOD
}

fn product(number: u64) -> Vec<u8> {
    let mut body = data::product(number, Id::Given);
    body.pop();
    body.extend_from_slice(format!(",\"keywords\":\"{}\"}}", keywords(number)).as_bytes());
    body
}

fn copy(n: u64) -> TempDir {
    copy_of(&template(&format!("products-{n}-searched"), schema, &options(), |database| {
        create_all(database, (0..n).map(product));
    }))
}

/// A copy of the store with this many records, in SST files that are in the cache.
pub fn ours(n: u64) -> Ours {
    Ours::open(copy(n), schema()).warmed()
}

/// The same copy, opened raw.
pub fn raw(n: u64) -> Raw {
    Raw::open(copy(n), options().cache_bytes).warmed()
}
