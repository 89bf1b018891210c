//! The stored form of a record: its canonical JSON text with offsets of its values, protected by a checksum.
//!
//! ```text
//! 0   version u8 = 1, or 2 with a deadline; layout u8, attributes u16, bytes of JSON u32
//! 8   checksum u64: XXH3-64 of all that follows but the deadline, xor the eight bytes before times 0x9e3779b97f4a7c15, xor the deadline
//!     times 0xc2b2ae3d27d4eb4f
//! 16  JSON: every attribute in schema order, null where there is no value, no white space
//! ..  offset of each value in the JSON: u16, or u32 where the JSON is 64 KiB or longer
//! ..  each Int, Float, Date and Blob of the schema (except lists), in order: eight bytes; zero where null
//! ..  the deadline in a table with an expiration, u64: microseconds since 1970, and the highest bit after a renewal
//! ```
//! All numbers are little-endian: only keys must sort. A read by id returns the JSON unchanged; filters and index keys read single values
//! by offset. A value ends where the next one's `,"name":` begins, which follows from the schema, so ends are not stored. The layout
//! identifies that schema ([`layout`]). The eight bytes of a Blob are the number of its upload: so a record changes with its blobs,
//! although its text does not. A change of any byte is detected as `Corrupt`.
//!
//! A renewal changes the deadline and nothing else. It leaves the validator of the record as it is, which is the checksum without the
//! deadline, and its mark shows readers of the log that the record is as it was ([`is_renewal`]).
//!
//! Canonical text: Int as digits; Float and text as in RFC 8785 (`25` for 25.0); Date as given; `Any` as given without white space; Blob as
//! its path.
//!
//! History: 1, the first. Its layout was always 0 before attributes could change, and no record had a deadline or a Blob. A deadline was
//! part of what was hashed. 2: it is not, in a table with an expiration; records of version 1 are read as if they had this version.

pub mod layout;
mod scalar;

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;
use twox_hash::XxHash3_64;

use super::fields::{Fields, NEVER};
use super::json::{Reader, needs_escape};
use super::value::{Blob, Date, Value};
use super::{RECORDS, coerce};
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Table};
pub use scalar::{Scalar, Slot, Text, is_stored_unescaped};

/// The version of a record without a deadline.
const VERSION: u8 = 1;

/// The version of a record with a deadline.
const EXPIRING: u8 = 2;

/// The mark of a renewal in a deadline, which is not negative.
const RENEWED: u64 = 1 << 63;
const HEADER_BYTES: usize = 16;

/// The maximum length of the JSON text of a record, in bytes: patching it takes a multiple of that in memory, and a tenth of a second.
pub const LONGEST: usize = 64 << 20;

/// Writes a record into `out` and returns it. Attributes missing in `fields` are taken from the record `before`, or are null if there is
/// none.
///
/// # Errors
/// `Invalid` if the JSON text would be longer than [`LONGEST`]; `Corrupt` if `before` is corrupt.
pub fn encode<'t, 'o, B: AsRef<[u8]>>(
    fields: &Fields<'t, '_>,
    before: Option<&Record<'_, B>>,
    out: &'o mut Vec<u8>,
) -> Result<Record<'t, &'o [u8]>> {
    out.clear();
    let record = match before {
        Some(before) => change(fields, before, out)?,
        None => {
            let mut writer = Writer::new(fields.table(), &[], out);
            for field in fields.values() {
                writer.value(field.as_ref().unwrap_or(&Value::Null));
            }
            writer.finish(fields.deadline())?
        }
    };
    match record.json_bytes {
        ..=LONGEST => Ok(record),
        _ => {
            let detail = format!("the record's JSON text is longer than {} MiB", LONGEST >> 20);
            Err(Error::invalid_at("", detail))
        }
    }
}

