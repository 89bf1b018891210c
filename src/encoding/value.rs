//! A typed value.

use std::borrow::Cow;

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
        Value::microseconds_of(&text).map(|microseconds| Self { text, microseconds })
    }
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
    /// Returns the instant of an ISO 8601 date or date-time; without an offset it is UTC.
    ///
    /// # Errors
    /// A message stating what is accepted.
    pub fn microseconds_of(text: &str) -> std::result::Result<i64, String> {
        let refused = || format!("{text:?} is not an ISO 8601 date or date-time such as 2026-01-31T12:00:00Z");
        let plausible = text.len() >= 10 && text.bytes().all(|byte| b"0123456789-+:.TZ".contains(&byte));
        if !plausible {
            return Err(refused());
        }
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(instant.as_microsecond());
        }
        // A `Timestamp` ends before the last day of year 9999, which often stands for "never".
        let pieces = Pieces::parse(text).map_err(|_| refused())?;
        let (time, offset) = match (pieces.time(), pieces.to_numeric_offset()) {
            (None, Some(_)) => return Err(refused()),
            (time, offset) => (time.unwrap_or(Time::midnight()), offset.unwrap_or(Offset::UTC)),
        };
        let since_epoch =
            pieces.date().to_datetime(time).duration_since(date(1970, 1, 1).to_datetime(Time::midnight()));
        let microseconds = since_epoch.as_micros() - i128::from(offset.seconds()) * 1_000_000;
        Ok(i64::try_from(microseconds).expect("years have four digits"))
    }
}
