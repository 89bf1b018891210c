//! Encoding keys and records: from a JSON body to stored bytes and back, against general codecs on the same record.
//!
//! Parsing checks and coerces a body against the schema; encoding writes the canonical JSON text with its offsets and checksum; opening
//! checks a stored record; decoding reads all of it into a struct; reading takes one attribute by offset. The other codecs (bincode 2.0.1,
//! which is unmaintained; serde_json; rmp-serde; ciborium) have neither a schema nor a checksum, and search for an attribute from the
//! front. Bytes are those of the encoded record. Decoding returns everything that was encoded, which is verified before timing; a timed
//! operation asserts the length of what it wrote, or a value that it read. A key takes a few nanoseconds, so an operation handles 64 of
//! them, and `driver` is the same loop without them.

#[path = "encoding/codecs.rs"]
mod codecs;
mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use codecs::{CODECS, Codec, Product};
use prepared::{POOL, schema};
use strata::encoding::body::parse_object;
use strata::encoding::value::Value;
use strata::encoding::{Record, key, record};
use strata::schema::{Schema, Table};
use strata::transaction::Owned;
use strata_harness::data::{self, Id};
use strata_harness::{Data, Facts, Suite, Unit, suite};

fn main() {
    suite("encoding", |suite| {
        keys(suite);
        bodies(suite);
        ours(suite);
        for codec in &CODECS {
            theirs(suite, codec);
        }
    });
}

fn facts(op: impl Into<String>) -> Facts {
    Facts::new(op).data("1024 products of about 1 KB, 8 attributes").state("in memory")
}

/// Keys per operation: a single one takes so few nanoseconds that the loop around it would dominate.
const KEYS: u64 = 64;

/// Applies `right` to each value of an operation; returns how often it held.
fn each<T>(values: &[T], index: u64, mut right: impl FnMut(&T) -> bool) -> u64 {
    let numbers = index * KEYS..(index + 1) * KEYS;
    numbers.map(|number| u64::from(right(black_box(&values[(number % POOL) as usize])))).sum()
}

type Values = Data<Vec<Value<'static>>>;

fn keys(suite: &mut Suite) {
    let facts = |op: &str| facts(format!("{KEYS} times: {op}")).unit(Unit::Elements, KEYS).allocations_at_most(0);
    let numbers = || Data((0..POOL).map(|index| Value::Float(data::price(index))).collect::<Vec<_>>());
    let texts = || Data((0..POOL).map(|index| Value::Text(data::sku(index).into())).collect::<Vec<_>>());
    let encode = |values: Arc<Values>| {
        let (id, mut out) = (data::id(7), Vec::new());
        move |index| {
            each(&values, index, |value| {
                key::ordered(7, value, &id, &mut out);
                black_box(&out).len() > id.len()
            })
        }
    };
    let nothing = |values: Arc<Values>| move |index| each(&values, index, |value| !matches!(value, Value::Null));
    for (case, op, values) in [("number", "a number", numbers as fn() -> Values), ("text", "a text of 20 bytes", texts)]
    {
        let about = facts(&format!("encodes the key of an index entry: {op}")).against(format!("key/driver/{case}"));
        suite.row("key", "strata", case, about, values, encode);
        let about = facts("visits a value without encoding a key: the cost of the loop");
        suite.row("key", "driver", case, about, values, nothing);
    }
    let entries = |values: &Values| {
        let entry = |(index, value)| {
            let mut entry = Vec::new();
            key::ordered(7, value, &data::id(index), &mut entry);
            (entry, data::id(index))
        };
        (0..).zip(values.iter()).map(entry).collect::<Vec<_>>()
    };
    let about = facts("extracts the id from the key of an index entry: a text of 20 bytes");
    let about = about.against("key_decode/driver/text");
    suite.row("key_decode", "strata", "text", about, texts, |values: Arc<Values>| {
        let entries = entries(&values);
        move |index| {
            each(&entries, index, |(entry, id)| {
                let before_id = key::bytes_before_id(black_box(entry), 1).expect("an entry of an ordered index");
                entry[before_id..] == *id.as_bytes()
            })
        }
    });
    let about = facts("visits an entry whose id is known: the cost of the loop");
    suite.row("key_decode", "driver", "text", about, texts, |values: Arc<Values>| {
        let entries = entries(&values);
        let before_id = key::bytes_before_id(&entries[0].0, 1).expect("an entry of an ordered index");
        move |index| each(&entries, index, |(entry, id)| black_box(entry)[before_id..] == *id.as_bytes())
    });
}

