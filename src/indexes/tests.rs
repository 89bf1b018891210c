//! Entries by value, after changes and after damage; also tests the checker of disagreements itself.

use super::*;
use crate::encoding::body::parse_object;
use crate::encoding::record::encode;
use crate::schema::Schema;
use crate::storage::Options;
use std::borrow::Cow;
use tempfile::TempDir;

const SDL: &str = "type T @table @compositeIndex(fields: [\"name\", \"size\"]) { id: ID @primaryKey name: String @indexed
    code: String @indexed(type: \"hash\") mail: String @unique tags: [String] @indexed size: Int
    about: String @indexed(type: \"fulltext\") notes: [String] @indexed(type: \"fulltext\") until: Int @expiresAt plain: Int }";

struct Fixture {
    _directory: TempDir,
    store: Store,
    schema: Schema,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &Options { cache_bytes: 8 << 20, ..Options::default() }).unwrap();
        Self { _directory: directory, store, schema: Schema::parse(SDL).unwrap() }
    }

    fn table(&self) -> &Table {
        &self.schema.tables[0]
    }

    fn index(&self, attribute: &str) -> &Index {
        let attribute = self.table().attribute(attribute).unwrap();
        self.table().indexes.iter().find(|index| index.attribute == attribute).unwrap()
    }

    fn index_of(&self, kind: IndexKind) -> &Index {
        self.table().indexes.iter().find(|index| index.kind == kind).unwrap()
    }

    /// The keys of all records.
    fn keys(&self) -> Vec<Vec<u8>> {
        keys_after(&self.store, self.table().id, None, usize::MAX, usize::MAX).unwrap()
    }

    fn encode(&self, body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = parse_object(self.table(), body.as_bytes()).unwrap();
        encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
        out
    }

    fn write(&self, stage: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::default();
        stage(&mut batch);
        self.store.write(&mut batch, Durability::Soft).unwrap();
    }

    fn put_record(&self, batch: &mut Batch, id: &str, bytes: &[u8]) {
        let mut key = Vec::new();
        key::record(self.table().id, id, &mut key);
        self.store.put(batch, Space::Records, &key, bytes);
    }

    /// Stores a record with its entries.
    fn add(&self, id: &str, body: &str) {
        let bytes = self.encode(body);
        self.write(|batch| {
            self.put_record(batch, id, &bytes);
            add(&self.store, batch, id, &Record::open(self.table(), &bytes).unwrap()).unwrap();
        });
    }

    /// The entries of an index, as text.
    fn entries(&self, index: u32) -> Vec<String> {
        let (snapshot, mut all) = (self.store.snapshot(ReadTier::Disk).unwrap(), Vec::new());
        let (lower, upper) = (index.to_be_bytes(), (index + 1).to_be_bytes());
        let mut scan = self.store.scan(Space::Indexes, &lower, &upper, &snapshot, ReadTier::Disk);
        while let Some((key, value)) = scan.next().unwrap() {
            all.push(format!("{}={}", key[4..].escape_ascii(), value.escape_ascii()));
        }
        all
    }

    fn all_entries(&self) -> Vec<Vec<String>> {
        self.table().indexes.iter().map(|index| self.entries(index.id)).collect()
    }

    fn disagreements(&self) -> Vec<String> {
        disagreements(&self.store, &self.schema).unwrap()
    }
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

#[test]
fn a_record_has_an_entry_for_each_value() {
    let fixture = Fixture::new();
    fixture.add("r1", r#"{"id":"r1","name":"n","code":"c","mail":"m","tags":["b","a","b"],"size":1}"#);
    fixture.add("r2", r#"{"id":"r2","tags":[]}"#);
    assert_eq!(fixture.entries(fixture.index("name").id), ["0n\\x00\\x00r1=", "@r2="], "null is last");
    assert_eq!(fixture.entries(fixture.index("mail").id), ["0m\\x00\\x00=r1"], "null is not bound");
    assert_eq!(fixture.entries(fixture.index("tags").id), ["0a\\x00\\x00r1=", "0b\\x00\\x00r1="], "a list is a set");
    assert_eq!(fixture.entries(fixture.index("code").id).len(), 2);
    assert_eq!(fixture.disagreements(), Vec::<String>::new());
}

#[test]
fn removing_a_record_removes_all_its_entries() {
    let fixture = Fixture::new();
    let body = r#"{"id":"r1","name":"n","code":"c","mail":"m","tags":["a","b"],"size":1,"about":"one two","until":5}"#;
    fixture.add("r1", body);
    let bytes = fixture.encode(body);
    let record = Record::open(fixture.table(), &bytes).unwrap();
    fixture.write(|batch| remove(&fixture.store, ReadTier::Disk, batch, "r1", &record).unwrap());
    assert!(fixture.all_entries().concat().is_empty());
}

#[test]
fn a_change_leads_to_the_entries_of_the_new_version() {
    let bodies = [
        r#"{"id":"r"}"#,
        r#"{"id":"r","name":"n","mail":"m","tags":["a","b"]}"#,
        r#"{"id":"r","name":"n","mail":"other","tags":["b","c"],"size":2}"#,
        r#"{"id":"r","name":"o","code":"c","tags":[]}"#,
        r#"{"id":"r","name":"o","size":2,"about":"One, two!","notes":["one two","three"],"until":9}"#,
        r#"{"id":"r","name":"o","size":1,"about":"two two three","notes":[],"until":0}"#,
    ];
    for before in bodies {
        for after in bodies {
            let (changed, fresh) = (Fixture::new(), Fixture::new());
            changed.add("r", before);
            fresh.add("r", after);
            let (old, new) = (changed.encode(before), changed.encode(after));
            let open = |bytes| Record::open(changed.table(), bytes).unwrap();
            changed
                .write(|batch| change(&changed.store, ReadTier::Disk, batch, "r", &open(&old), &open(&new)).unwrap());
            assert_eq!(changed.all_entries(), fresh.all_entries(), "{before} to {after}");
        }
    }
}

#[test]
fn a_change_stages_nothing_for_attributes_that_stay() {
    let fixture = Fixture::new();
    let staged = |before: &str, after: &str| {
        let (before, after) = (fixture.encode(before), fixture.encode(after));
        let open = |bytes| Record::open(fixture.table(), bytes).unwrap();
        let mut batch = Batch::default();
        change(&fixture.store, ReadTier::Disk, &mut batch, "r", &open(&before), &open(&after)).unwrap();
        !batch.is_empty()
    };
    let body = |name: &str, plain| {
        format!(r#"{{"id":"r","name":"{name}","code":"c","mail":"m","tags":["a"],"plain":{plain}}}"#)
    };
    assert!(!staged(&body("n", 1), &body("n", 2)));
    assert!(staged(&body("n", 1), &body("o", 1)));
    let tags = |tags: &str| format!(r#"{{"id":"r","tags":{tags}}}"#);
    assert!(!staged(&tags(r#"["a","b"]"#), &tags(r#"["b","a","b"]"#)), "the same entries");
    assert!(staged(&tags(r#"["a","b"]"#), &tags(r#"["a"]"#)));
    let about = |about: &str, size| format!(r#"{{"id":"r","name":"n","about":"{about}","size":{size}}}"#);
    assert!(!staged(&about("One, two", 1), &about("two one Two", 1)), "the same terms");
    assert!(staged(&about("one", 1), &about("one two", 1)) && staged(&about("one", 1), &about("one", 2)));
}

#[test]
fn matches_come_in_pages_and_name_only_their_value() {
    let fixture = Fixture::new();
    for number in 0..25 {
        let name = ["a", "ab", "b"][number % 3];
        fixture.add(&format!("r{number:02}"), &format!(r#"{{"id":"r{number:02}","name":"{name}","code":"{name}"}}"#));
    }
    for (attribute, verify) in [("name", false), ("code", true)] {
        let snapshot = fixture.store.snapshot(ReadTier::Disk).unwrap();
        let (index, value) = (fixture.index(attribute), text("a"));
        let range = KeyRange::of_value(index, &value);
        let scan = fixture.store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk);
        let mut matches = Matches::of(scan, fixture.table(), index, &range);
        assert_eq!(is_exact(index, &value), !verify);
        let (mut keys, mut found, mut pages) = (Keys::default(), Vec::new(), Vec::new());
        loop {
            keys.clear();
            while keys.len() < 4 && matches.append(&mut keys).unwrap() {}
            if keys.is_empty() {
                break;
            }
            pages.push(keys.len());
            found.extend(keys.slices().into_iter().map(|key| key::id_of_record(key).unwrap().to_owned()));
        }
        let expected: Vec<_> = (0..25).step_by(3).map(|number| format!("r{number:02}")).collect();
        assert_eq!((found, pages), (expected, vec![4, 4, 1]));
    }
}

#[test]
fn a_text_longer_than_is_indexed_must_be_verified() {
    let fixture = Fixture::new();
    for (bytes, exact) in [(key::INDEXED_BYTES - 1, true), (key::INDEXED_BYTES, false), (key::INDEXED_BYTES + 1, false)]
    {
        let long = "x".repeat(bytes);
        assert_eq!(is_exact(fixture.index("name"), &text(&long)), exact, "{bytes} bytes");
        assert!(!is_exact(fixture.index("code"), &text("x")), "a hash says nothing for certain");
    }
}

#[test]
fn stretches_are_walked_both_ways_and_ids_stand_behind_values() {
    let fixture = Fixture::new();
    for (id, name) in [("1", "b"), ("2", "a\0"), ("3", "c"), ("4", "b"), ("5", "a")] {
        fixture.add(id, &serde_json::json!({ "id": id, "name": name, "tags": ["x", name] }).to_string());
    }
    fixture.add("6", r#"{"id":"6"}"#);
    let snapshot = fixture.store.snapshot(ReadTier::Disk).unwrap();
    let walk = |range: &KeyRange, direction| {
        let (index, mut keys, store) = (fixture.index("name"), Keys::default(), &fixture.store);
        let scan = match direction {
            Direction::Forwards => store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk),
            Direction::Backwards => {
                store.scan_backwards(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk)
            }
        };
        let mut matches = Matches::of(scan, fixture.table(), index, range);
        while matches.append(&mut keys).unwrap() {}
        keys.slices().into_iter().map(|key| key::id_of_record(key).unwrap().to_owned()).collect::<String>()
    };
    let index = fixture.index("name");
    let value = |name| KeyRange::of_value(index, &text(name));
    let all = KeyRange::of_prefix(index.id.to_be_bytes().to_vec());
    assert_eq!(walk(&all, Direction::Forwards), "521436");
    assert_eq!(walk(&all, Direction::Backwards), "634125");
    let mut between = KeyRange { lower: value("a").upper, upper: all.upper.clone() };
    between.intersect(KeyRange { lower: all.lower.clone(), upper: value("b").upper });
    assert_eq!(walk(&between, Direction::Forwards), "214");
    assert_eq!(walk(&between, Direction::Backwards), "412");
    assert_eq!(walk(&value("b"), Direction::Backwards), "41");
    assert!(!between.is_empty());
    between.intersect(value("c"));
    assert!(between.is_empty());
}

#[test]
fn an_element_that_a_list_has_often_is_one_entry() {
    let fixture = Fixture::new();
    let bytes = fixture.encode(r#"{"id":"r","tags":["b","a","b","a","b"],"notes":["b1 a1","B1; a1 B1"]}"#);
    let record = Record::open(fixture.table(), &bytes).unwrap();
    let visited = |attribute| {
        let entries = set_of(fixture.index(attribute), &record, "r").unwrap();
        entries.iter().map(|entry| entry[4..].escape_ascii().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(visited("tags"), ["0a\\x00\\x00r", "0b\\x00\\x00r"]);
    assert_eq!(visited("notes"), ["0a1\\x00\\x00r", "0b1\\x00\\x00r"]);
}

#[test]
fn composite_entries_have_all_values_and_expiring_records_their_time() {
    let fixture = Fixture::new();
    for (id, rest) in [
        ("1", r#""name":"a","size":-1"#),
        ("2", r#""name":"a","size":9"#),
        ("3", r#""name":"a","size":10,"until":7"#),
        ("4", r#""name":"a""#),
        ("5", r#""name":"aa","size":1,"until":-3"#),
        ("6", r#""size":1"#),
    ] {
        fixture.add(id, &format!(r#"{{"id":"{id}",{rest}}}"#));
    }
    let (composite, expiry) = (fixture.index_of(IndexKind::Composite), fixture.index_of(IndexKind::Expiry));
    let ids = |index: &Index, range: &KeyRange| {
        let (snapshot, mut keys) = (fixture.store.snapshot(ReadTier::Disk).unwrap(), Keys::default());
        let scan = fixture.store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk);
        let mut entries = Matches::of(scan, fixture.table(), index, range);
        while entries.append(&mut keys).unwrap() {}
        keys.slices().into_iter().map(|key| key::id_of_record(key).unwrap()).collect::<String>()
    };
    let all = KeyRange::of_prefix(composite.id.to_be_bytes().to_vec());
    assert_eq!(ids(composite, &all), "123456", "by name, then by size, nulls last");
    assert_eq!(ids(composite, &KeyRange::of_values(composite, [&text("a")])), "1234");
    assert_eq!(ids(composite, &KeyRange::of_values(composite, [&text("a"), &Value::Int(9)])), "2");
    assert_eq!(ids(composite, &KeyRange::of_values(composite, [&text("a"), &Value::Null])), "4");
    for (now, expired) in [(-3001, ""), (-3000, "5"), (6999, "5"), (7000, "53"), (i64::MAX, "53")] {
        assert_eq!(ids(expiry, &KeyRange::expired(expiry, now)), expired, "{now} us");
    }
}

#[test]
fn entries_of_a_failed_index_are_neither_kept_nor_missed() {
    let fixture = Fixture::new();
    fixture.index("name").set_state(IndexState::Failed);
    fixture.add("r1", r#"{"id":"r1","name":"n","mail":"m"}"#);
    assert!(fixture.entries(fixture.index("name").id).is_empty());
    assert_eq!(fixture.disagreements(), Vec::<String>::new());
}

/// Two records share a value while its unique index is built: the one without the entry can be deleted without removing it.
#[test]
fn an_entry_of_a_unique_index_that_is_built_goes_with_its_owner() {
    for (gone, left) in [("r1", 1), ("r2", 0)] {
        let fixture = Fixture::new();
        fixture.index("mail").set_state(IndexState::Building);
        let bytes = ["r1", "r2"].map(|id| fixture.encode(&format!(r#"{{"id":"{id}","mail":"same"}}"#)));
        fixture.write(|batch| {
            fixture.put_record(batch, "r1", &bytes[0]);
            add(&fixture.store, batch, "r2", &Record::open(fixture.table(), &bytes[1]).unwrap()).unwrap();
        });
        let bytes = &bytes[usize::from(gone == "r2")];
        let record = Record::open(fixture.table(), bytes).unwrap();
        fixture.write(|batch| remove(&fixture.store, ReadTier::Disk, batch, gone, &record).unwrap());
        assert_eq!(fixture.entries(fixture.index("mail").id).len(), left, "{gone}");
    }
}

#[test]
fn a_list_is_met_at_its_first_entry() {
    let fixture = Fixture::new();
    let index = fixture.index("tags");
    let bytes = fixture.encode(r#"{"id":"r","name":"n","tags":["d","b","a"]}"#);
    let record = Record::open(fixture.table(), &bytes).unwrap();
    let of = |tag| KeyRange::of_value(index, &text(tag));
    let first = |ranges: &[KeyRange], tag| is_first(index, ranges, &of(tag).lower, &record).unwrap();
    let up = KeyRange { lower: of("b").lower, upper: of("z").upper };
    assert!(first(std::slice::from_ref(&up), "b") && !first(&[up], "d"));
    assert!(first(&[of("a"), of("d")], "a") && !first(&[of("a"), of("d")], "d"));
}

#[test]
fn an_index_that_is_built_is_the_index_that_was_kept() {
    let fixture = Fixture::new();
    for number in 0..2500 {
        let (id, tag) = (format!("r{number}"), number % 7);
        let mail = if number % 5 == 0 { "null".to_owned() } else { format!("\"{number}\"") };
        fixture.add(
            &id,
            &format!(
                r#"{{"id":"{id}","name":"{tag}","code":"{tag}","mail":{mail},"tags":["{tag}","x"],
                "size":{number},"about":"about {tag}{tag}","notes":["{tag}{tag} notes"],"until":{number}}}"#
            ),
        );
    }
    let kept = fixture.all_entries();
    for index in &fixture.table().indexes {
        fixture.write(|batch| drop_entries(&fixture.store, batch, index.id));
        assert!(fixture.entries(index.id).is_empty() && !fixture.disagreements().is_empty());
        index.set_state(IndexState::Building);
        assert!(fixture.disagreements().is_empty(), "while it is built, entries may be missing");
        for keys in fixture.keys().chunks(1000) {
            // Twice: a piece may be repeated after a kill.
            for _ in 0..2 {
                assert_eq!(build(&fixture.store, fixture.table(), index, keys).unwrap(), None);
            }
        }
        index.set_state(IndexState::Ready { since: 0 });
    }
    assert_eq!(fixture.all_entries(), kept);
    assert_eq!(fixture.disagreements(), Vec::<String>::new());
}

#[test]
fn a_unique_index_over_equal_values_is_not_built() {
    let fixture = Fixture::new();
    for id in ["r1", "r2"] {
        let bytes = fixture.encode(&format!(r#"{{"id":"{id}","mail":"same"}}"#));
        fixture.write(|batch| fixture.put_record(batch, id, &bytes));
    }
    let sharing = build(&fixture.store, fixture.table(), fixture.index("mail"), &fixture.keys()).unwrap();
    assert_eq!(sharing, Some(["r1", "r2"].map(str::to_owned)), "in one piece");
    let [one, other] = fixture.keys().try_into().unwrap();
    let piece = |key| build(&fixture.store, fixture.table(), fixture.index("mail"), &[key]).unwrap();
    assert_eq!(piece(one), None);
    assert_eq!(piece(other), Some(["r1", "r2"].map(str::to_owned)), "in two");
}

/// Only locked records are indexed: others may change between being read and being indexed.
#[test]
fn a_build_passes_over_records_that_are_not_held() {
    let fixture = Fixture::new();
    for id in ["r1", "r2", "r3"] {
        let bytes = fixture.encode(&format!(r#"{{"id":"{id}","name":"n"}}"#));
        fixture.write(|batch| fixture.put_record(batch, id, &bytes));
    }
    let [one, _, three] = fixture.keys().try_into().unwrap();
    build(&fixture.store, fixture.table(), fixture.index("name"), &[one, three]).unwrap();
    assert_eq!(fixture.entries(fixture.index("name").id), ["0n\\x00\\x00r1=", "0n\\x00\\x00r3="]);
}

#[test]
fn keys_are_found_behind_a_key() {
    let fixture = Fixture::new();
    for id in ["a", "a\0", "ab", "b"] {
        let bytes = fixture.encode(&format!(r#"{{"id":{}}}"#, serde_json::Value::from(id)));
        fixture.write(|batch| fixture.put_record(batch, id, &bytes));
    }
    let behind = |id, most| {
        let keys = keys_after(&fixture.store, fixture.table().id, id, most, usize::MAX).unwrap();
        keys.iter().map(|key| key::id_of_record(key).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(behind(None, 2), ["a", "a\0"]);
    assert_eq!(behind(Some("a"), 9), ["a\0", "ab", "b"]);
    assert_eq!(behind(Some("ab"), 9), ["b"]);
    assert!(behind(Some("b"), 9).is_empty());
}

#[test]
fn the_left_overs_of_numbers_never_given_out_are_removed() {
    let fixture = Fixture::new();
    fixture.add("r1", r#"{"id":"r1","name":"n","tags":["a"]}"#);
    let (name, tags) = (fixture.index("name").id, fixture.index("tags").id);
    drop_from(&fixture.store, tags).unwrap();
    assert!(fixture.entries(tags).is_empty() && !fixture.entries(name).is_empty());
    let writes = fixture.store.counters().writes;
    drop_from(&fixture.store, tags).unwrap();
    assert_eq!(fixture.store.counters().writes, writes, "nothing to remove is nothing to write");
}

#[test]
fn every_planted_disagreement_is_found() {
    let planted = |plant: &dyn Fn(&Fixture, &mut Batch)| {
        let fixture = Fixture::new();
        fixture.add("r1", r#"{"id":"r1","name":"n","mail":"m","tags":["a"]}"#);
        fixture.write(|batch| plant(&fixture, batch));
        fixture.disagreements()
    };
    let entry = |fixture: &Fixture, attribute: &str, value: &str, id: &str| {
        let mut entry = Vec::new();
        key::ordered(fixture.index(attribute).id, &text(value), id, &mut entry);
        entry
    };
    assert_eq!(planted(&|_, _| {}), Vec::<String>::new());
    let found = planted(&|fixture, batch| {
        fixture.store.delete(batch, Space::Indexes, &entry(fixture, "name", "n", "r1"));
    });
    assert!(found.len() == 1 && found[0].starts_with("an entry is missing"), "{found:?}");
    let found = planted(&|fixture, batch| {
        fixture.store.put(batch, Space::Indexes, &entry(fixture, "tags", "b", "r1"), b"");
    });
    assert!(found.len() == 1 && found[0].starts_with("an entry that no record has"), "{found:?}");
    let found = planted(&|fixture, batch| {
        let mut owner = Vec::new();
        key::unique(fixture.index("mail").id, &text("m"), &mut owner);
        fixture.store.put(batch, Space::Indexes, &owner, b"r2");
    });
    assert_eq!(found.len(), 2, "the wrong owner is one too many, the right one is missing: {found:?}");
    let found = planted(&|fixture, batch| {
        let mut bytes = fixture.encode(r#"{"id":"r2"}"#);
        bytes[20] ^= 1;
        fixture.put_record(batch, "r2", &bytes);
    });
    assert!(found.len() == 1 && found[0].contains("checksum"), "{found:?}");
    let found = planted(&|fixture, batch| {
        let bytes = fixture.encode(r#"{"id":"r2"}"#);
        fixture.put_record(batch, "r3", &bytes);
    });
    assert!(found.len() == 1 && found[0].contains("another id than its key"), "{found:?}");
}
