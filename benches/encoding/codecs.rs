//! One record as one struct, by the general codecs that Strata is compared with.
//!
//! Each codec uses its best path. Those that write names (JSON, MessagePack, CBOR) skip everything but the requested attribute; bincode
//! writes none, so it decodes from the start up to that attribute, without copying texts. The others use serde; bincode has its own
//! derives, which are faster for it.

use bincode::{BorrowDecode, Decode, Encode};
use serde::{Deserialize, Serialize};
use strata_harness::data::{self, Id};

/// The record of the data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    pub id: String,
    pub name: String,
    pub category: String,
    pub price: f64,
    pub stock: i64,
    pub in_stock: bool,
    pub rating: f64,
    pub description: String,
}

impl Product {
    /// The product number `index`.
    pub fn new(index: u64) -> Self {
        serde_json::from_slice(&data::product(index, Id::Given)).expect("a body of the data set")
    }
}

/// A general codec.
pub struct Codec {
    pub subject: &'static str,
    pub format: &'static str,
    /// Appends a record.
    pub encode: fn(&Product, &mut Vec<u8>),
    pub decode: fn(&[u8]) -> Product,
    /// One attribute of an encoded record.
    pub price: fn(&[u8]) -> f64,
}

pub const CODECS: [Codec; 4] = [
    Codec {
        subject: "bincode",
        format: "bincode 2.0.1, without names, with its own derives",
        encode: |product, out| {
            bincode::encode_into_std_write(product, out, bincode::config::standard()).expect("a record");
        },
        decode: |bytes| bincode::decode_from_slice(bytes, bincode::config::standard()).expect("a record").0,
        price: |bytes| {
            let beginning = bincode::borrow_decode_from_slice(bytes, bincode::config::standard());
            let (Beginning { price, .. }, _) = beginning.expect("a record");
            price
        },
    },
    Codec {
        subject: "serde_json",
        format: "JSON",
        encode: |product, out| serde_json::to_writer(out, product).expect("a record"),
        decode: |bytes| serde_json::from_slice(bytes).expect("a record"),
        price: |bytes| serde_json::from_slice::<Price>(bytes).expect("a record").price,
    },
    Codec {
        subject: "rmp_serde",
        format: "MessagePack with names",
        encode: |product, out| rmp_serde::encode::write_named(out, product).expect("a record"),
        decode: |bytes| rmp_serde::from_slice(bytes).expect("a record"),
        price: |bytes| rmp_serde::from_slice::<Price>(bytes).expect("a record").price,
    },
    Codec {
        subject: "ciborium",
        format: "CBOR",
        encode: |product, out| ciborium::into_writer(product, out).expect("a record"),
        decode: |bytes| ciborium::from_reader(bytes).expect("a record"),
        price: |bytes| ciborium::from_reader::<Price, _>(bytes).expect("a record").price,
    },
];

/// One attribute; all others are ignored.
#[derive(Deserialize)]
struct Price {
    price: f64,
}

/// The start of a record without names, up to the requested attribute.
#[derive(BorrowDecode)]
#[expect(dead_code, reason = "read to come to the price")]
struct Beginning<'a> {
    id: &'a str,
    name: &'a str,
    category: &'a str,
    price: f64,
}