/// A schema with products, their bodies and their stored records.
struct Products {
    schema: Schema,
    products: Vec<Product>,
    bodies: Vec<Vec<u8>>,
    stored: Vec<Vec<u8>>,
}

impl Products {
    fn new() -> Data<Self> {
        let schema = schema(0);
        let bodies: Vec<_> = (1..=POOL).map(|index| data::product(index, Id::Given)).collect();
        let stored = bodies.iter().map(|body| {
            let mut out = Vec::new();
            prepared::encode(&schema.tables[0], body, &mut out);
            out
        });
        let (stored, products) = (stored.collect(), (1..=POOL).map(Product::new).collect());
        Data(Self { stored, products, bodies, schema })
    }

    fn table(&self) -> &Table {
        &self.schema.tables[0]
    }
}

/// The mean size of encoded records, in bytes.
fn mean(encoded: &[Vec<u8>]) -> u64 {
    encoded.iter().map(Vec::len).sum::<usize>() as u64 / encoded.len() as u64
}

fn bodies(suite: &mut Suite) {
    let bytes = mean(&Products::new().bodies);
    let about =
        facts("parses a JSON body against the schema").bytes_per_operation(bytes).against("parse/serde_json/1_kb");
    suite.row("parse", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        move |index| {
            let body = &products.bodies[(index % POOL) as usize];
            let fields = parse_object(products.table(), body).expect("a body of the data set");
            u64::from(matches!(black_box(&fields).values()[1], Some(Value::Text(_))))
        }
    });
    let about = facts("parses a JSON body into a serde_json::Value").bytes_per_operation(bytes);
    suite.row("parse", "serde_json", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        move |index| {
            let body = &products.bodies[(index % POOL) as usize];
            let tree: serde_json::Value = serde_json::from_slice(body).expect("a body of the data set");
            u64::from(black_box(&tree)["name"].is_string())
        }
    });
}

fn ours(suite: &mut Suite) {
    let bytes = mean(&Products::new().stored);
    let facts = |op| facts(op).bytes_per_operation(bytes);
    let about = facts("checks a stored record").allocations_at_most(0);
    suite.row("open", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        move |index| {
            let bytes = products.stored[(index % POOL) as usize].as_slice();
            u64::from(black_box(Record::open(products.table(), bytes)).is_ok())
        }
    });
    let about = beside_all(facts("encodes the values of a record, with checksum"), "encode").allocations_at_most(0);
    suite.row("encode", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        let bodies: &'static [Vec<u8>] = Box::leak(products.bodies.clone().into_boxed_slice());
        let table: &'static _ = Box::leak(Box::new(products.table().clone()));
        let fields: Vec<_> = bodies.iter().map(|body| parse_object(table, body).expect("a body")).collect();
        let mut out = Vec::with_capacity(2048);
        move |index| {
            let place = (index % POOL) as usize;
            let record = record::encode(&fields[place], None::<&Owned<'_>>, &mut out).expect("a record");
            u64::from(black_box(record.bytes()).len() == products.stored[place].len())
        }
    });
    let about = facts("encodes a JSON body as a record in one pass, with checksum").allocations_at_most(0);
    suite.row("encode_body", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        let mut out = Vec::with_capacity(2048);
        move |index| {
            let place = (index % POOL) as usize;
            let given = |_: &mut Vec<u8>| unreachable!("every body has its id");
            let record = record::encode_body(products.table(), &products.bodies[place], given, &mut out);
            u64::from(record.is_some_and(|record| black_box(record.bytes()).len() == products.stored[place].len()))
        }
    });
    let about = beside_all(facts("checks a stored record and decodes all of it"), "decode");
    suite.row("decode", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        let decode = |products: &Products, place: usize| {
            decoded(&Record::open(products.table(), products.stored[place].as_slice()).expect("a record").view())
        };
        (0..POOL as usize).for_each(|place| assert_eq!(decode(&products, place), products.products[place]));
        move |index| {
            let place = (index % POOL) as usize;
            u64::from(black_box(decode(&products, place)).price == products.products[place].price)
        }
    });
    let about = facts("checks a stored record and reads one number from it").allocations_at_most(0);
    let about = beside_all(about, "read_attribute");
    suite.row("read_attribute", "strata", "1_kb", about, Products::new, |products: Arc<Data<Products>>| {
        let price = products.table().attribute("price").expect("an attribute of the data set");
        move |index| {
            let place = (index % POOL) as usize;
            let bytes = products.stored[place].as_slice();
            let record = Record::open(products.table(), bytes).expect("a record");
            u64::from(matches!(black_box(record.value(price)), Ok(Value::Float(number)) if number == products.products[place].price))
        }
    });
}

