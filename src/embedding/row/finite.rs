//! Looks for numbers in a value that JSON does not have: a serializer that writes nothing.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

use crate::error::{Error, Result};

/// Checks that all floats within a value are finite.
///
/// # Errors
/// `Invalid`, with a JSON pointer to the first that is not.
pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    let mut looking = Looking { place: Vec::new(), found: None };
    match (value.serialize(&mut looking), looking.found) {
        (Err(_), Some(float)) => {
            let place: Vec<_> = looking.place.iter().map(|name| name.replace('~', "~0").replace('/', "~1")).collect();
            let pointer = place.iter().flat_map(|name| ["/", name]).collect::<String>();
            Err(Error::invalid_at(pointer, format!("{float} is not a finite number")))
        }
        // Any other refusal is that of the type, and comes again when it is written.
        _ => Ok(()),
    }
}

struct Looking {
    /// The names of the members, and the numbers of the elements, that lead to where it looks.
    place: Vec<String>,
    found: Option<f64>,
}

/// It has come to a float that is not finite, or the type refuses.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Stopped {}

impl ser::Error for Stopped {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Outcome = std::result::Result<(), Stopped>;

/// The inside of a list, a map or a struct.
struct Within<'l> {
    looking: &'l mut Looking,
    /// The number of the next element.
    next: usize,
}

impl<'l> Within<'l> {
    #[expect(clippy::unnecessary_wraps, reason = "what serde asks for")]
    fn of(looking: &'l mut Looking) -> std::result::Result<Self, Stopped> {
        Ok(Self { looking, next: 0 })
    }

    fn at<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Outcome {
        self.looking.place.push(name);
        value.serialize(&mut *self.looking)?;
        self.looking.place.pop();
        Ok(())
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        self.next += 1;
        self.at((self.next - 1).to_string(), value)
    }
}

macro_rules! nothing_to_see {
    ($($name:ident: $type:ty),*) => { $(fn $name(self, _: $type) -> Outcome { Ok(()) })* };
}

macro_rules! opened {
    ($($name:ident -> $($argument:ty),*;)*) => {
        $(fn $name(self, $(_: $argument),*) -> std::result::Result<Within<'l>, Stopped> { Within::of(self) })*
    };
}

impl<'l> Serializer for &'l mut Looking {
    type Ok = ();
    type Error = Stopped;
    type SerializeSeq = Within<'l>;
    type SerializeTuple = Within<'l>;
    type SerializeTupleStruct = Within<'l>;
    type SerializeTupleVariant = Within<'l>;
    type SerializeMap = Within<'l>;
    type SerializeStruct = Within<'l>;
    type SerializeStructVariant = Within<'l>;

    nothing_to_see!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str
    );

    opened!(
        serialize_seq -> Option<usize>;
        serialize_tuple -> usize;
        serialize_tuple_struct -> &'static str, usize;
        serialize_tuple_variant -> &'static str, u32, &'static str, usize;
        serialize_map -> Option<usize>;
        serialize_struct -> &'static str, usize;
        serialize_struct_variant -> &'static str, u32, &'static str, usize;
    );

    fn serialize_f32(self, float: f32) -> Outcome {
        self.serialize_f64(float.into())
    }

    fn serialize_f64(self, float: f64) -> Outcome {
        if float.is_finite() {
            return Ok(());
        }
        self.found = Some(float);
        Err(Stopped)
    }

    fn serialize_none(self) -> Outcome {
        Ok(())
    }

    fn serialize_unit(self) -> Outcome {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Outcome {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Outcome {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Outcome {
        Within::of(self)?.at(variant.to_owned(), value)
    }
}

macro_rules! within {
    ($($trait:ident { $($method:item)* })*) => { $(impl ser::$trait for Within<'_> {
        type Ok = ();
        type Error = Stopped;

        $($method)*

        fn end(self) -> Outcome {
            Ok(())
        }
    })* };
}

within! {
    SerializeSeq {
        fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
            self.element(value)
        }
    }
    SerializeTuple {
        fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
            self.element(value)
        }
    }
    SerializeTupleStruct {
        fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
            self.element(value)
        }
    }
    SerializeTupleVariant {
        fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
            self.element(value)
        }
    }
    SerializeStruct {
        fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Outcome {
            self.at(name.to_owned(), value)
        }
    }
    SerializeStructVariant {
        fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Outcome {
            self.at(name.to_owned(), value)
        }
    }
    SerializeMap {
        fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Outcome {
            // As it stands in the text; a key that is no text is refused when it is written.
            let name = serde_json::to_value(key).ok().and_then(|key| key.as_str().map(str::to_owned));
            self.looking.place.push(name.unwrap_or_default());
            Ok(())
        }

        fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
            value.serialize(&mut *self.looking)?;
            self.looking.place.pop();
            Ok(())
        }
    }
}
