//! Codes that no codec writes: bytes that hold no five digits, steps that lead beyond their tensor.

use std::collections::BTreeMap;

use super::{Delta, error::DeltaError, terms::Term};
use crate::safetensors::{TensorInfo, quote};

/// The most that five digits in base 3 make.
const LAST_TERNARY: u8 = 242;

/// Bytes read at a time; a whole number of steps.
const PIECE_BYTES: usize = 4 << 20;

/// The first part of codes that mean nothing; `read` gets the bytes from a place on, so many.
pub(super) fn fault<E>(
    delta: &Delta,
    read: impl Fn(u64, u64) -> Result<Vec<u8>, E>,
) -> Result<Option<DeltaError>, E> {
    let parts = delta.container.tensors.iter();
    let parts: BTreeMap<&str, &TensorInfo> = parts.map(|part| (&*part.name, part)).collect();
    for tensor in &delta.header.tensors {
        for term in &tensor.terms {
            let (part, mut reader) = match *term {
                Term::Ternary => ("ternary.codes", Reader::Digits { most: 0 }),
                Term::Sparse { index, count, .. } => {
                    // No product that overflows: the parts were found to fit.
                    let steps = Steps::new(index, count, tensor.shape.iter().product());
                    ("sparse.index", Reader::Steps(steps))
                }
                _ => continue,
            };
            let name = format!("{}.{part}", tensor.name);
            for (start, length) in parts.get(&*name).into_iter().flat_map(|part| pieces(part)) {
                reader.read(&read(start, length)?);
            }
            if let Some((expected, got)) = reader.fault() {
                let what = format!("part {}", quote(&name));
                return Ok(Some(DeltaError::wrong(what, &expected, got)));
            }
        }
    }
    Ok(None)
}

/// Start and length of each piece of a part.
fn pieces(part: &TensorInfo) -> impl Iterator<Item = (u64, u64)> + use<> {
    let stop = part.stop;
    let starts = (part.start..stop).step_by(PIECE_BYTES);
    starts.map(move |start| (start, stop.min(start + PIECE_BYTES as u64) - start))
}

/// What is kept of a part that is read piece by piece.
enum Reader {
    Digits { most: u8 },
    Steps(Steps),
}

impl Reader {
    fn read(&mut self, bytes: &[u8]) {
        match self {
            Self::Digits { most } => *most = bytes.iter().copied().fold(*most, u8::max),
            Self::Steps(steps) => steps.read(bytes),
        }
    }

    /// What was expected and what was found, where that differs.
    fn fault(&self) -> Option<(String, String)> {
        match self {
            Self::Digits { most } => (*most > LAST_TERNARY).then(|| {
                let expected = format!("bytes of at most {LAST_TERNARY}, five digits in base 3");
                (expected, most.to_string())
            }),
            Self::Steps(steps) => steps.fault(),
        }
    }
}

/// Places told by steps: the largest step goes on by itself without a value, any other one goes one
/// further and has one.
struct Steps {
    wide: bool,
    /// How many values there are.
    count: u64,
    /// Places of the tensor.
    size: u64,
    /// Places passed by, the last one's included.
    passed: u64,
    values: u64,
    ends_on_value: bool,
}

impl Steps {
    fn new(dtype: &str, count: u64, size: u64) -> Self {
        Self {
            wide: dtype == "U16",
            count,
            size,
            passed: 0,
            values: 0,
            ends_on_value: false,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.wide {
            let steps = bytes.as_chunks::<2>().0.iter();
            steps.for_each(|step| self.step(u16::from_le_bytes(*step).into(), u16::MAX.into()));
        } else {
            let steps = bytes.iter();
            steps.for_each(|step| self.step((*step).into(), u8::MAX.into()));
        }
    }

    fn step(&mut self, step: u64, largest: u64) {
        self.ends_on_value = step != largest;
        let value = u64::from(self.ends_on_value);
        // A file has too few steps for either to overflow.
        self.passed += step + value;
        self.values += value;
    }

    fn fault(&self) -> Option<(String, String)> {
        let (count, size) = (self.count, self.size);
        if self.values != count {
            return Some((format!("{count} places"), self.values.to_string()));
        }
        if !self.ends_on_value {
            let expected = "the last step to lead to a place".to_owned();
            return Some((expected, "one past all places".to_owned()));
        }
        let last = self.passed - 1;
        (last >= size).then(|| (format!("places below {size}"), last.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(dtype: &str, pieces: &[&[u8]], count: u64, size: u64) -> Option<String> {
        let mut steps = Steps::new(dtype, count, size);
        for piece in pieces {
            steps.read(piece);
        }
        let (expected, got) = steps.fault()?;
        Some(format!("expected {expected}, got {got}"))
    }

    #[test]
    fn steps_lead_to_places() {
        // Places 0, 3 and, 255 further without a value, 259.
        assert_eq!(fault("U8", &[&[0, 2], &[255, 0]], 3, 260), None);
        let beyond = "expected places below 259, got 259";
        assert_eq!(fault("U8", &[&[0, 2, 255, 0]], 3, 259).unwrap(), beyond);
        let wide = [0xFF, 0xFF, 0x01, 0x00]; // place 65536
        assert_eq!(fault("U16", &[&wide], 1, 65537), None);
        assert!(fault("U16", &[&wide], 1, 65536).is_some());
    }

    #[test]
    fn as_many_as_there_are_values_and_no_step_behind_the_last() {
        let more = "expected 2 places, got 3";
        assert_eq!(fault("U8", &[&[0, 0, 0]], 2, 9).unwrap(), more);
        let behind = "expected the last step to lead to a place, got one past all places";
        assert_eq!(fault("U8", &[&[0, 255]], 1, 999).unwrap(), behind);
        assert!(fault("U8", &[], 1, 9).is_some());
    }
}
