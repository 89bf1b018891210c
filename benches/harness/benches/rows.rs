//! Rows that touch no code of this project: a fold over integers, a scan of bytes, copies out of 100 MB, a chase of pointers.
//!
//! They are what the machine itself does. Compared with themselves they show how well two processes can be told apart here; beside
//! other rows they are sentinels: if one of them moves between two revisions, the comparison is contaminated, not the code slow.
//! They are unlike on purpose: the first depends on nothing but the core's clock, the second on how wide the core runs (which a
//! busy sibling halves), the third on how fast memory streams, the fourth on how long it takes to answer.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use strata_harness::data::{Id, product, scatter};
use strata_harness::{Data, Facts, Scale, Suite, Unit, suite};

fn main() {
    suite("harness", |suite| {
        integers(suite);
        byte_scan(suite);
        copy(suite);
        chase(suite);
    });
}

fn integers(suite: &mut Suite) {
    let facts = Facts::new("folds 1000 integers, each step waiting for the one before");
    let fold = |seed: u64| (0..1000).fold(seed, |hash, i| (hash ^ i).wrapping_mul(0x100_0000_01b3));
    let worker = |expected: Arc<Data<u64>>| move |_| if fold(black_box(7)) == expected.0 { 1000 } else { 0 };
    suite.row(
        "integers",
        "sentinel",
        "1000",
        facts.unit(Unit::Elements, 1000).allocations_at_most(0),
        || Data(fold(7)),
        worker,
    );
}

fn byte_scan(suite: &mut Suite) {
    struct Text {
        bytes: Vec<u8>,
        weight: u64,
    }
    let bytes = product(1, Id::Given);
    let length = bytes.len() as u64;
    let facts =
        Facts::new("weighs every byte of one record of 1 KB").unit(Unit::Bytes, length).bytes_per_operation(length);
    let setup = || Data(Text { weight: weight(&bytes), bytes: bytes.clone() });
    let worker = |text: Arc<Data<Text>>| {
        move |_| {
            if weight(black_box(&text.bytes)) == text.weight { length } else { 0 }
        }
    };
    suite.row("byte_scan", "sentinel", "1KB", facts.data("1 record of 1 KB").allocations_at_most(0), setup, worker);
}

fn weight(text: &[u8]) -> u64 {
    let of = |byte: &u8| match byte {
        b'"' => 1,
        b',' => 2,
        b':' => 3,
        b'{' | b'}' => 4,
        _ => 0,
    };
    text.iter().map(of).sum()
}

fn copy(suite: &mut Suite) {
    let count = if suite.scale() == Scale::Full { 100_000 } else { 1000 };
    let facts = Facts::new("copies one record of 1 KB out of a map, in scattered order");
    let facts = facts.unit(Unit::Records, 1).data(format!("{count} records of 1 KB")).allocations_at_most(1);
    let setup = || Data((0..count).map(|key| (key, vec![key as u8; 1024].into())).collect::<HashMap<u64, Box<[u8]>>>());
    let worker = |map: Arc<Data<HashMap<u64, Box<[u8]>>>>| {
        move |index| {
            let key = scatter(index, count);
            let copy = black_box(map[&key].to_vec());
            u64::from(copy.len() == 1024 && copy[512] == key as u8)
        }
    };
    suite.row("copy", "sentinel", "100MB", facts, setup, worker);
}

fn chase(suite: &mut Suite) {
    let count = if suite.scale() == Scale::Full { 1 << 21 } else { 1 << 10 };
    let facts = Facts::new("follows 100 pointers, each of which says where the next one is");
    let facts = facts
        .unit(Unit::Elements, 100)
        .data(format!("{count} pointers of 8 bytes in one cycle"))
        .allocations_at_most(0);
    let worker = |next: Arc<Data<Vec<u64>>>| {
        let mut at = 0;
        move |_| {
            let before = at;
            for _ in 0..100 {
                at = next[black_box(at) as usize];
            }
            if at == before { 0 } else { 100 }
        }
    };
    suite.row("chase", "sentinel", "16MB", facts, || Data(cycle(count)), worker);
}

/// Pointers that lead through all places and back, each step far from the last: the full period of a congruential generator.
fn cycle(count: u64) -> Vec<u64> {
    (0..count).map(|place| (place.wrapping_mul(0xadb4_a92d) + 0x0032_19fd) % count).collect()
}
