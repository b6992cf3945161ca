//! JSON objects only: a derived struct would also accept a list.

use std::{
    collections::{HashSet, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use crate::error::quote;

struct ObjectOnly<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOnly<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// For the fields and items that are objects.
pub(super) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(ObjectOnly(PhantomData))
}

/// An object of a list, or one that may be null.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

/// For fields that may be null but not absent.
pub(super) fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer)
}

/// For fields that may be absent but not null.
pub(super) fn given<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// An object whose contents are read by others; none of it is kept. The JSON reader's limit of 128 to
/// objects and lists in one another applies to it.
pub(super) struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Passing("an object"))?;
        Ok(Self)
    }
}

/// Any value, passed over.
struct Passed;

impl<'de> Deserialize<'de> for Passed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Passing("a value"))
    }
}

struct Passing(&'static str);

impl<'de> Visitor<'de> for Passing {
    type Value = Passed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_str<E>(self, _: &str) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_unit<E>(self) -> Result<Passed, E> {
        Ok(Passed)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Passed, A::Error> {
        while items.next_element::<Passed>()?.is_some() {}
        Ok(Passed)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Passed, A::Error> {
        // Hashes with a key of this process: no file can make two that are equal.
        let (state, mut seen) = (RandomState::new(), HashSet::new());
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Passed>()?;
            if !seen.insert(state.hash_one(&key)) {
                let key = quote(&key);
                return Err(A::Error::custom(format!(
                    "expected each key once, got {key} twice"
                )));
            }
        }
        Ok(Passed)
    }
}
