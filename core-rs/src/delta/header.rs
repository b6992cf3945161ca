//! The header of a delta.

use std::mem::discriminant;

use serde::Deserialize;

use super::{
    error::DeltaError,
    extensions::{Control, Privacy, check_extensions},
    object::{Anything, Object, given, object, present},
    terms::Term,
};
use crate::{error::quote, safetensors::limits::MAX_DIMENSIONS};

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Without a privacy record and parents.
    One,
    /// With both, and more measurements.
    Two,
}

/// What a reader needs of a delta's header; what else it has is checked and stays in its text.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaHeader {
    /// Whether every term is a low-rank one.
    pub low_rank: bool,
    /// BLAKE3 over the base's tensors, 64 hexadecimal digits.
    pub base_identity: String,
    /// The tensors by name.
    pub tensors: Vec<DeltaTensor>,
}

/// A tensor of the base in the delta.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltaTensor {
    /// Its name in the base.
    pub name: String,
    /// Its shape in the base.
    pub shape: Vec<u64>,
    /// The terms whose sum is its change.
    pub terms: Vec<Term>,
}

#[derive(Deserialize, PartialEq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Form {
    LowRank,
    Dense,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Told {
    form: Form,
    #[serde(deserialize_with = "object")]
    base: Base,
    tensors: Vec<Object<DeltaTensor>>,
    #[serde(rename = "recipe")]
    _recipe: Anything,
    #[serde(rename = "seed", deserialize_with = "present")]
    _seed: Option<i64>,
    #[serde(deserialize_with = "present")]
    data: Option<String>,
    #[serde(deserialize_with = "present")]
    pub(super) privacy: Option<Object<Privacy>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) parents: Option<Vec<String>>,
    #[serde(rename = "tool")]
    _tool: String,
    #[serde(deserialize_with = "present")]
    pub(super) quality: Option<Object<Quality>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    identity: String,
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "revision", deserialize_with = "present")]
    _revision: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quality {
    rows: u64,
    tokens: u64,
    #[serde(rename = "base")]
    _base: f64,
    #[serde(rename = "tuned", deserialize_with = "present")]
    _tuned: Option<f64>,
    #[serde(rename = "delta")]
    _delta: f64,
    #[serde(rename = "recovered", deserialize_with = "present")]
    _recovered: Option<f64>,
    #[serde(rename = "kl", deserialize_with = "present")]
    _kl: Option<f64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) top1: Option<f64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) drift: Option<f64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) controls: Option<Vec<Object<Control>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) right: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) kept: Option<u64>,
}

/// Parses and checks the JSON of a header of a version.
pub(super) fn parse(text: &str, version: Version) -> Result<DeltaHeader, DeltaError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let told: Told = object(&mut reader).map_err(|error| DeltaError::json(&error))?;
    reader.end().map_err(|error| DeltaError::json(&error))?;
    check_extensions(&told, version)?;
    for (what, digits) in [
        ("base.identity", Some(&told.base.identity)),
        ("data", told.data.as_ref()),
    ] {
        check_hex(what, digits)?;
    }
    for (what, count) in told
        .quality
        .iter()
        .flat_map(|Object(q)| [("rows", q.rows), ("tokens", q.tokens)])
    {
        if count == 0 {
            let what = format!("header: quality.{what}");
            return Err(DeltaError::wrong(what, "at least 1", "0".to_owned()));
        }
    }
    let tensors: Vec<_> = told
        .tensors
        .into_iter()
        .map(|Object(tensor)| tensor)
        .collect();
    tensors.iter().try_for_each(check_tensor)?;
    check_names(&tensors)?;
    let low_rank = check_form(told.form, &tensors)?;
    Ok(DeltaHeader {
        low_rank,
        base_identity: told.base.identity,
        tensors,
    })
}

pub(super) fn check_hex(what: &str, digits: Option<&String>) -> Result<(), DeltaError> {
    let Some(digits) = digits else {
        return Ok(());
    };
    let right = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() == 64 && digits.bytes().all(right) {
        return Ok(());
    }
    let what = format!("header: {what}");
    Err(DeltaError::wrong(
        what,
        "64 hexadecimal digits in lower case",
        quote(digits),
    ))
}

fn check_names(tensors: &[DeltaTensor]) -> Result<(), DeltaError> {
    for pair in tensors.windows(2) {
        if pair[0].name >= pair[1].name {
            let expected = format!(
                "each name once, in order, and after {}",
                quote(&pair[0].name)
            );
            let what = "header: tensors".to_owned();
            return Err(DeltaError::wrong(what, &expected, quote(&pair[1].name)));
        }
    }
    Ok(())
}

/// Checks one tensor on its own.
fn check_tensor(tensor: &DeltaTensor) -> Result<(), DeltaError> {
    let wrong = |expected: &str, got: String| {
        let what = format!("header: tensor {}", quote(&tensor.name));
        Err(DeltaError::wrong(what, expected, got))
    };
    if tensor.name.is_empty() {
        return wrong("a name", "none".to_owned());
    }
    if tensor.shape.contains(&0) || tensor.shape.len() > MAX_DIMENSIONS {
        return wrong(
            "a shape of at most 64 sizes from 1",
            format!("{} sizes", tensor.shape.len()),
        );
    }
    let mut kinds: Vec<_> = Vec::new();
    for term in &tensor.terms {
        if kinds.contains(&discriminant(term)) {
            return wrong("one term of a kind", "two".to_owned());
        }
        kinds.push(discriminant(term));
    }
    let has = |wanted: fn(&Term) -> bool| tensor.terms.iter().any(wanted);
    if has(|term| matches!(term, Term::LowRank { .. })) && tensor.shape.len() != 2 {
        return wrong("two dimensions", tensor.shape.len().to_string());
    }
    if has(|term| matches!(term, Term::Sparse { .. })) && tensor.terms.len() > 1 {
        return wrong(
            "a sparse term to be the only one",
            format!("{} terms", tensor.terms.len()),
        );
    }
    Ok(())
}

/// Whether all terms are low-rank ones, according to the form.
fn check_form(form: Form, tensors: &[DeltaTensor]) -> Result<bool, DeltaError> {
    let mut terms = tensors.iter().flat_map(|tensor| &tensor.terms).peekable();
    if terms.peek().is_none() {
        let what = "header: tensors".to_owned();
        return Err(DeltaError::wrong(
            what,
            "at least one term",
            "none".to_owned(),
        ));
    }
    let low_rank = terms.all(|term| matches!(term, Term::LowRank { .. }));
    if low_rank == (form == Form::LowRank) {
        return Ok(low_rank);
    }
    let expected = if low_rank {
        "'lowrank' for these terms"
    } else {
        "'dense' for these terms"
    };
    let what = "header: form".to_owned();
    Err(DeltaError::wrong(what, expected, "the other".to_owned()))
}
