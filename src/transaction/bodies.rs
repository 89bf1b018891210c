//! Turns the JSON of requests into complete records, checked before any lock is taken.
//!
//! Missing ids are generated here, and the times that the server maintains are filled in. What depends on the existing record is left to
//! the verbs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use jiff::Timestamp;

use super::KnownKeys;
use super::ids::Maker;
use super::{Owned, Shared, below, uniques};
use crate::encoding::body::{parse_array, parse_object};
use crate::encoding::value::{Date, Value};
use crate::encoding::{Fields, NEVER, Record, record, url};
use crate::error::{Error, Result};
use crate::schema::{Kind, Stamp, Table};

/// An id longer than this is refused.
const ID_BYTES: usize = 1024;

/// A record to be created.
pub(super) struct New<'t> {
    pub(super) record: Shared<'t>,
    /// Whether its id was generated.
    pub(super) made: bool,
}

impl<'t> New<'t> {
    /// Adds the keys that it needs.
    ///
    /// # Errors
    /// `Corrupt`, which would be a defect.
    pub(super) fn name_keys(&self, known: &mut KnownKeys<'_>) -> Result<()> {
        let table = self.record.table();
        if !self.made {
            known.add_record(table, &self.record.id()?);
        }
        for index in uniques::of(table) {
            if let Some(entry) = uniques::entry(index, &self.record.value(index.attribute)?) {
                known.add_entry(index, entry);
            }
        }
        Ok(())
    }

    pub(super) fn into_record(self) -> Shared<'t> {
        self.record
    }
}

/// What a program gives as a record, or as a part of one.
#[derive(Clone, Debug)]
pub enum Body<'v> {
    /// The text of a JSON object.
    Json(Cow<'v, [u8]>),
    /// Values of attributes, which are not coerced.
    Fields(Fields<'v, 'v>),
}

impl Body<'_> {
    /// Returns its values for a table.
    ///
    /// # Errors
    /// `Invalid` if it is not an object of the table, or has values of another one.
    pub(crate) fn fields<'t>(&self, table: &'t Table) -> Result<Fields<'t, '_>> {
        match self {
            Self::Json(text) => parse_object(table, text),
            Self::Fields(fields) => fields.of_same(table),
        }
    }

    /// Encodes it as a new record.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) fn encode<'t>(&self, table: &'t Table, now: i64) -> Result<New<'t>> {
        if let Self::Json(text) = self {
            return encode_one(table, text, now);
        }
        let (record, made) = encode_new(self.fields(table)?, now)?;
        Ok(New { record: record.into_shared(), made })
    }
}

/// A record that replaces the one with its id, or is created.
pub(super) struct Whole<'t, 'v> {
    /// The id in the body; if `None`, one is generated.
    pub(super) id: Option<String>,
    pub(super) fields: Fields<'t, 'v>,
}

impl<'t, 'v> Whole<'t, 'v> {
    /// Parses a JSON array of objects.
    ///
    /// # Errors
    /// `Invalid`, with the index of the element at the start of pointers, among others for an id that is not valid or occurs twice.
    pub(super) fn parse_all(table: &'t Table, bodies: &'v [u8]) -> Result<Vec<Self>> {
        let mut places = HashMap::new();
        let parsed = parse_array(table, bodies)?.into_iter().enumerate().map(|(position, fields)| {
            let Some(Value::Text(id)) = &fields.values()[table.primary_key] else {
                return Ok(Self { id: None, fields });
            };
            check_id(table, id).map_err(|error| below(position, error))?;
            if let Some(first) = places.insert(id.clone().into_owned(), position) {
                let place = format!("/{position}{}", table.pointer(table.primary_key));
                return Err(Error::invalid_at(place, format!("element {first} has the same id {id:?}")));
            }
            Ok(Self { id: Some(id.clone().into_owned()), fields })
        });
        parsed.collect()
    }

    /// Adds the keys that it needs.
    pub(super) fn name_keys(&self, known: &mut KnownKeys<'_>) {
        let table = self.fields.table();
        if let Some(id) = &self.id {
            known.add_record(table, id);
        }
        for index in uniques::of(table) {
            let value = self.fields.values()[index.attribute].as_ref();
            if let Some(entry) = value.and_then(|value| uniques::entry(index, value)) {
                known.add_entry(index, entry);
            }
        }
    }
}

/// Encodes a record from a JSON object.
///
/// # Errors
/// `Invalid`.
pub(super) fn encode_one<'t>(table: &'t Table, body: &[u8], now: i64) -> Result<New<'t>> {
    encode_body(table, body, || now).map(|(record, made)| New { record: record.into_shared(), made })
}