/// Writes `before` changed by `fields`: the text between two changed values is copied at once.
fn change<'t, 'o, B: AsRef<[u8]>>(
    fields: &Fields<'t, '_>,
    before: &Record<'_, B>,
    out: &'o mut Vec<u8>,
) -> Result<Record<'t, &'o [u8]>> {
    let table = fields.table();
    #[cfg(feature = "plant")]
    crate::plant::burn("encoding");
    let (json, mut offsets, mut slots) = (before.json(), Offsets::new(), Slots::from_slice(before.slots()));
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let mut copied = 0;
    for (position, field) in fields.values().iter().enumerate() {
        let uncopied = before.offset(position)?.checked_sub(copied).ok_or_else(|| outside(table))?;
        offsets.push((out.len() - HEADER_BYTES + uncopied) as u32);
        if let Some(value) = field {
            let replaced = before.range(position)?;
            out.extend_from_slice(&json[copied..replaced.start]);
            write_json(value, out);
            copied = replaced.end;
            if let Some(slot) = table.attributes[position].fixed_width {
                slots[slot] = slot_of(value);
            }
        }
    }
    out.extend_from_slice(&json[copied..]);
    if table.expiration.is_some()
        && let Some(deadline) = slots.last_mut()
    {
        *deadline = slot_of_deadline(fields.deadline());
    }
    finish(table, &offsets, &slots, out, 0)
}

/// Writes the record of a JSON body into `out`, in one pass from text to text, if the body has its attributes in schema order; a missing id
/// is generated by `make_id`. `None` is inconclusive: the body has another order or does not give the expiry of the record, or something in
/// it is invalid, which [`super::body::parse_object`] reports.
pub fn encode_body<'t, 'o>(
    table: &'t Table,
    body: &[u8],
    make_id: impl FnOnce(&mut Vec<u8>),
    out: &'o mut Vec<u8>,
) -> Option<Record<'t, &'o [u8]>> {
    let mut reader = Reader::new(simdutf8::basic::from_utf8(body).ok()?);
    out.clear();
    append_body(table, &mut reader, body, make_id, out)?;
    reader.end().ok()?;
    Record::trusted(table, &out[..]).ok()
}

/// The location of a record in a shared buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its byte range.
    pub bytes: Range<usize>,
    /// Whether its id was generated.
    pub made: bool,
}

