//! Serialisation of lists: what precedes a list, separates its records and follows it.
//!
//! | format | prefix | per record | suffix |
//! |---|---|---|---|
//! | JSON | `[` | preceded by a comma, except for the first | `]` |
//! | CBOR | an array of indefinite length | | break |
//! | MessagePack | an array with the final number of records | | |
//! | NDJSON | | followed by a line feed | |
//! | CSV | the names of the attributes | a line of their values | |
//!
//! MessagePack gives the length of a list first, so the list has to be complete before it is sent; all others are streamed.

use std::borrow::Cow;

use super::{Format, Result, integers};
use crate::encoding::json::{COLON, Fault, Reader};
use crate::error::{self, Error};
use crate::query::Query;
use crate::schema::{Kind, Schema, Table};

/// Writes a list of records in a format.
pub struct ListWriter<'q> {
    format: Format,
    schema: &'q Schema,
    table: &'q Table,
    query: &'q Query<'q>,
    /// The number of records written.
    records: u32,
    /// The offset of the length field in a list that has to be complete before it is sent.
    length_at: usize,
    /// A buffer for the text of a record to convert.
    text: Vec<u8>,
}

/// The first byte of a MessagePack array with a 32-bit length (`array 32`).
const MESSAGE_PACK_ARRAY: u8 = 0xdd;

/// The first byte of a CBOR array of indefinite length, and the break byte.
const CBOR_ARRAY: (u8, u8) = (0x9f, 0xff);

/// The first byte of a CBOR map with four members.
const CBOR_MAP_OF_FOUR: u8 = 0xa4;
const MESSAGE_PACK_MAP_OF_FOUR: u8 = 0x84;

impl<'q> ListWriter<'q> {
    /// Begins the list of a query.
    ///
    /// # Errors
    /// 406 if the query asks for more than a list, and the format is for lists only.
    pub fn begin(
        format: Format,
        schema: &'q Schema,
        table: &'q Table,
        query: &'q Query<'q>,
        out: &mut Vec<u8>,
    ) -> Result<Self> {
        if query.pagination {
            format.of_one()?;
            match format {
                Format::Cbor => out.push(CBOR_MAP_OF_FOUR),
                Format::MessagePack => out.push(MESSAGE_PACK_MAP_OF_FOUR),
                _ => out.push(b'{'),
            }
            name("data", format, out)?;
        }
        match format {
            Format::Json | Format::JsonIntsAsText => out.push(b'['),
            Format::Cbor => out.push(CBOR_ARRAY.0),
            Format::MessagePack => out.push(MESSAGE_PACK_ARRAY),
            Format::Csv => write_row(query.shown_names(table).iter().map(|name| name.as_bytes()), out),
            Format::Lines | Format::LinesIntsAsText => {}
        }
        let length_at = out.len();
        if format == Format::MessagePack {
            out.extend_from_slice(&0_u32.to_be_bytes());
        }
        Ok(Self { format, schema, table, query, records: 0, length_at, text: Vec::new() })
    }

    /// Appends the selection of a record, a JSON object.
    ///
    /// # Errors
    /// `Corrupt` if it is not one.
    pub fn write(&mut self, json: &[u8], out: &mut Vec<u8>) -> error::Result<()> {
        if matches!(self.format, Format::Json | Format::JsonIntsAsText) && self.records > 0 {
            out.push(b',');
        }
        self.records += 1;
        match self.format {
            Format::Json => out.extend_from_slice(json),
            Format::Lines => {
                out.extend_from_slice(json);
                out.push(b'\n');
            }
            Format::JsonIntsAsText => integers::write_as_text(self.schema, self.table, json, out)?,
            Format::LinesIntsAsText => {
                integers::write_as_text(self.schema, self.table, json, out)?;
                out.push(b'\n');
            }
            Format::Cbor | Format::MessagePack => self.format.write_document(json, out)?,
            Format::Csv => {
                let text = std::str::from_utf8(json).map_err(|error| Error::corrupt(error.to_string()))?;
                let cells = cells(self.table, &mut Reader::new(text));
                let cells = cells.map_err(|fault| Error::corrupt(fault.describe(text)))?;
                write_row(cells.iter().map(|cell| cell.as_bytes()), out);
            }
        }
        Ok(())
    }