/// Encodes a record from a JSON object; the flag is true if its id was generated.
pub(super) fn encode_body<'t>(table: &'t Table, body: &[u8], now: impl FnOnce() -> i64) -> Result<(Owned<'t>, bool)> {
    let mut out = Vec::with_capacity(body.len() + 32 * table.attributes.len());
    let mut made = false;
    let make_id = |out: &mut Vec<u8>| {
        made = true;
        Maker::of(table).write(out);
    };
    // In one pass, if the server adds nothing and the body is in the usual order.
    if is_stamped(table) || record::encode_body(table, body, make_id, &mut out).is_none() {
        return encode_new(parse_object(table, body)?, now());
    }
    Ok((Record::trusted(table, out)?, made))
}

/// Encodes records from a JSON array of objects.
///
/// # Errors
/// `Invalid`, with the index of the element at the start of pointers.
pub(super) fn encode_all<'t>(table: &'t Table, bodies: &[u8], now: i64) -> Result<Vec<New<'t>>> {
    // Room for the overhead of a record, unless bodies are very short.
    let mut out = Vec::with_capacity(bodies.len() + bodies.len() / 4);
    let ids = Maker::of(table);
    let places = match is_stamped(table) {
        true => None,
        false => record::encode_bodies(table, bodies, |out| ids.write(out), &mut out),
    };
    let Some(places) = places else {
        let encoded = parse_array(table, bodies)?.into_iter().enumerate().map(|(position, fields)| {
            let (record, made) = encode_new(fields, now).map_err(|error| below(position, error))?;
            Ok(New { record: record.into_shared(), made })
        });
        return encoded.collect();
    };
    let memory = Bytes::from(out);
    let encoded = places.into_iter().map(|place| {
        let record = Record::trusted(table, memory.slice(place.bytes))?;
        Ok(New { record, made: place.made })
    });
    encoded.collect()
}

/// Encodes a JSON object as the record with an id.
///
/// # Errors
/// `Invalid`.
pub(super) fn encode_under<'t>(table: &'t Table, id: &str, body: &[u8], now: i64) -> Result<Owned<'t>> {
    check_id(table, id)?;
    let mut fields = parse_object(table, body)?;
    check_same_id(id, &fields)?;
    fields.values_mut()[table.primary_key] = Some(Value::Text(Cow::Borrowed(id)));
    encode_new(fields, now).map(|(record, _)| record)
}

