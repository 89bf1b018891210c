//! Golden scripts: what stands before `---` is asked, what stands after it is answered.
//!
//! `tests/golden/<layer>/<case>` read in a row are the manual of what a layer accepts and how it refuses. `UPDATE_GOLDEN=1`
//! writes the answers anew; then the difference is read before it is committed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use strata::encoding::{Record, body, record};
use strata::error::{Error, Place, Result};
use strata::query::{Limits, Query};
use strata::schema::{Attribute, Durability, IndexKind, Relationship, Schema, Stamp, Stream, Table};

const SEPARATOR: &str = "\n---\n";

/// Runs all cases of a layer.
fn run(layer: &str, answer: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(layer);
    let mut cases: Vec<_> =
        fs::read_dir(&folder).expect("the layer has a folder").flatten().map(|case| case.path()).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no case in {}", folder.display());
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for case in cases {
        let script = fs::read_to_string(&case).expect("a case is text");
        let (request, expected) = script.split_once(SEPARATOR).unwrap_or((&script, ""));
        let actual = answer(request);
        if update {
            let script = format!("{}{SEPARATOR}{}\n", request.trim_end(), actual.trim_end());
            fs::write(&case, script).expect("a case can be written");
        } else if actual.trim_end() != expected.trim_end() {
            let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
            write!(wrong, "{layer}/{name}\nexpected: {expected}actual:   {actual}\n").expect("text grows");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A schema as it was understood: every default written out, every number given.
fn normal_form(schema: &Schema) -> String {
    let mut text = String::new();
    for table in &schema.tables {
        let exported = if table.exported { "exported" } else { "internal" };
        writeln!(text, "table {} {} {exported} {}", table.id, table.name, table.durability.name()).expect("text grows");
        if let Some(seconds) = table.expiration {
            writeln!(text, "  expires after {seconds} s").expect("text grows");
        }
        if table.multicast.is_some() {
            writeln!(text, "  takes messages").expect("text grows");
        }
        if table.in_redis {
            writeln!(text, "  in Redis").expect("text grows");
        }
        for (position, attribute) in table.attributes.iter().enumerate() {
            writeln!(text, "  {}", describe(table, position, attribute)).expect("text grows");
        }
        for index in table.indexes.iter().filter(|index| index.kind == IndexKind::Composite) {
            let names = index.attributes().map(|attribute| table.attributes[attribute].name.as_str());
            writeln!(text, "  composite index {} over {}", index.id, names.collect::<Vec<_>>().join(", "))
                .expect("text grows");
        }
        for Relationship { name, table: other, foreign_key, many } in &table.relationships {
            let other = &schema.tables[*other];
            let (how, (owner, whose)) = if *many { ("many", (other, "their")) } else { ("one", (table, "by own")) };
            let key = &owner.attributes[*foreign_key].name;
            writeln!(text, "  {name} -> {how} {} {whose} {key}", other.name).expect("text grows");
        }
    }
    for stream in &schema.streams {
        let Stream { id, name, exported, durability, partitions, idempotency, expiration, max_bytes, hold_for } =
            stream;
        let (exported, durability) = (if *exported { "exported" } else { "internal" }, durability.name());
        writeln!(text, "stream {id} {name} {exported} {durability}").expect("text grows");
        writeln!(text, "  {partitions} partitions, idempotency keys for {idempotency} s").expect("text grows");
        let limits =
            [expiration.map(|seconds| format!("{seconds} s")), max_bytes.map(|bytes| format!("{bytes} bytes"))];
        for limit in limits.into_iter().flatten() {
            writeln!(text, "  trimmed after {limit}").expect("text grows");
        }
        if !hold_for.is_empty() {
            writeln!(text, "  held for {}", hold_for.join(", ")).expect("text grows");
        }
    }
    text
}

fn describe(table: &Table, position: usize, attribute: &Attribute) -> String {
    let kind = format!("{:?}", attribute.kind);
    let mut words = vec![attribute.name.clone(), if attribute.list { format!("[{kind}]") } else { kind }];
    words.extend(attribute.required.then(|| "required".to_owned()));
    words.extend(attribute.thumb_sizes.iter().map(|size| format!("thumbnails of {size}")));
    words.extend((position == table.primary_key).then(|| "primary key".to_owned()));
    words.extend(attribute.stamp.map(|stamp| match stamp {
        Stamp::Created => "created time".to_owned(),
        Stamp::Updated => "updated time".to_owned(),
    }));
    let indexes =
        table.indexes.iter().filter(|index| index.attribute == position && index.kind != IndexKind::Composite);
    words.extend(indexes.map(|index| format!("{} index {}", index.kind.name(), index.id)));
    words.extend((table.expires_at == Some(position)).then(|| "expires then".to_owned()));
    words.extend((table.ttl == Some(position)).then(|| "seconds to live".to_owned()));
    let topic = table.multicast.and_then(|multicast| multicast.topic);
    words.extend((topic == Some(position)).then(|| "topic of messages".to_owned()));
    words.join(", ")
}

#[test]
fn schemas_are_understood_or_refused_at_their_place() {
    run("schema", |sdl| match Schema::parse(sdl) {
        Ok(schema) => normal_form(&schema),
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "one line: {error}");
            error.to_string()
        }
    });
}

/// The canonical text of the records in a body, one for each; an array of bodies begins with `[`.
fn canonical(table: &Table, body: &str) -> Result<Vec<String>> {
    let all = match body.starts_with('[') {
        true => body::parse_array(table, body.as_bytes())?,
        false => vec![body::parse_object(table, body.as_bytes())?],
    };
    let texts = all.iter().map(|fields| {
        let mut out = Vec::new();
        let record = record::encode(fields, None::<&Record<'_, Vec<u8>>>, &mut out)?;
        Ok(String::from_utf8_lossy(record.json()).into_owned())
    });
    texts.collect()
}

/// Attributes that the body leaves out are left out of the answer, so that a line shows one idea.
fn without_nulls(text: &str) -> String {
    let names = ["id", "text", "whole", "real", "truth", "day", "free", "blob", "texts", "wholes", "days", "frees"];
    let inner = names.iter().fold(format!(",{},", &text[1..text.len() - 1]), |inner, name| {
        inner.replace(&format!(",\"{name}\":null,"), ",")
    });
    format!("{{{}}}", inner.trim_matches(','))
}

#[test]
fn bodies_are_coerced_or_refused_at_their_pointer() {
    let sdl =
        "type T @table { id: ID @primaryKey text: String whole: Int real: Float truth: Boolean day: Date free: Any
        blob: Blob texts: [String] wholes: [Int] days: [Date] frees: [Any] }";
    let schema = Schema::parse(sdl).expect("the schema is right");
    run("encoding", |bodies| {
        let answers = bodies.lines().map(|body| match canonical(&schema.tables[0], body) {
            Ok(texts) => texts.iter().map(|text| without_nulls(text)).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        });
        answers.collect::<Vec<_>>().join("\n")
    });
}

/// The query, and below it that it is read, or where it is refused and why.
fn mark(schema: &Schema, query: &str) -> String {
    let limits = Limits::in_url(100);
    // As it is carried out: a regular expression is compiled no sooner.
    match Query::parse(schema, &schema.tables[0], query, &limits)
        .and_then(|query| query.filter.checks(&schema.tables[0]).map(drop))
    {
        Ok(()) => format!("{query}\n  is read"),
        Err(Error::Invalid { detail, place: Place::Position(position) }) => {
            format!("{query}\n{}^ {position}: {detail}", " ".repeat(query[..position].chars().count()))
        }
        Err(other) => format!("{query}\n{other} without a position"),
    }
}

#[test]
fn queries_are_read_or_refused_at_their_byte() {
    let sdl = "type Product @table { id: ID @primaryKey name: String category: String price: Float stock: Int inStock: Boolean
        releasedOn: Date tags: [String!] details: Any brandId: ID picture: Blob brand: Product @relationship(from: \"brandId\") }";
    let schema = Schema::parse(sdl).expect("the schema is right");
    run("query", |script| {
        let lines = script.lines().map(|line| match line.is_empty() || line.starts_with('#') {
            true => line.to_owned(),
            false => mark(&schema, line),
        });
        lines.collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn durability_grows_from_soft_to_strong() {
    assert!(Durability::Soft < Durability::Strong && Durability::default() == Durability::Soft);
}