/// Like `encode_body` for a JSON array: writes the records into `out`, one after another. After `None`,
/// [`super::body::parse_array`] reports the error.
pub fn encode_bodies(
    table: &Table,
    bodies: &[u8],
    mut make_id: impl FnMut(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Option<Vec<Place>> {
    let mut reader = Reader::new(simdutf8::basic::from_utf8(bodies).ok()?);
    out.clear();
    reader.take(b'[', "").ok()?;
    let mut places = Vec::new();
    while reader.next_element(places.is_empty()).ok()? {
        if places.len() == RECORDS {
            return None;
        }
        let (start, mut made) = (out.len(), false);
        let make_id = |out: &mut Vec<u8>| {
            made = true;
            make_id(out);
        };
        append_body(table, &mut reader, bodies, make_id, out)?;
        places.push(Place { bytes: start..out.len(), made });
    }
    reader.end().ok()?;
    Some(places)
}

/// Parses an object and appends its record; `text` is the whole input of the reader.
fn append_body(
    table: &Table,
    reader: &mut Reader<'_>,
    text: &[u8],
    make_id: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Option<()> {
    if table.expiration.is_some() {
        return None;
    }
    let (mut writer, mut make_id) = (Writer::new(table, text, out), Some(make_id));
    reader.take(b'{', "").ok()?;
    let mut another = reader.next_member(true).ok()?;
    for (position, attribute) in table.attributes.iter().enumerate() {
        let name_at = reader.at();
        let given = another && reader.take_name(&attribute.name);
        if given {
            reader.take(b':', "").ok()?;
            let value_at = reader.at();
            let tight = value_at == name_at + attribute.name.len() + 3;
            if tight && let Some(slot) = coerce::take_canonical(reader, attribute) {
                writer.member(attribute, name_at, value_at..reader.at(), slot);
                another = reader.next_member(false).ok()?;
                continue;
            }
        }
        let value = if given { coerce::given(reader, attribute).ok()? } else { Value::Null };
        match &value {
            Value::Null if position == table.primary_key => writer.id(make_id.take()?),
            Value::Null if attribute.required => return None,
            // A new record has no blobs yet.
            Value::Blob(_) => return None,
            value => writer.value(value),
        }
        if given {
            another = reader.next_member(false).ok()?;
        }
    }
    let whole = !another && writer.finish(NEVER).is_ok_and(|record| record.json_bytes <= LONGEST);
    whole.then_some(())
}

/// The offset of each value in the JSON text.
type Offsets = SmallVec<[u32; 32]>;

/// The eight-byte copies of fixed-width values.
type Slots = SmallVec<[[u8; 8]; 16]>;

/// Writes a record attribute by attribute, in schema order.
struct Writer<'t, 's, 'o> {
    table: &'t Table,
    /// JSON text that contains some of the members in their final form.
    source: &'s [u8],
    /// Pending adjacent members of it, to be copied at once.
    members: Range<usize>,
    out: &'o mut Vec<u8>,
    /// The offset of the record in `out`.
    start: usize,
    offsets: Offsets,
    slots: Slots,
}

impl<'t, 's, 'o> Writer<'t, 's, 'o> {
    /// Begins a record to be appended.
    fn new(table: &'t Table, source: &'s [u8], out: &'o mut Vec<u8>) -> Self {
        #[cfg(feature = "plant")]
        crate::plant::burn("encoding");
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Self { table, source, members: 0..0, out, start, offsets: Offsets::new(), slots: Slots::new() }
    }

    /// Writes the next attribute.
    fn value(&mut self, value: &Value<'_>) {
        let attribute = self.name();
        if attribute.fixed_width.is_some() {
            self.slots.push(slot_of(value));
        }
        write_json(value, self.out);
    }

    /// Writes the next attribute, a generated id.
    fn id(&mut self, make: impl FnOnce(&mut Vec<u8>)) {
        self.name();
        self.out.push(b'"');
        make(self.out);
        self.out.push(b'"');
    }

    /// Copies the next attribute, which is this one, from the source: from the quotation mark of its name to the end of its value.
    #[inline(always)]
    fn member(&mut self, attribute: &Attribute, name_at: usize, value: Range<usize>, slot: [u8; 8]) {
        if self.members.is_empty() || name_at != self.members.end + 1 {
            self.separate();
            self.members.start = name_at;
        }
        self.offset(self.out.len() + value.start - self.members.start);
        if attribute.fixed_width.is_some() {
            self.slots.push(slot);
        }
        self.members.end = value.end;
    }

    /// Writes the name of the next attribute and returns it; its value comes next.
    fn name(&mut self) -> &'t Attribute {
        self.separate();
        let attribute = &self.table.attributes[self.offsets.len()];
        self.out.push(b'"');
        self.out.extend_from_slice(attribute.name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.offset(self.out.len());
        attribute
    }

    /// Writes the pending members, and the separator before the next one.
    #[inline(never)]
    fn separate(&mut self) {
        self.flush();
        self.out.push(if self.offsets.is_empty() { b'{' } else { b',' });
    }

    fn flush(&mut self) {
        if !self.members.is_empty() {
            self.out.extend_from_slice(&self.source[std::mem::take(&mut self.members)]);
        }
    }

    /// Records the offset of the next value.
    #[inline]
    fn offset(&mut self, at: usize) {
        self.offsets.push((at - HEADER_BYTES - self.start) as u32); // An offset that does not fit is rejected by the length limit.
    }

    /// Writes the rest, with the deadline if the table has an expiration.
    fn finish(mut self, deadline: i64) -> Result<Record<'t, &'o [u8]>> {
        self.flush();
        self.out.push(b'}');
        self.slots.extend(self.table.expiration.map(|_| slot_of_deadline(deadline)));
        finish(self.table, &self.offsets, &self.slots, self.out, self.start)
    }
}

/// Writes what follows the text of the record that begins at `start`, and fills in its header.
fn finish<'t, 'o>(
    table: &'t Table,
    offsets: &[u32],
    slots: &[[u8; 8]],
    out: &'o mut Vec<u8>,
    start: usize,
) -> Result<Record<'t, &'o [u8]>> {
    let json_bytes = u32::try_from(out.len() - start - HEADER_BYTES);
    let json_bytes = json_bytes.map_err(|_| Error::invalid_at("", "the record's JSON text is longer than 4 GiB"))?;
    let attributes = u16::try_from(offsets.len()).map_err(|_| Error::invalid("more than 65 535 attributes"))?;
    match offset_width(json_bytes) {
        2 => offsets.iter().for_each(|offset| out.extend_from_slice(&(*offset as u16).to_le_bytes())),
        _ => offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes())),
    }
    out.extend_from_slice(slots.as_flattened());
    let bytes = &mut out[start..];
    bytes[0] = version(table);
    bytes[1] = table.layout;
    bytes[2..4].copy_from_slice(&attributes.to_le_bytes());
    bytes[4..8].copy_from_slice(&json_bytes.to_le_bytes());
    let checksum = checksum(bytes);
    bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
    Ok(Record { table, bytes, json_bytes: json_bytes as usize })
}