/// Encodes a new record; the flag is true if its id was generated.
pub(super) fn encode_new<'t>(mut fields: Fields<'t, '_>, now: i64) -> Result<(Owned<'t>, bool)> {
    let table = fields.table();
    let id = &mut fields.values_mut()[table.primary_key];
    let made = matches!(id, None | Some(Value::Null));
    if made {
        *id = Some(Value::Text(Cow::Owned(Maker::of(table).make().to_string())));
    }
    stamp(&mut fields, None::<&Owned<'_>>, now)?;
    keep_blobs(&mut fields, None::<&Owned<'_>>)?;
    check_required(&fields)?;
    let mut out = Vec::with_capacity(1280);
    record::encode(&fields, None::<&Owned<'_>>, &mut out)?;
    Ok((Record::trusted(table, out)?, made))
}

/// Returns whether the server maintains times in the records of a table.
fn is_stamped(table: &Table) -> bool {
    table.expiration.is_some() || table.attributes.iter().any(|attribute| attribute.stamp.is_some())
}

/// Fills in the times that the server maintains, of which those of attributes are ignored in a body. Attributes that a replacement omits
/// are null already.
///
/// # Errors
/// `Invalid` if the body gives a time to live that there is not; `Corrupt`.
pub(super) fn stamp<B: AsRef<[u8]>>(
    fields: &mut Fields<'_, '_>,
    before: Option<&Record<'_, B>>,
    now: i64,
) -> Result<()> {
    let table = fields.table();
    if !is_stamped(table) {
        return Ok(());
    }
    if let Some(expiration) = table.expiration {
        let seconds = match table.ttl.map(|attribute| (attribute, &fields.values()[attribute])) {
            Some((_, Some(Value::Int(seconds)))) if TIMES_TO_LIVE.contains(seconds) => *seconds as u64,
            Some((attribute, Some(Value::Int(seconds)))) => {
                let (least, most) = TIMES_TO_LIVE.into_inner();
                let detail = format!("a time to live is {least} to {most} seconds, not {seconds}");
                return Err(Error::invalid_at(table.pointer(attribute), detail));
            }
            Some((_, None)) if let Some(before) = before => seconds_to_live(before)?,
            _ => expiration,
        };
        fields.set_deadline(now.saturating_add(microseconds(seconds)));
    }
    for (attribute, field) in table.attributes.iter().zip(fields.values_mut()) {
        let kept = attribute.stamp == Some(Stamp::Created) && before.is_some();
        if kept {
            *field = None;
        } else if attribute.stamp.is_some() {
            let millisecond = now.div_euclid(1000);
            let instant = Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::MAX);
            *field = Some(match attribute.kind {
                Kind::Int => Value::Int(millisecond),
                _ => Value::Date(Date {
                    text: Cow::Owned(format!("{instant:.3}")),
                    microseconds: instant.as_microsecond(),
                }),
            });
        }
    }
    Ok(())
}

/// The valid range of a time to live that a record gives, in seconds: at most a year.
const TIMES_TO_LIVE: RangeInclusive<i64> = 1..=365 * 24 * 60 * 60;

/// Returns the time to live of a stored record, in microseconds; `None` if it gives its expiry itself, or its table has no expiration.
///
/// # Errors
/// `Corrupt`.
pub(super) fn time_to_live<B: AsRef<[u8]>>(record: &Record<'_, B>) -> Result<Option<i64>> {
    let table = record.table();
    let gives_expiry = || table.expires_at.map_or(Ok(false), |at| record.value(at).map(|value| value != Value::Null));
    match table.expiration.is_none() || gives_expiry()? {
        true => Ok(None),
        false => Ok(Some(microseconds(seconds_to_live(record)?))),
    }
}

/// Returns the time to live that a stored record gives, else that of its table: it may have been written before an attribute gave it.
fn seconds_to_live<B: AsRef<[u8]>>(record: &Record<'_, B>) -> Result<u64> {
    let table = record.table();
    match table.ttl.map(|attribute| record.value(attribute)).transpose()? {
        Some(Value::Int(seconds)) if TIMES_TO_LIVE.contains(&seconds) => Ok(seconds as u64),
        _ => Ok(table.expiration.unwrap_or_default()),
    }
}

fn microseconds(seconds: u64) -> i64 {
    i64::try_from(seconds).map_or(NEVER, |seconds| seconds.saturating_mul(1_000_000))
}

/// Checks the id of a record that is to be written as a whole. Stored ones may fail it, since they may be older than the check.
pub(super) fn check_id(table: &Table, id: &str) -> Result<()> {
    let detail = match id.len() {
        1..=ID_BYTES if !url::is_dot_segment(id) => return Ok(()),
        1..=ID_BYTES => {
            format!("no URL can carry the id {id:?}, because clients remove it from the path: choose another")
        }
        bytes => format!("an id has 1 to {ID_BYTES} bytes, not {bytes}"),
    };
    Err(Error::invalid_at(table.pointer(table.primary_key), detail))
}

/// Checks that the body does not contradict the id of the path; it may repeat it.
pub(super) fn check_same_id(id: &str, fields: &Fields<'_, '_>) -> Result<()> {
    let table = fields.table();
    match &fields.values()[table.primary_key] {
        Some(Value::Text(other)) if other != id => {
            let detail = format!("the body's id {other:?} is not the path's id {id:?}");
            Err(Error::invalid_at(table.pointer(table.primary_key), detail))
        }
        _ => Ok(()),
    }
}

/// Allows a body to repeat the path of an existing blob, which is then kept, but not to name another.
pub(super) fn keep_blobs<B: AsRef<[u8]>>(fields: &mut Fields<'_, '_>, before: Option<&Record<'_, B>>) -> Result<()> {
    let table = fields.table();
    for &attribute in &table.blobs {
        let Some(Value::Blob(given)) = &fields.values()[attribute] else { continue };
        let is_there = match before.map(|before| before.value(attribute)).transpose()? {
            Some(Value::Blob(blob)) => blob.path == given.path,
            _ => false,
        };
        if !is_there {
            let detail = "a Blob in a body must be null or its current path: PUT the bytes to that path";
            return Err(Error::invalid_at(table.pointer(attribute), detail));
        }
        fields.values_mut()[attribute] = None;
    }
    Ok(())
}

/// Checks that a complete record has all required values.
pub(super) fn check_required(fields: &Fields<'_, '_>) -> Result<()> {
    let table = fields.table();
    for (position, attribute) in table.attributes.iter().enumerate() {
        let filled = attribute.stamp.is_some() || position == table.primary_key;
        if attribute.required && !filled && matches!(fields.values()[position], None | Some(Value::Null)) {
            return Err(Error::invalid_at(table.pointer(position), format!("{} is required", attribute.name)));
        }
    }
    Ok(())
}

/// Checks that a patch removes no required value.
pub(super) fn check_not_null(fields: &Fields<'_, '_>) -> Result<()> {
    let table = fields.table();
    for (position, attribute) in table.attributes.iter().enumerate() {
        if attribute.required && fields.values()[position] == Some(Value::Null) {
            return Err(Error::invalid_at(table.pointer(position), format!("{} is required", attribute.name)));
        }
    }
    Ok(())
}

/// Checks that a patch of many records does not set the id and removes no required value.
///
/// # Errors
/// `Invalid`.
pub(crate) fn check_patch_of_many(fields: &Fields<'_, '_>) -> Result<()> {
    let table = fields.table();
    if fields.values()[table.primary_key].is_some() {
        let detail = "the id of several records cannot be set at once".to_owned();
        return Err(Error::invalid_at(table.pointer(table.primary_key), detail));
    }
    check_not_null(fields)
}