    /// Returns whether the output may be sent before the list has ended.
    pub fn comes_in_pieces(&self) -> bool {
        self.format != Format::MessagePack
    }

    /// Ends the list; `out` has the output not sent yet. `total`: the number of records, if requested.
    ///
    /// # Errors
    /// Only in the case of a defect.
    pub fn end(mut self, total: Option<usize>, out: &mut Vec<u8>) -> error::Result<()> {
        match self.format {
            Format::Json | Format::JsonIntsAsText => out.push(b']'),
            Format::Cbor => out.push(CBOR_ARRAY.1),
            // The output is complete: it was not sent in pieces.
            Format::MessagePack => {
                out[self.length_at..self.length_at + 4].copy_from_slice(&self.records.to_be_bytes());
            }
            Format::Lines | Format::LinesIntsAsText | Format::Csv => {}
        }
        let Some(total) = total else { return Ok(()) };
        let (limit, offset) = (self.query.limit.unwrap_or(total), self.query.offset);
        for (member, number) in [("total", total), ("limit", limit), ("offset", offset)] {
            self.text.clear();
            self.text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            if matches!(self.format, Format::Json | Format::JsonIntsAsText) {
                out.push(b',');
            }
            name(member, self.format, out)?;
            self.format.write_document(&self.text, out)?;
        }
        if matches!(self.format, Format::Json | Format::JsonIntsAsText) {
            out.push(b'}');
        }
        Ok(())
    }
}

/// Appends the name of a member, whose value is written next.
fn name(name: &str, format: Format, out: &mut Vec<u8>) -> error::Result<()> {
    format.write_document(format!("\"{name}\"").as_bytes(), out)?;
    if matches!(format, Format::Json | Format::JsonIntsAsText) {
        out.push(b':');
    }
    Ok(())
}

/// Appends a line of values, quoted where necessary.
fn write_row<V: AsRef<[u8]>>(values: impl Iterator<Item = V>, out: &mut Vec<u8>) {
    const IN_MEMORY: &str = "writing to memory does not fail";
    let mut row = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).buffer_capacity(1 << 10).from_writer(out);
    row.write_record(values).expect(IN_MEMORY);
    row.flush().expect(IN_MEMORY);
}