/// A stored record whose checksum was verified.
///
/// `B` holds the bytes: borrowed, owned, or pinned in the engine.
#[derive(Clone, Copy, Debug)]
pub struct Record<'t, B> {
    table: &'t Table,
    bytes: B,
    json_bytes: usize,
}

/// The bytes of a record in the current layout of its table.
#[derive(Clone, Debug)]
pub enum Current<B> {
    /// As stored.
    Stored(B),
    /// As they would be if they had been written under the current schema.
    Rewritten(Vec<u8>),
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Current<B> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes.as_ref(),
            Self::Rewritten(bytes) => bytes,
        }
    }
}

impl<'t, B: AsRef<[u8]>> Record<'t, B> {
    /// Verifies stored bytes and reads their header. Those of an earlier layout are rewritten in memory.
    ///
    /// # Errors
    /// `Corrupt` if any byte differs from what was written, or if another version or another schema wrote it.
    pub fn open(table: &'t Table, stored: B) -> Result<Record<'t, Current<B>>> {
        let bytes = stored.as_ref();
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(damaged(table, "it is truncated"));
        };
        if checksum(bytes) != u64::from_le_bytes(*header.last_chunk().expect("8 of 16")) {
            return Err(damaged(table, "its checksum differs"));
        }
        if header[1] != table.layout {
            return layout::rewrite(table, bytes);
        }
        if header[0] != version(table) {
            return layout::with_current_version(table, bytes);
        }
        let json_bytes = check_lengths(table, bytes)?;
        Ok(Record { table, bytes: Current::Stored(stored), json_bytes })
    }

    /// Opens bytes that [`encode`] has just written, without verification.
    ///
    /// # Errors
    /// `Corrupt` if they are shorter than a header.
    pub(crate) fn trusted(table: &'t Table, bytes: B) -> Result<Self> {
        let json_bytes = bytes.as_ref().get(4..).and_then(|rest| rest.first_chunk().copied());
        let json_bytes = json_bytes.ok_or_else(|| damaged(table, "it is truncated"))?;
        Ok(Self { table, json_bytes: u32::from_le_bytes(json_bytes) as usize, bytes })
    }

    /// Returns the upload number of a Blob, if there is one; `None` for an attribute of another type.
    pub fn upload(&self, attribute: usize) -> Option<u64> {
        let slot = Slot::of(self.table, attribute).filter(|_| self.table.attributes[attribute].kind == Kind::Blob)?;
        Some(u64::from_le_bytes(self.bytes_of(slot))).filter(|upload| *upload != 0)
    }

