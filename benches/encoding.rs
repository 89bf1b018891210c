//! The bytes of keys and records: from a JSON body to stored bytes and back, beside general codecs on the same record.
//!
//! Parsing checks and coerces a body by the schema; encoding writes the canonical JSON text with its offsets and checksum; opening
//! checks a stored record; reading takes one attribute by offset. The codecs beside it (serde_json, and bincode 2.0.1, which is
//! unmaintained) know neither a schema nor a checksum, and must decode a whole record to read one attribute.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use prepared::{POOL, bodies, schema};
use serde::{Deserialize, Serialize};
use strata::encoding::value::{Value, parse_object};
use strata::encoding::{Record, key, record};
use strata::schema::Schema;
use strata::transaction::Owned;
use strata_harness::data::{self, Id};
use strata_harness::{Data, Facts, Suite, suite};

fn main() {
    suite("encoding", |suite| {
        keys(suite);
        records(suite);
        encode(suite);
        read_attribute(suite);
    });
}

fn facts(op: &str) -> Facts {
    Facts::new(op).data("1024 products of about 1 KB, 8 attributes").state("in memory")
}

fn keys(suite: &mut Suite) {
    let numbers = || Data((0..POOL).map(|index| Value::Float(data::price(index))).collect::<Vec<_>>());
    let texts = || Data((0..POOL).map(|index| Value::Text(data::sku(index).into())).collect::<Vec<_>>());
    let worker = |values: Arc<Data<Vec<Value<'static>>>>| {
        let (id, mut out) = (data::id(7), Vec::new());
        move |index| {
            key::ordered(7, &values[(index % POOL) as usize], &id, &mut out);
            u64::from(black_box(&out).len() > id.len())
        }
    };
    let about = facts("encodes the key of an index entry: a number").allocations_at_most(0);
    suite.row("key", "strata", "number", about, numbers, worker);
    let about = facts("encodes the key of an index entry: a text of 20 bytes").allocations_at_most(0);
    suite.row("key", "strata", "text", about, texts, worker);
}

/// A schema with bodies and the records they become.
struct Products {
    schema: Schema,
    bodies: Vec<Vec<u8>>,
    stored: Vec<Vec<u8>>,
}

fn products() -> Data<Products> {
    let (schema, bodies) = (schema(0), bodies());
    let stored = bodies.iter().map(|body| {
        let mut out = Vec::new();
        prepared::encode(&schema.tables[0], body, &mut out);
        out
    });
    Data(Products { stored: stored.collect(), schema, bodies })
}

fn records(suite: &mut Suite) {
    let about = facts("parses a JSON body by the schema").bytes_per_operation(1050);
    suite.row("parse", "strata", "1_kb", about, products, |products: Arc<Data<Products>>| {
        move |index| {
            let body = &products.bodies[(index % POOL) as usize];
            let fields = parse_object(&products.schema.tables[0], body).expect("a body of the data set");
            u64::from(matches!(black_box(&fields)[1], Some(Value::Text(_))))
        }
    });
    let about = facts("parses a JSON body into serde_json's own tree").bytes_per_operation(1050);
    suite.row("parse", "serde_json", "1_kb", about, products, |products: Arc<Data<Products>>| {
        move |index| {
            let body = &products.bodies[(index % POOL) as usize];
            let tree: serde_json::Value = serde_json::from_slice(body).expect("a body of the data set");
            u64::from(black_box(&tree)["name"].is_string())
        }
    });
    let about = facts("checks a stored record").allocations_at_most(0);
    suite.row("open", "strata", "1_kb", about, products, |products: Arc<Data<Products>>| {
        move |index| {
            let bytes = products.stored[(index % POOL) as usize].as_slice();
            u64::from(black_box(Record::open(&products.schema.tables[0], bytes)).is_ok())
        }
    });
}

/// The product as a general codec sees it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Product {
    name: String,
    category: String,
    price: f64,
    stock: i64,
    in_stock: bool,
    rating: f64,
    description: String,
}

fn product(index: u64) -> Product {
    serde_json::from_slice(&data::product(index, Id::LeftOut)).expect("a body of the data set")
}

fn encode(suite: &mut Suite) {
    let about = facts("encodes the values of a record, with checksum").allocations_at_most(0);
    suite.row("encode", "strata", "1_kb", about, products, |products: Arc<Data<Products>>| {
        let bodies: &'static [Vec<u8>] = Box::leak(bodies().into_boxed_slice());
        let table = products.schema.tables[0].clone();
        let fields: Vec<_> = bodies.iter().map(|body| parse_object(&table, body).expect("a body")).collect();
        let mut out = Vec::with_capacity(2048);
        move |index| {
            let fields = &fields[(index % POOL) as usize];
            let record = record::encode(&table, fields, None::<&Owned<'_>>, &mut out).expect("a record");
            u64::from(black_box(record.json()).len() > 900)
        }
    });
    let plain = || Data((1..=POOL).map(product).collect::<Vec<_>>());
    suite.row(
        "encode",
        "serde_json",
        "1_kb",
        facts("encodes the values of a record as JSON"),
        plain,
        |all: Arc<Data<Vec<Product>>>| {
            let mut out = Vec::with_capacity(2048);
            move |index| {
                out.clear();
                serde_json::to_writer(&mut out, &all[(index % POOL) as usize]).expect("a record");
                u64::from(black_box(&out).len() > 900)
            }
        },
    );
    suite.row(
        "encode",
        "bincode",
        "1_kb",
        facts("encodes the values of a record as bincode"),
        plain,
        |all: Arc<Data<Vec<Product>>>| {
            let mut out = vec![0; 2048];
            move |index| {
                let product = &all[(index % POOL) as usize];
                let bytes = bincode::serde::encode_into_slice(product, &mut out, bincode::config::standard());
                u64::from(black_box(bytes).expect("a record") > 900)
            }
        },
    );
}

fn read_attribute(suite: &mut Suite) {
    let about = facts("checks a stored record and reads one number of it").allocations_at_most(0);
    suite.row("read_attribute", "strata", "1_kb", about, products, |products: Arc<Data<Products>>| {
        let price = products.schema.tables[0].attribute("price").expect("an attribute of the data set");
        move |index| {
            let bytes = products.stored[(index % POOL) as usize].as_slice();
            let record = Record::open(&products.schema.tables[0], bytes).expect("a record");
            u64::from(matches!(black_box(record.value(price)), Ok(Value::Float(_))))
        }
    });
    let json =
        || Data((1..=POOL).map(|index| serde_json::to_vec(&product(index)).expect("a record")).collect::<Vec<_>>());
    let about = facts("decodes a whole record from JSON to read one number");
    suite.row("read_attribute", "serde_json", "1_kb", about, json, |all: Arc<Data<Vec<Vec<u8>>>>| {
        move |index| {
            let product: Product = serde_json::from_slice(&all[(index % POOL) as usize]).expect("a record");
            u64::from(black_box(product.price) > 0.0)
        }
    });
    let binary = || {
        let encode =
            |index| bincode::serde::encode_to_vec(product(index), bincode::config::standard()).expect("a record");
        Data((1..=POOL).map(encode).collect::<Vec<_>>())
    };
    let about = facts("decodes a whole record from bincode to read one number");
    suite.row("read_attribute", "bincode", "1_kb", about, binary, |all: Arc<Data<Vec<Vec<u8>>>>| {
        move |index| {
            let bytes = &all[(index % POOL) as usize];
            let (product, _): (Product, _) =
                bincode::serde::decode_from_slice(bytes, bincode::config::standard()).expect("a record");
            u64::from(black_box(product.price) > 0.0)
        }
    });
}
