//! A filter alone, over stored records in memory.

use std::hint::black_box;
use std::sync::Arc;

use strata::encoding::Record;
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata_harness::data::{self, Id};
use strata_harness::{Data, Facts, Suite, Unit};

use crate::prepared::{self, described, records};
use crate::whole::Product;

const FILTER: &str = "price=gt=500&inStock==true&rating=ge=3.5&category!=category-07";

fn satisfies(product: &Product) -> bool {
    product.price > 500.0 && product.in_stock && product.rating >= 3.5 && product.category != "category-07"
}

pub fn rows(suite: &mut Suite) {
    let n = records(suite.scale());
    let case = format!("{n}_records");
    let setup = move || {
        let schema = prepared::schema(0);
        let stored = |index| {
            let mut bytes = Vec::new();
            prepared::encode(&schema.tables[0], &data::product(index, Id::Given), &mut bytes);
            bytes
        };
        Data((0..n).map(stored).collect::<Vec<_>>())
    };
    let facts = |op: &str| Facts::new(op).data(described(n)).state("in memory").unit(Unit::Records, n);
    let expected = move || (0..n).map(Product::new).filter(satisfies).count();
    let about = facts("evaluates four comparisons on every record: two numbers, a Boolean, a text")
        .floor("floor", 0.70, 0.90)
        .allocations_at_most(0);
    suite.row("filter", "strata", &case, about, setup, move |stored: Arc<Data<Vec<Vec<u8>>>>| {
        // Lives as long as the process: records and the query borrow from it.
        let schema: &'static Schema = Box::leak(Box::new(prepared::schema(0)));
        let table = &schema.tables[0];
        let query = Query::parse(schema, table, FILTER, &Limits::in_url(1)).expect("a query of the grammar");
        let opened = stored.iter().map(|bytes| Record::open(table, bytes.clone()).expect("encoded at set-up"));
        let opened: &'static [_] = opened.collect::<Vec<_>>().leak();
        let (opened, expected): (Vec<_>, _) = (opened.iter().map(Record::view).collect(), expected());
        move |_| {
            // As in the scan of a query: prepared once, evaluated on all.
            let checks = query.filter.checks(table).expect("no regular expression");
            let accepted = |record: &&Record<'_, &[u8]>| checks.accept(record).expect("a whole record");
            let found = black_box(&opened).iter().filter(accepted).count();
            if found == expected { n } else { 0 }
        }
    });
    let about = facts("evaluates the same on every record with a hand-written closure that knows the record layout");
    suite.row("filter", "floor", &case, about, setup, move |stored: Arc<Data<Vec<Vec<u8>>>>| {
        let expected = expected();
        move |_| {
            let found = black_box(&***stored).iter().filter(|bytes| by_hand(bytes)).count();
            if found == expected { n } else { 0 }
        }
    });
}

/// The condition over the stored form: a header of 16 bytes, JSON, an offset of two bytes for each of eight attributes, eight bytes for
/// each of three numbers, which are zero if absent and then fail their conditions. The numbers are checked first: they are together at the
/// end and need no offset.
fn by_hand(stored: &[u8]) -> bool {
    let (rest, numbers) = stored.split_last_chunk::<24>().expect("three numbers");
    let number = |place: usize| f64::from_le_bytes(*numbers[8 * place..].first_chunk().expect("three numbers"));
    if !(number(0) > 500.0 && number(2) >= 3.5) {
        return false;
    }
    let (json, offsets) = rest.split_last_chunk::<16>().expect("eight offsets");
    let value =
        |attribute: usize| 16 + usize::from(u16::from_le_bytes([offsets[2 * attribute], offsets[2 * attribute + 1]]));
    let (category, price, in_stock) = (2, 3, 5);
    json[value(in_stock)] == b't' && json[value(category)..value(price) - ",\"price\":".len()] != *b"\"category-07\""
}