    /// Returns the canonical JSON text.
    pub fn json(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_BYTES..HEADER_BYTES + self.json_bytes]
    }

    /// Returns the id of the record.
    ///
    /// # Errors
    /// `Corrupt` if it is not text.
    pub fn id(&self) -> Result<Cow<'_, str>> {
        self.unescape(self.text(self.table.primary_key)?)
    }

    /// Borrows the record.
    pub fn view(&self) -> Record<'t, &[u8]> {
        Record { table: self.table, bytes: self.bytes.as_ref(), json_bytes: self.json_bytes }
    }

    /// Returns the stored bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns its table.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// Returns the time at which it expires, in microseconds since 1970; `None` if never.
    ///
    /// # Errors
    /// `Corrupt` if the attribute that gives the expiry is not a time.
    #[inline]
    pub fn expires_at(&self) -> Result<Option<i64>> {
        if let Some(attribute) = self.table.expires_at {
            match self.scalar(attribute)? {
                Scalar::Date(microseconds) => return Ok(Some(microseconds)),
                Scalar::Int(milliseconds) => return Ok(Some(milliseconds.saturating_mul(1000))),
                _ => {}
            }
        }
        Ok(self.deadline().filter(|deadline| *deadline != NEVER))
    }

    /// Returns whether it has expired at a time, in microseconds since 1970.
    ///
    /// # Errors
    /// As [`Record::expires_at`].
    #[inline]
    pub fn has_expired(&self, now: i64) -> Result<bool> {
        Ok(self.table.expires() && self.expires_at()?.is_some_and(|at| at <= now))
    }

    /// Returns the deadline derived from the time of writing, or of renewing; `None` in a table without an expiration.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let deadline = || self.slots().last().map(|slot| (u64::from_le_bytes(*slot) & !RENEWED) as i64);
        self.table.expiration.and_then(|_| deadline())
    }

    /// Returns a copy with another deadline, in microseconds since 1970, and the mark of a renewal.
    ///
    /// # Errors
    /// `Invalid` in a table without an expiration.
    pub(crate) fn renewed(&self, deadline: i64) -> Result<Record<'t, Vec<u8>>> {
        let mut bytes = self.bytes().to_vec();
        let slot = bytes.last_chunk_mut().filter(|_| self.table.expiration.is_some());
        let slot = slot.ok_or_else(|| Error::invalid(format!("records of table {} do not expire", self.table.name)))?;
        let renewed = u64::from_le_bytes(slot_of_deadline(deadline)) | RENEWED;
        *slot = renewed.to_le_bytes();
        let checksum = self.checksum() ^ mixed_deadline(renewed);
        bytes[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Ok(Record { table: self.table, bytes, json_bytes: self.json_bytes })
    }

    /// Returns the checksum of everything but the deadline, which changes whenever the record does: its strong validator.
    pub fn checksum(&self) -> u64 {
        let stored = u64::from_le_bytes(*self.bytes.as_ref()[8..].first_chunk().expect("open saw the header"));
        match self.table.expiration.and_then(|_| self.slots().last()) {
            Some(slot) => stored ^ mixed_deadline(u64::from_le_bytes(*slot)),
            None => stored,
        }
    }

    /// Returns the JSON text of one value, by position of its attribute in the schema.
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute; `Corrupt` if the offsets are outside the text.
    pub fn text(&self, attribute: usize) -> Result<&str> {
        let text = std::str::from_utf8(self.json_of(attribute)?);
        text.map_err(|_| damaged(self.table, "an offset lies within a character"))
    }

    /// Returns the JSON text of one value as bytes, to copy or compare: that they are UTF-8 is ensured by the checksum alone.
    ///
    /// # Errors
    /// As [`Record::text`].
    pub fn json_of(&self, attribute: usize) -> Result<&[u8]> {
        self.table.attribute_at(attribute)?;
        Ok(&self.json()[self.range(attribute)?])
    }

    /// Returns one value, by position of its attribute in the schema.
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute; `Corrupt` if the text is not such a value.
    pub fn value(&self, attribute: usize) -> Result<Value<'_>> {
        let described = self.table.attribute_at(attribute)?;
        // Numbers are read from their eight-byte copies, where zero may also mean null; other values must be valid text.
        let slot = described.fixed_width.map_or([0; 8], |slot| self.slots()[slot]);
        let has_text = matches!(described.kind, Kind::Date | Kind::Blob);
        let json = if slot == [0; 8] || has_text { self.json_of(attribute)? } else { b"" };
        match described.kind {
            _ if json.first() == Some(&b'n') => Ok(Value::Null),
            Kind::Boolean if !described.list => Ok(Value::Boolean(json == b"true")),
            Kind::Int if !described.list => Ok(Value::Int(i64::from_le_bytes(slot))),
            Kind::Float if !described.list => Ok(Value::Float(f64::from_le_bytes(slot))),
            _ => self.value_of_text(attribute, described, slot),
        }
    }

    fn value_of_text(&self, attribute: usize, described: &Attribute, slot: [u8; 8]) -> Result<Value<'_>> {
        let text = self.text(attribute)?;
        match described.kind {
            _ if described.list => {
                let bad = |detail| damaged(self.table, &format!("a list does not conform to the schema: {detail}"));
                coerce::parse_canonical(described, text).map_err(bad)
            }
            Kind::Date => Ok(Value::Date(Date { text: self.unescape(text)?, microseconds: i64::from_le_bytes(slot) })),
            Kind::Blob => Ok(Value::Blob(Blob { path: self.unescape(text)?, upload: u64::from_le_bytes(slot) })),
            Kind::Any => Ok(Value::Json(Cow::Borrowed(text))),
            _ => Ok(Value::Text(self.unescape(text)?)),
        }
    }

    fn unescape<'s>(&self, text: &'s str) -> Result<Cow<'s, str>> {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.ok_or_else(|| damaged(self.table, "a text has no quotation marks"))?;
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return Ok(Cow::Borrowed(inner));
        }
        serde_json::from_str(text).map(Cow::Owned).map_err(|_| damaged(self.table, "a text is not escaped correctly"))
    }

    /// Returns the offset of the value of an attribute of the table in the JSON text. What is public checks that there is such an
    /// attribute; filters compile positions beforehand, and a check costs them a tenth of their time.
    #[inline]
    fn offset(&self, attribute: usize) -> Result<usize> {
        let width = offset_width(self.json_bytes as u32);
        let rest = self.bytes.as_ref().get(HEADER_BYTES + self.json_bytes + attribute * width..).unwrap_or_default();
        let offset = match width {
            2 => rest.first_chunk().map(|offset| usize::from(u16::from_le_bytes(*offset))),
            _ => rest.first_chunk().map(|offset| u32::from_le_bytes(*offset) as usize),
        };
        offset.ok_or_else(|| damaged(self.table, "it has fewer attributes than requested"))
    }

    /// Returns the byte range of the value of an attribute in the JSON text.
    #[inline]
    fn range(&self, attribute: usize) -> Result<Range<usize>> {
        let start = self.offset(attribute)?;
        let end = match self.table.attributes.get(attribute + 1) {
            // The separator of two values: , " name " :
            Some(next) => self.offset(attribute + 1)?.checked_sub(next.name.len() + 4),
            None => self.json_bytes.checked_sub(1),
        };
        let end = end.filter(|end| start <= *end && *end <= self.json_bytes);
        end.map(|end| start..end).ok_or_else(|| outside(self.table))
    }

    /// Returns the eight-byte copies of all fixed-width values.
    fn slots(&self) -> &[[u8; 8]] {
        let bytes = self.bytes.as_ref();
        bytes[bytes.len() - self.table.fixed_widths * 8..].as_chunks().0
    }
}