/// Compared with every general codec.
fn beside_all(about: Facts, operation: &str) -> Facts {
    CODECS.iter().fold(about, |about, codec| about.against(format!("{operation}/{}/1_kb", codec.subject)))
}

/// All attributes of a record, in schema order.
fn decoded(record: &Record<'_, &[u8]>) -> Product {
    let text = |attribute| match record.value(attribute) {
        Ok(Value::Text(text)) => text.into_owned(),
        other => panic!("a text, not {other:?}"),
    };
    let float = |attribute| match record.value(attribute) {
        Ok(Value::Float(number)) => number,
        other => panic!("a float, not {other:?}"),
    };
    let (Ok(Value::Int(stock)), Ok(Value::Boolean(in_stock))) = (record.value(4), record.value(5)) else {
        panic!("an integer and a truth value")
    };
    Product {
        id: text(0),
        name: text(1),
        category: text(2),
        price: float(3),
        stock,
        in_stock,
        rating: float(6),
        description: text(7),
    }
}

/// The same with a general codec.
fn theirs(suite: &mut Suite, codec: &'static Codec) {
    struct Encoded {
        products: Vec<Product>,
        encoded: Vec<Vec<u8>>,
    }
    let encoded = || {
        let products: Vec<_> = (1..=POOL).map(Product::new).collect();
        let encode = |product: &Product| {
            let mut out = Vec::new();
            (codec.encode)(product, &mut out);
            assert_eq!((codec.decode)(&out), *product);
            out
        };
        Data(Encoded { encoded: products.iter().map(encode).collect(), products })
    };
    let bytes = mean(&encoded().encoded);
    let facts = |op: &str| facts(format!("{op}: {}", codec.format)).bytes_per_operation(bytes);
    let about = facts("encodes the values of a record");
    suite.row("encode", codec.subject, "1_kb", about, encoded, |all: Arc<Data<Encoded>>| {
        let mut out = Vec::with_capacity(2048);
        move |index| {
            let place = (index % POOL) as usize;
            out.clear();
            (codec.encode)(&all.products[place], &mut out);
            u64::from(black_box(&out).len() == all.encoded[place].len())
        }
    });
    let about = facts("decodes all of a record");
    suite.row("decode", codec.subject, "1_kb", about, encoded, |all: Arc<Data<Encoded>>| {
        move |index| {
            let place = (index % POOL) as usize;
            u64::from(black_box((codec.decode)(&all.encoded[place])).price == all.products[place].price)
        }
    });
    let about = facts("searches a record for one number");
    suite.row("read_attribute", codec.subject, "1_kb", about, encoded, |all: Arc<Data<Encoded>>| {
        move |index| {
            let place = (index % POOL) as usize;
            u64::from(black_box((codec.price)(&all.encoded[place])) == all.products[place].price)
        }
    });
}
