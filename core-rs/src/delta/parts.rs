//! The parts of each term in the file: names, types and shapes.

use std::collections::BTreeMap;

use super::{
    error::DeltaError,
    header::{DeltaHeader, DeltaTensor},
    terms::{FactorCodec, Scale, Term},
};
use crate::{
    error::quote,
    safetensors::{Header, TensorInfo},
};

/// Values that share a scale where groups do.
const GROUP: u64 = 128;

/// A tensor of the delta file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its type, as safetensors names it.
    pub dtype: &'static str,
    /// Its shape.
    pub shape: Vec<u64>,
}

impl DeltaTensor {
    /// The parts required by this tensor's terms; `None` if its shape overflows.
    #[must_use]
    pub fn parts(&self) -> Option<Vec<Part>> {
        let columns = self.shape.last().copied().unwrap_or(1);
        let leading = self
            .shape
            .split_last()
            .map_or(&[][..], |(_, leading)| leading);
        let rows = leading
            .iter()
            .try_fold(1u64, |rows, size| rows.checked_mul(*size))?;
        // No code takes more than 8 bits: below this, nothing that follows overflows.
        rows.checked_mul(columns)?.checked_mul(8)?;
        let mut list = List {
            tensor: &self.name,
            parts: Vec::new(),
        };
        for term in &self.terms {
            list.add_term(term, &self.shape, rows, columns)?;
        }
        Some(list.parts)
    }
}

/// The parts of a tensor so far.
struct List<'a> {
    tensor: &'a str,
    parts: Vec<Part>,
}

impl List<'_> {
    fn add(&mut self, name: &str, dtype: &'static str, shape: &[u64]) {
        self.parts.push(Part {
            name: format!("{}.{name}", self.tensor),
            dtype,
            shape: shape.to_owned(),
        });
    }

    fn add_term(&mut self, term: &Term, shape: &[u64], rows: u64, columns: u64) -> Option<()> {
        let groups = columns.div_ceil(GROUP);
        match *term {
            Term::Raw => self.add("raw", "F32", shape),
            Term::Sign {
                scale,
                mask,
                planes,
            } => self.add_signs(scale, mask, planes, rows, columns),
            Term::Ternary => {
                self.add("ternary.codes", "U8", &[rows, columns.div_ceil(5)]);
                self.add("ternary.scale", "F16", &[rows, groups]);
            }
            Term::Int { bits } => {
                self.add("int.codes", "U8", &[rows, (columns * bits).div_ceil(8)]);
                self.add("int.scale", "F16", &[rows, groups]);
            }
            Term::Sparse {
                count,
                index,
                steps,
                values,
            } => {
                self.add("sparse.value", values, &[count]);
                self.add("sparse.index", index, &[steps]);
            }
            Term::LowRank { rank, a, b } => {
                self.add_factor("A", a, rank, columns)?;
                self.add_factor("B", b, rank, rows)?;
            }
        }
        Some(())
    }

    fn add_signs(&mut self, scale: Scale, mask: bool, planes: u64, rows: u64, columns: u64) {
        let plane = [rows, columns.div_ceil(8)];
        let scales = match scale {
            Scale::Row => vec![rows],
            Scale::Matrix => vec![1],
            Scale::Column => vec![columns],
            Scale::Group => vec![rows, columns.div_ceil(GROUP)],
        };
        for number in 1..=planes {
            self.add(&sign_part(number), "U8", &plane);
            self.add(&of_plane("scale", number), "F32", &scales);
        }
        if mask {
            self.add("mask", "U8", &plane);
        }
    }

    fn add_factor(&mut self, stem: &str, codec: FactorCodec, rank: u64, length: u64) -> Option<()> {
        let groups = [rank, length.div_ceil(GROUP)];
        let mut add_codes = |name: &str, bits: u64| {
            let bytes = length.checked_mul(bits)?.div_ceil(8);
            self.add(&format!("{stem}.{name}"), "U8", &[rank, bytes]);
            self.add(&format!("{stem}.scale"), "F16", &groups);
            Some(())
        };
        match codec {
            FactorCodec::Codes2 => {
                add_codes("codes", 2)?;
                self.add(&format!("{stem}.zero"), "U8", &groups);
            }
            FactorCodec::Sign => add_codes("sign", 1)?,
            FactorCodec::Int2 => add_codes("codes", 2)?,
            FactorCodec::Int4 => add_codes("codes", 4)?,
            FactorCodec::Int8 => add_codes("codes", 8)?,
            FactorCodec::F16 => self.add(&format!("{stem}.values"), "F16", &[rank, length]),
            FactorCodec::Bf16 => self.add(&format!("{stem}.values"), "BF16", &[rank, length]),
            FactorCodec::F32 => self.add(&format!("{stem}.values"), "F32", &[rank, length]),
        }
        Some(())
    }
}

/// What the signs of a plane are called.
pub(super) fn sign_part(plane: u64) -> String {
    of_plane("sign", plane)
}

fn of_plane(name: &str, plane: u64) -> String {
    match plane {
        1 => name.to_owned(),
        _ => format!("{name}.{plane}"),
    }
}

/// Refuses a part that is missing, has the wrong type or shape, or belongs to no term.
pub(super) fn check(header: &DeltaHeader, container: &Header) -> Result<(), DeltaError> {
    let named = container
        .tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor));
    let mut left: BTreeMap<&str, &TensorInfo> = named.collect();
    for tensor in &header.tensors {
        let parts = tensor.parts().ok_or_else(|| {
            let what = format!("header: tensor {}", quote(&tensor.name));
            DeltaError::wrong(what, "a size below 2^61", "more".to_owned())
        })?;
        for part in parts {
            // Removed: if two terms need one name, the second finds nothing.
            let found = left.remove(part.name.as_str());
            check_one(&part, found)?;
        }
    }
    match left.keys().next() {
        None => Ok(()),
        Some(name) => {
            let what = format!("part {}", quote(name));
            Err(DeltaError::wrong(
                what,
                "a term that uses it",
                "none".to_owned(),
            ))
        }
    }
}

fn check_one(part: &Part, found: Option<&TensorInfo>) -> Result<(), DeltaError> {
    let told = |dtype: &str, shape: &[u64]| {
        let sizes: Vec<_> = shape.iter().take(8).map(u64::to_string).collect();
        format!("{dtype} [{}]", sizes.join(", "))
    };
    let got = match found {
        Some(info) if info.dtype.name == part.dtype && info.shape == part.shape => return Ok(()),
        Some(info) => told(info.dtype.name, &info.shape),
        None => "none".to_owned(),
    };
    let what = format!("part {}", quote(&part.name));
    Err(DeltaError::wrong(
        what,
        &format!("{} by its term", told(part.dtype, &part.shape)),
        got,
    ))
}
