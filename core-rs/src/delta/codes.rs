//! Codes that no codec writes: bytes that are not five digits, steps that lead outside their tensor, signs
//! where the mask is 0.

use std::collections::BTreeMap;

use super::{
    error::DeltaError,
    header::{DeltaHeader, DeltaTensor},
    parts::sign_part,
    terms::Term,
};
use crate::{
    error::quote,
    safetensors::{Header, TensorInfo},
};

/// The most that five digits in base 3 make.
const LAST_TERNARY: u8 = 242;

/// Bytes read at a time; a multiple of steps.
const PIECE_BYTES: usize = 4 << 20;

/// The first part with invalid codes; `read` returns bytes from an offset.
pub(super) fn fault<E>(
    header: &DeltaHeader,
    container: &Header,
    read: impl Fn(u64, u64) -> Result<Vec<u8>, E>,
) -> Result<Option<DeltaError>, E> {
    let parts = container.tensors.iter();
    let file = Parts {
        by_name: parts.map(|part| (&*part.name, part)).collect(),
        read,
        piece: PIECE_BYTES,
    };
    for tensor in &header.tensors {
        for term in &tensor.terms {
            let fault = match *term {
                Term::Ternary => file.fault_of(tensor, "ternary.codes", Reader::Digits { most: 0 }),
                Term::Sparse { index, count, .. } => {
                    // No product that overflows: the parts were found to fit.
                    let steps = Steps::new(index, count, tensor.shape.iter().product());
                    file.fault_of(tensor, "sparse.index", Reader::Steps(steps))
                }
                Term::Sign {
                    mask: true, planes, ..
                } => file.fault_of_signs(tensor, planes),
                _ => Ok(None),
            };
            if let Some(fault) = fault? {
                return Ok(Some(fault));
            }
        }
    }
    Ok(None)
}

/// A delta's parts by name, and how their bytes are got.
struct Parts<'a, R> {
    by_name: BTreeMap<&'a str, &'a TensorInfo>,
    read: R,
    /// Bytes read at a time.
    piece: usize,
}

impl<E, R: Fn(u64, u64) -> Result<Vec<u8>, E>> Parts<'_, R> {
    /// What a reader finds in a part of a tensor.
    fn fault_of(
        &self,
        tensor: &DeltaTensor,
        part: &str,
        mut reader: Reader,
    ) -> Result<Option<DeltaError>, E> {
        let name = format!("{}.{part}", tensor.name);
        for (start, length) in self.pieces(&name) {
            reader.read(&(self.read)(start, length)?);
        }
        Ok(reader.fault().map(|(expected, got)| {
            DeltaError::wrong(format!("part {}", quote(&name)), &expected, got)
        }))
    }

    /// A plane of signs with a bit where the mask is 0.
    fn fault_of_signs(&self, tensor: &DeltaTensor, planes: u64) -> Result<Option<DeltaError>, E> {
        let columns = tensor.shape.last().copied().unwrap_or(1);
        let mask = format!("{}.mask", tensor.name);
        for plane in 1..=planes {
            let name = format!("{}.{}", tensor.name, sign_part(plane));
            let mut passed = 0;
            for ((start, length), (of_mask, _)) in self.pieces(&name).zip(self.pieces(&mask)) {
                let signs = (self.read)(start, length)?;
                if outside(&signs, &(self.read)(of_mask, length)?, passed, columns) {
                    let what = format!("part {}", quote(&name));
                    let expected = "0 where the mask is 0";
                    return Ok(Some(DeltaError::wrong(what, expected, "1".to_owned())));
                }
                passed += length;
            }
        }
        Ok(None)
    }

    /// Start and length of each piece of a part.
    fn pieces(&self, name: &str) -> impl Iterator<Item = (u64, u64)> + use<E, R> {
        let (start, stop) = self
            .by_name
            .get(name)
            .map_or((0, 0), |part| (part.start, part.stop));
        let piece = self.piece;
        let starts = (start..stop).step_by(piece);
        starts.map(move |start| (start, stop.min(start + piece as u64) - start))
    }
}

/// Whether a bit is set where the mask's is not, but for those that fill up the last byte of a row of so
/// many columns; so many bytes were `passed` before.
fn outside(signs: &[u8], mask: &[u8], passed: u64, columns: u64) -> bool {
    let pairs = || signs.iter().zip(mask).map(|(sign, mask)| sign & !mask);
    if pairs().fold(0, |all, bits| all | bits) == 0 {
        return false;
    }
    let row = columns.div_ceil(8);
    let read_of_last = match columns % 8 {
        0 => u8::MAX,
        left => !(u8::MAX << left),
    };
    (passed + 1..).zip(pairs()).any(|(bytes, bits)| {
        let ends_row = bytes.is_multiple_of(row);
        bits & if ends_row { read_of_last } else { u8::MAX } != 0
    })
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

/// Positions coded as steps: the largest step only advances, any other one advances by one
/// more and has a value.
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
    fn signs_lie_within_their_mask_but_for_what_fills_up_a_row() {
        // Two rows of eleven columns.
        let mask = [0x0F, 0b111, 0x0F, 0b111];
        assert!(!outside(&[0x0F, 0b101, 0x00, 0xF8], &mask, 0, 11));
        assert!(outside(&[0x0F, 0b101, 0x10, 0], &mask, 0, 11));
        assert!(outside(&[0, 0, 0, 0b100], &[0, 0, 0, 0b011], 0, 11));
        assert!(!outside(&[0b1000], &[0], 1, 11));
        assert!(outside(&[0b1000], &[0], 2, 11));
        assert!(outside(&[0x80], &[0x7F], 0, 8));
    }

    #[test]
    fn planes_and_mask_are_read_in_step() {
        // Five rows of eleven columns; a sign outside the mask, inside a row, in the second plane.
        let (mut signs, mut second) = ([0; 10], [0; 10]);
        signs[9] = 0b1111_1000; // fills up the last row
        second[6] = 0b10;
        let bytes = [signs, second, [1; 10]].concat();
        let part = |name: &str, at: u64| TensorInfo {
            name: name.to_owned(),
            dtype: crate::safetensors::DType::from_name("U8").unwrap(),
            shape: vec![5, 2],
            start: at,
            stop: at + 10,
        };
        let parts = [part("w.sign", 0), part("w.sign.2", 10), part("w.mask", 20)];
        let tensor = DeltaTensor {
            name: "w".to_owned(),
            shape: vec![5, 11],
            terms: Vec::new(),
        };
        let place = |at: u64| usize::try_from(at).unwrap();
        for piece in [1, 3, 4, 10, 11] {
            let file = Parts {
                by_name: parts.iter().map(|part| (&*part.name, part)).collect(),
                read: |start, length| {
                    Ok::<_, ()>(bytes[place(start)..place(start + length)].to_vec())
                },
                piece,
            };
            assert_eq!(file.fault_of_signs(&tensor, 1), Ok(None));
            let fault = file.fault_of_signs(&tensor, 2).unwrap().unwrap();
            let expected = "part 'w.sign.2': expected 0 where the mask is 0, got 1";
            assert_eq!(fault.to_string(), expected);
        }
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