impl<'t, B> Record<'t, B> {
    /// Returns the same record in other memory, which `place` puts its bytes into unchanged.
    pub(crate) fn map<A>(self, place: impl FnOnce(B) -> A) -> Record<'t, A> {
        Record { table: self.table, bytes: place(self.bytes), json_bytes: self.json_bytes }
    }
}

impl<'t> Record<'t, Vec<u8>> {
    /// Returns the canonical JSON text without copying it.
    pub fn into_json(self) -> Bytes {
        Bytes::from(self.bytes).slice(HEADER_BYTES..HEADER_BYTES + self.json_bytes)
    }

    /// Converts the record to shared memory without copying it.
    pub fn into_shared(self) -> Record<'t, Bytes> {
        self.map(Bytes::from)
    }
}

impl Value<'_> {
    /// Converts the value so that it borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Boolean(boolean) => Value::Boolean(boolean),
            Value::Int(integer) => Value::Int(integer),
            Value::Float(float) => Value::Float(float),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Date(date) => {
                Value::Date(Date { text: Cow::Owned(date.text.into_owned()), microseconds: date.microseconds })
            }
            Value::Blob(blob) => Value::Blob(Blob { path: Cow::Owned(blob.path.into_owned()), upload: blob.upload }),
            Value::Json(text) => Value::Json(Cow::Owned(text.into_owned())),
            Value::List(elements) => Value::List(elements.into_iter().map(Value::into_owned).collect()),
        }
    }
}

/// Returns the length of the JSON text, if all lengths are consistent with a record of the table.
#[inline]
fn check_lengths(table: &Table, bytes: &[u8]) -> Result<usize> {
    let attributes = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    let json_bytes = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let offset_bytes = attributes * offset_width(json_bytes);
    let expected = HEADER_BYTES + json_bytes as usize + offset_bytes + table.fixed_widths * 8;
    if attributes != table.attributes.len() || bytes.len() != expected {
        return Err(damaged(table, "it was written under another schema"));
    }
    Ok(json_bytes as usize)
}

