//! What a program gives as a record: a type of its own, JSON text, or values by name.

mod finite;

use std::borrow::Cow;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::transaction::Body;

/// A record to be written, or the part of one that a merge changes: a reference to any type that serde can serialise, [`Json`], or
/// [`Fields`](crate::Fields). It is checked and coerced like the body of a request.
///
/// ```
/// use strata::{Database, Json, Schema};
///
/// #[derive(serde::Serialize)]
/// struct Note<'a> {
///     id: &'a str,
///     text: &'a str,
/// }
/// let database = Database::temporary(&Schema::parse("type Note @table { id: ID! @primaryKey  text: String }")?)?;
/// let notes = database.table("Note")?;
/// database.create(&notes, &Note { id: "a", text: "of a type" })?;
/// database.create(&notes, Json(r#"{"id": "b", "text": "as text"}"#))?;
/// database.create(&notes, notes.fields().with("id", "c")?.with("text", "by name")?)?;
/// # Ok::<(), strata::Error>(())
/// ```
pub trait Row<'v>: sealed::Row<'v> {}

/// JSON text, as opposed to a value that becomes JSON.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(
    /// The text.
    pub T,
);

pub(super) mod sealed {
    use super::{Body, Result};

    pub trait Row<'v> {
        /// Returns what a verb takes.
        fn body(self) -> Result<Body<'v>>;
    }
}

impl<'v, T: AsRef<[u8]> + ?Sized> sealed::Row<'v> for Json<&'v T> {
    fn body(self) -> Result<Body<'v>> {
        Ok(Body::Json(Cow::Borrowed(self.0.as_ref())))
    }
}

impl<'v, T: AsRef<[u8]> + ?Sized> Row<'v> for Json<&'v T> {}

impl<'v> sealed::Row<'v> for Json<String> {
    fn body(self) -> Result<Body<'v>> {
        Ok(Body::Json(Cow::Owned(self.0.into_bytes())))
    }
}

impl<'v> Row<'v> for Json<String> {}

impl<'v> sealed::Row<'v> for Json<Vec<u8>> {
    fn body(self) -> Result<Body<'v>> {
        Ok(Body::Json(Cow::Owned(self.0)))
    }
}

impl<'v> Row<'v> for Json<Vec<u8>> {}

impl<'v, T: Serialize + ?Sized> sealed::Row<'v> for &T {
    fn body(self) -> Result<Body<'v>> {
        text_of(self).map(|text| Body::Json(Cow::Owned(text)))
    }
}

impl<'v, T: Serialize + ?Sized> Row<'v> for &T {}

/// Returns a value as JSON text.
///
/// # Errors
/// `Invalid`, with a JSON pointer, at a number that is not finite: JSON has none, and serde_json would write null. `Invalid` if the type
/// cannot be serialised.
pub(super) fn text_of<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    finite::check(value)?;
    serde_json::to_vec(value).map_err(|error| Error::invalid(format!("the row cannot be serialised: {error}")))
}
