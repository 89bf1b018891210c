//! Keys that had one value in results of before, and have a list of them now.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a list, or one value as a list of it.
pub(super) fn one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(OneOrMore(PhantomData))
}

struct OneOrMore<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, one: A) -> Result<Vec<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(one)).map(|one| vec![one])
    }

    fn visit_u64<E: Error>(self, one: u64) -> Result<Vec<T>, E> {
        T::deserialize(one.into_deserializer()).map(|one| vec![one])
    }

    fn visit_i64<E: Error>(self, one: i64) -> Result<Vec<T>, E> {
        T::deserialize(one.into_deserializer()).map(|one| vec![one])
    }
}
