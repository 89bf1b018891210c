//! The products and their categories, each a record, in a store whose only index is that of the foreign key.
//!
//! The content of a list follows from the numbers of its products, so that a bench can compute the expected answer.

use std::sync::OnceLock;

use strata::encoding::Record;
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata_harness::OrRefused;
use strata_harness::data::{self, CATEGORIES, Id, scatter};

use super::{Ours, copy_of, encode, fill, options, template};

/// The number of records in a list.
pub const LISTED: u64 = 100;
/// Lists that are made beforehand and requested in turn.
const LISTS: u64 = 64;

/// The part of each of its records that a list returns.
#[derive(Clone, Copy)]
pub struct Shown {
    pub case: &'static str,
    /// The clause of a query, with the `&` before it.
    pub select: &'static str,
    /// The text of a record.
    text: fn(u64) -> String,
}

/// No `select`: the record as it is stored.
pub const RECORD: Shown = Shown { case: "none", select: "", text: stored };
/// All attributes, by `*`.
pub const STAR: Shown = Shown { case: "star", select: "&select=*", text: stored };
pub const TWO_ATTRIBUTES: Shown = Shown {
    case: "2_attributes",
    select: "&select=id,name",
    text: |number| format!("{{\"id\":\"{}\",\"name\":\"{}\"}}", data::id(number), name(number)),
};
/// Two attributes, and two of the related record.
pub const NESTED: Shown = Shown {
    case: "nested",
    select: "&select=id,name,shelf{id,title}",
    text: |number| {
        let (category, title) = (data::category(number), title(number));
        let shelf = format!("{{\"id\":\"{category}\",\"title\":\"{title}\"}}");
        format!("{{\"id\":\"{}\",\"name\":\"{}\",\"shelf\":{shelf}}}", data::id(number), name(number))
    },
};

impl Shown {
    /// The first product of each list, and the list as JSON.
    pub fn lists(self, n: u64) -> Vec<(u64, String)> {
        let list = |turn| {
            let first = scatter(turn, n - LISTED);
            let texts: Vec<String> = (first..first + LISTED).map(self.text).collect();
            (first, format!("[{}]", texts.join(",")))
        };
        (0..LISTS).map(list).collect()
    }

    /// The query of a list.
    pub fn query(self, first: u64) -> String {
        format!("id=ge={}&sort=id&limit={LISTED}{}", data::id(first), self.select)
    }
}

pub fn schema() -> Schema {
    let sdl = "type Product @table @export {
        id: ID @primaryKey
        name: String!
        category: ID @indexed(type: \"hash\")
        price: Float
        stock: Int
        inStock: Boolean
        rating: Float
        description: String
        shelf: Category @relationship(from: \"category\")
    }
    type Category @table @export {
        id: ID @primaryKey
        title: String!
        products: [Product] @relationship(to: \"category\")
    }";
    Schema::parse(sdl).expect("the schema of the data set with categories")
}

fn name(product: u64) -> String {
    format!("Product {product:08}")
}

/// The title of a product's category, which is unique.
pub fn title(product: u64) -> String {
    data::category(product).replace("category-", "Shelf ")
}

/// The stored JSON of a product.
fn stored(product: u64) -> String {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let table = &SCHEMA.get_or_init(schema).tables[0];
    let mut bytes = Vec::new();
    encode(table, &data::product(product, Id::Given), &mut bytes);
    let record = Record::open(table, bytes).expect("encoded just now");
    String::from_utf8(record.json().to_vec()).expect("JSON is text")
}

/// A copy of the store with this many products, in SST files that are in the cache.
pub fn ours(n: u64) -> Ours {
    let copy = copy_of(&template(&format!("products-{n}-joined"), schema, &options(), |database| {
        fill(database, 0..n);
        let category = |number| format!("{{\"id\":\"{}\",\"title\":\"{}\"}}", data::category(number), title(number));
        let all = format!("[{}]", (0..CATEGORIES).map(category).collect::<Vec<_>>().join(","));
        let table = database.table("Category").expect("a table of the schema");
        database.create_all(table, all.as_bytes()).or_refused();
    }));
    Ours::open(copy, schema()).warmed()
}

/// A query on the products; its text lives as long as the process.
pub fn parsed(ours: &Ours, text: String) -> Query<'static> {
    let limits = Limits::in_url(10_000);
    Query::parse(ours.database.schema(), ours.product(), text.leak(), &limits).expect("a query of the grammar")
}
