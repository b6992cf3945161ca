//! The header's JSON, with each name once and no field that the format does not have.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::error::quote;

const METADATA: &str = "__metadata__";

/// The header as written: well-formed JSON, nothing else checked.
#[derive(Default)]
pub(super) struct RawHeader {
    pub(super) tensors: BTreeMap<String, RawTensor>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// A tensor's entry as written.
pub(super) struct RawTensor {
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a tensor under each name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut header = RawHeader::default();
        let mut has_metadata = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                refuse_twice(has_metadata, METADATA)?;
                has_metadata = true;
                let texts: Option<Texts> = map.next_value().map_err(inside(METADATA))?;
                header.metadata = texts.unwrap_or_default().0;
            } else {
                refuse_twice(header.tensors.contains_key(&name), &name)?;
                let tensor = map.next_value().map_err(inside(&name))?;
                header.tensors.insert(name, tensor);
            }
        }
        Ok(header)
    }
}

fn refuse_twice<E: Error>(twice: bool, name: &str) -> Result<(), E> {
    if twice {
        let name = quote(name);
        return Err(E::custom(format!(
            "{name} is there twice: expected each name once"
        )));
    }
    Ok(())
}

/// Says in which entry of the header an error lies.
fn inside<E: Error>(name: &str) -> impl FnOnce(E) -> E {
    let name = quote(name);
    move |error| E::custom(format!("{name}: {error}"))
}

/// Calls a visitor with an object, and with nothing else: a derived struct would take an array too.
struct ObjectOnly<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOnly<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de> Deserialize<'de> for RawTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            dtype: String,
            shape: Vec<u64>,
            data_offsets: (u64, u64),
        }
        let fields: Fields = deserializer.deserialize_map(ObjectOnly(PhantomData))?;
        Ok(Self {
            dtype: fields.dtype,
            shape: fields.shape,
            data_offsets: fields.data_offsets,
        })
    }
}

/// An object of texts.
#[derive(Default)]
struct Texts(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor).map(Self)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a text under each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            refuse_twice(texts.contains_key(&key), &key)?;
            let text = map.next_value().map_err(inside(&key))?;
            texts.insert(key, text);
        }
        Ok(texts)
    }
}