/// Returns the values of an object as CSV cells: empty for null, text unquoted; lists, `Any` and related records as JSON text.
fn cells<'a>(table: &Table, reader: &mut Reader<'a>) -> std::result::Result<Vec<Cow<'a, str>>, Fault> {
    let mut cells = Vec::new();
    reader.take(b'{', "expected an object")?;
    while reader.next_member(cells.is_empty())? {
        let attribute = table.attribute(&reader.text()?).map(|position| &table.attributes[position]);
        reader.take(b':', COLON)?;
        cells.push(match reader.peek() {
            Some(b'"') if attribute.is_some_and(|attribute| attribute.kind != Kind::Any) => reader.text()?,
            _ => match reader.value_text()? {
                "null" => Cow::Borrowed(""),
                json => Cow::Borrowed(json),
            },
        });
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Limits;
    use crate::storage;
    use crate::transaction::Database;

    const SDL: &str =
        "type T @table { id: ID @primaryKey name: String n: Int x: Float free: Any all: [String] day: Date }";

    fn written(format: Format, query: &str, bodies: &[&str]) -> Vec<u8> {
        let schema = Schema::parse(SDL).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), schema.clone(), &storage::Options::default()).unwrap();
        let (schema, table) = (database.schema(), database.table("T").unwrap());
        database.create_all(table, format!("[{}]", bodies.join(",")).as_bytes()).unwrap();
        let (query, mut out) = (Query::parse(schema, table, query, &Limits::in_url(10)).unwrap(), Vec::new());
        let mut list = ListWriter::begin(format, schema, table, &query, &mut out).unwrap();
        let shown = query.show(&database, table, |_, text| list.write(text, &mut out)).unwrap();
        list.end(shown.total, &mut out).unwrap();
        out
    }

    fn text(format: Format, query: &str, bodies: &[&str]) -> String {
        String::from_utf8(written(format, query, bodies)).unwrap()
    }

    const BODIES: [&str; 2] = [
        r#"{"id":"1","name":"a \"b\", c\nd","n":9007199254740993,"x":25,"free":{"k":[1,null]},"all":["x","y"],"day":"2026-01-31"}"#,
        r#"{"id":"2","name":"","free":"text"}"#,
    ];

    #[test]
    fn csv_has_a_header_quotes_what_it_must_and_leaves_null_empty() {
        assert_eq!(
            text(Format::Csv, "", &BODIES),
            "id,name,n,x,free,all,day\r\n\
             1,\"a \"\"b\"\", c\nd\",9007199254740993,25,\"{\"\"k\"\":[1,null]}\",\"[\"\"x\"\",\"\"y\"\"]\",2026-01-31\r\n\
             2,,,,\"\"\"text\"\"\",,\r\n"
        );
        assert_eq!(text(Format::Csv, "select=n,id", &BODIES), "n,id\r\n9007199254740993,1\r\n,2\r\n");
        assert_eq!(text(Format::Csv, "select=id", &[]), "id\r\n");
        let mut reader = csv::Reader::from_reader(&written(Format::Csv, "", &BODIES)[..])
            .into_records()
            .map(|row| row.unwrap())
            .collect::<Vec<_>>();
        assert_eq!((&reader.remove(0)[1], reader.len()), ("a \"b\", c\nd", 1));
    }

    #[test]
    fn lists_of_text_have_their_separators() {
        let of = |format, bodies| text(format, "select=id,n", bodies);
        assert_eq!(of(Format::Json, &BODIES), r#"[{"id":"1","n":9007199254740993},{"id":"2","n":null}]"#);
        assert_eq!(of(Format::JsonIntsAsText, &BODIES), r#"[{"id":"1","n":"9007199254740993"},{"id":"2","n":null}]"#);
        assert_eq!(of(Format::Lines, &BODIES), "{\"id\":\"1\",\"n\":9007199254740993}\n{\"id\":\"2\",\"n\":null}\n");
        assert_eq!(of(Format::LinesIntsAsText, &BODIES[..1]), "{\"id\":\"1\",\"n\":\"9007199254740993\"}\n");
        assert_eq!([of(Format::Json, &[]), of(Format::Lines, &[])], ["[]", ""]);
    }

    #[test]
    fn binary_lists_are_lists_of_the_same_records() {
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json, "", &BODIES)).unwrap();
        let cbor: serde_json::Value = ciborium::from_reader(&written(Format::Cbor, "", &BODIES)[..]).unwrap();
        let message_pack: serde_json::Value =
            rmp_serde::from_slice(&written(Format::MessagePack, "", &BODIES)).unwrap();
        assert_eq!((&cbor, &message_pack), (&json, &json));
        let page = "pagination=true&select=id&limit=1";
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json, page, &BODIES)).unwrap();
        assert_eq!(json, serde_json::json!({"data": [{"id": "1"}], "total": 2, "limit": 1, "offset": 0}));
        let cbor: serde_json::Value = ciborium::from_reader(&written(Format::Cbor, page, &BODIES)[..]).unwrap();
        let message_pack: serde_json::Value =
            rmp_serde::from_slice(&written(Format::MessagePack, page, &BODIES)).unwrap();
        assert_eq!((&cbor, &message_pack), (&json, &json));
        assert_eq!(written(Format::Cbor, "", &[]), [0x9f, 0xff]);
        assert_eq!(written(Format::MessagePack, "", &[]), [0xdd, 0, 0, 0, 0]);
    }
}