#[cold]
fn damaged(table: &Table, how: &str) -> Error {
    Error::corrupt(format!("a record of table {}: {how}", table.name))
}

#[cold]
fn outside(table: &Table) -> Error {
    damaged(table, "its offsets lie outside its text")
}

/// Multiplying eight bytes by an odd number is a bijection, so a change of any bit changes the checksum.
fn checksum(bytes: &[u8]) -> u64 {
    let header = u64::from_le_bytes(*bytes.first_chunk().expect("a header has 16 bytes"));
    let rest = &bytes[HEADER_BYTES..];
    let (hashed, deadline) = match rest.split_last_chunk() {
        Some((hashed, slot)) if bytes[0] == EXPIRING => (hashed, mixed_deadline(u64::from_le_bytes(*slot))),
        _ => (rest, 0),
    };
    XxHash3_64::oneshot(hashed) ^ header.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ deadline
}

fn mixed_deadline(slot: u64) -> u64 {
    slot.wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
}

fn slot_of_deadline(microseconds: i64) -> [u8; 8] {
    microseconds.max(0).to_le_bytes()
}

/// Returns the version of the records that are written into a table.
fn version(table: &Table) -> u8 {
    if table.expiration.is_some() { EXPIRING } else { VERSION }
}

/// Returns whether stored bytes were written by a renewal: but for its deadline, the record is as it was before.
pub fn is_renewal(stored: &[u8]) -> bool {
    stored.first() == Some(&EXPIRING) && stored.last().is_some_and(|last| last & 0x80 != 0)
}

/// Returns the width of an offset into a text of `json_bytes` bytes.
fn offset_width(json_bytes: u32) -> usize {
    if json_bytes > u32::from(u16::MAX) { 4 } else { 2 }
}

fn slot_of(value: &Value<'_>) -> [u8; 8] {
    match value {
        Value::Int(integer) => integer.to_le_bytes(),
        Value::Float(float) => (float + 0.0).to_le_bytes(), // A single zero, as in the text: -0.0 + 0.0 is 0.0.
        Value::Date(date) => date.microseconds.to_le_bytes(),
        Value::Blob(blob) => blob.upload.to_le_bytes(),
        _ => [0; 8],
    }
}

/// Appends the canonical JSON text of a value.
fn write_json(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(boolean) => out.extend_from_slice(if *boolean { b"true" } else { b"false" }),
        Value::Int(integer) => out.extend_from_slice(itoa::Buffer::new().format(*integer).as_bytes()),
        Value::Float(float) => write_float(*float, out),
        Value::Text(text) | Value::Date(Date { text, .. }) | Value::Blob(Blob { path: text, .. }) => {
            write_text(text, out);
        }
        Value::Json(text) => out.extend_from_slice(text.as_bytes()),
        Value::List(elements) => {
            out.push(b'[');
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_json(element, out);
            }
            out.push(b']');
        }
    }
}

/// Appends a finite number as in RFC 8785. Most numbers have few decimals, for which there is a fast path: if the double nearest to n /
/// 10^d is this one and n has at most 15 digits, then no other decimal number with so few digits is as near, so n / 10^d with the least d
/// is its shortest representation.
fn write_float(float: f64, out: &mut Vec<u8>) {
    for scale in [1, 10, 100, 1000, 10_000u64] {
        let scaled = float.abs() * scale as f64 + 0.5;
        let nearest = scaled as u64;
        if scaled < 1e15 && nearest as f64 / scale as f64 == float.abs() {
            let mut digits = itoa::Buffer::new();
            if float < 0.0 {
                out.push(b'-');
            }
            out.extend_from_slice(digits.format(nearest / scale).as_bytes());
            if scale > 1 {
                // The digits of 10^d plus the fraction without the leading 1: this keeps the leading zeros of the fraction.
                out.push(b'.');
                out.extend_from_slice(&digits.format(scale + nearest % scale).as_bytes()[1..]);
            }
            return;
        }
    }
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(float).as_bytes());
}

/// Appends quoted text, escaped as in RFC 8785.
fn write_text(text: &str, out: &mut Vec<u8>) {
    if needs_escape(text) {
        serde_json::to_writer(out, text).expect("writing to memory does not fail");
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests;
