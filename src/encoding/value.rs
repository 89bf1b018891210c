//! A typed value.

use std::borrow::Cow;

use jiff::SignedDuration;
use jiff::civil::{Time, date};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A Boolean.
    Boolean(bool),
    /// An Int.
    Int(i64),
    /// A Float; finite.
    Float(f64),
    /// An ID or a String.
    Text(Cow<'a, str>),
    /// A Date.
    Date(Date<'a>),
    /// A Blob.
    Blob(Blob<'a>),
    /// An `Any`: JSON text without white space.
    Json(Cow<'a, str>),
    /// A list; its elements are not lists.
    List(Vec<Value<'a>>),
}

/// An instant, and its original text.
#[derive(Clone, Debug, PartialEq)]
pub struct Date<'a> {
    /// ISO 8601 date or date-time, as given.
    pub text: Cow<'a, str>,
    /// Microseconds since 1970-01-01T00:00:00Z; a date without a time means midnight.
    pub microseconds: i64,
}

/// A reference to a blob, which is stored separately from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob<'a> {
    /// Its path.
    pub path: Cow<'a, str>,
    /// The number of the upload that created it; 0 in a body, which cannot know it.
    pub upload: u64,
}

impl<'a> Date<'a> {
    /// Parses an ISO 8601 date or date-time; without an offset it is UTC.
    ///
    /// # Errors
    /// A message stating what is accepted.
    pub fn parse(text: impl Into<Cow<'a, str>>) -> std::result::Result<Self, String> {
        let text = text.into();
        let date = Self { microseconds: Value::microseconds_of(&text)?, text };
        date.check().map(|()| date)
    }

    /// Checks what stored dates may fail, since they may be older than this check (RFC 3339, 5.6 and 5.7): an offset is less than a day,
    /// and 60 seconds are a leap second, which ends a month in UTC.
    ///
    /// # Errors
    /// A message stating what is accepted.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let Some((_, time)) = self.text.split_once('T') else { return Ok(()) };
        let (time, offset) = time.split_at(time.find(['+', '-']).unwrap_or(time.len()));
        let offset_fits = offset.len() <= "+23:59".len() && offset.get(1..3).is_none_or(|hours| hours < "24");
        let whole = time.split(['.', 'Z']).next().unwrap_or_default();
        let is_leap = whole.len() >= "235960".len() && whole.ends_with("60");
        match offset_fits && (!is_leap || ends_month(self.microseconds)) {
            true => Ok(()),
            false => Err(refused(&self.text)),
        }
    }
}

/// Returns whether an instant lies in the last second of a month in UTC, as which a leap second is read.
fn ends_month(microseconds: i64) -> bool {
    let next = SignedDuration::from_secs(microseconds.div_euclid(1_000_000) + 1);
    let next = date(1970, 1, 1).to_datetime(Time::midnight()).checked_add(next);
    next.is_ok_and(|next| next.day() == 1 && next.time() == Time::midnight())
}

fn refused(text: &str) -> String {
    format!("{text:?} is not an ISO 8601 date or date-time such as 2026-01-31T12:00:00Z")
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(integer: i64) -> Self {
        Self::Int(integer)
    }
}

impl From<i32> for Value<'_> {
    fn from(integer: i32) -> Self {
        Self::Int(integer.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(integer: u32) -> Self {
        Self::Int(integer.into())
    }
}

impl From<u64> for Value<'_> {
    /// An Int, or above its greatest the nearest Float, which no Int accepts.
    fn from(integer: u64) -> Self {
        i64::try_from(integer).map_or(Self::Float(integer as f64), Self::Int)
    }
}

impl From<usize> for Value<'_> {
    /// As of a `u64`.
    fn from(integer: usize) -> Self {
        Self::from(integer as u64)
    }
}

impl From<f32> for Value<'_> {
    /// The Float with the same shortest digits, as in JSON: 0.1, not 0.10000000149011612.
    fn from(float: f32) -> Self {
        Self::Float(float.to_string().parse().unwrap_or(float.into()))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    /// Null without a value.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

impl<'a, T: Into<Value<'a>>> From<Vec<T>> for Value<'a> {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(T::into).collect())
    }
}

impl From<serde_json::Value> for Value<'_> {
    /// An `Any`.
    fn from(value: serde_json::Value) -> Self {
        Self::Json(value.to_string().into())
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(float: f64) -> Self {
        Self::Float(float)
    }
}

impl From<bool> for Value<'_> {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl<'a> From<Date<'a>> for Value<'a> {
    fn from(date: Date<'a>) -> Self {
        Self::Date(date)
    }
}

impl Value<'_> {
    /// Returns a Boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Boolean(value) = self { Some(*value) } else { None }
    }

    /// Returns an Int.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// Returns a Float.
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    /// Returns the text of an ID, a String, a Date (as written) or an `Any` (JSON), or the path of a Blob.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Json(text) => Some(text),
            Self::Date(date) => Some(&date.text),
            Self::Blob(blob) => Some(&blob.path),
            _ => None,
        }
    }

    /// Returns the elements of a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(values) = self { Some(values) } else { None }
    }

    /// Returns whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the instant of an ISO 8601 date or date-time, also of a stored one (`Date::check`); without an offset it is UTC. A leap
    /// second is read as the second before it.
    ///
    /// # Errors
    /// A message stating what is accepted.
    pub fn microseconds_of(text: &str) -> std::result::Result<i64, String> {
        let plausible = text.len() >= 10 && text.bytes().all(|byte| b"0123456789-+:.TZ".contains(&byte));
        if !plausible {
            return Err(refused(text));
        }
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(instant.as_microsecond());
        }
        // A `Timestamp` ends before the last day of year 9999, which often stands for "never".
        let pieces = Pieces::parse(text).map_err(|_| refused(text))?;
        let (time, offset) = match (pieces.time(), pieces.to_numeric_offset()) {
            (None, Some(_)) => return Err(refused(text)),
            (time, offset) => (time.unwrap_or(Time::midnight()), offset.unwrap_or(Offset::UTC)),
        };
        let since_epoch =
            pieces.date().to_datetime(time).duration_since(date(1970, 1, 1).to_datetime(Time::midnight()));
        let microseconds = since_epoch.as_micros() - i128::from(offset.seconds()) * 1_000_000;
        Ok(i64::try_from(microseconds).expect("years have four digits"))
    }
}
