use super::BLOCK_BYTES;
use crate::{
    files::OpenFile,
    safetensors::{Header, check_finite, read_header},
};

/// Bytes read at a time.
const PIECE: usize = 4 << 20;

/// A file with a small tensor before one of this type, whose values are these bytes.
fn told(dtype: &str, shape: &str, bytes: &[u8]) -> Result<Header, String> {
    let json = format!(
        r#"{{"a":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}},"b":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[1,{}]}}}}"#,
        bytes.len() + 1
    );
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json.as_bytes());
    file.push(0xFF);
    file.extend(bytes);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, file).unwrap();
    let file = OpenFile::open(&path).unwrap();
    let header = read_header(&file).unwrap();
    match check_finite(&file, &header) {
        Ok(()) => Ok(header),
        Err(error) => Err(error.to_string().rsplit(": ").next().unwrap().to_owned()),
    }
}

/// Six values as [2, 3], all of them `plain` but the one at [1, 1].
fn six(dtype: &str, plain: &[u8], odd: &[u8]) -> Result<Header, String> {
    let values = [plain, plain, plain, plain, odd, plain].concat();
    told(dtype, "[2,3]", &values)
}

#[test]
fn each_type_has_its_own_nan_and_infinity() {
    for (dtype, plain, nan, infinity) in [
        (
            "F64",
            &f64::MAX.to_le_bytes()[..],
            f64::NAN.to_le_bytes().to_vec(),
            f64::INFINITY.to_le_bytes().to_vec(),
        ),
        (
            "F32",
            &f32::MIN.to_le_bytes(),
            f32::NAN.to_le_bytes().to_vec(),
            f32::NEG_INFINITY.to_le_bytes().to_vec(),
        ),
        ("F16", &[0xFF, 0x7B], vec![0x01, 0x7C], vec![0x00, 0xFC]),
        ("BF16", &[0x7F, 0x7F], vec![0x80, 0xFF], vec![0x80, 0x7F]),
        ("F8_E5M2", &[0xFB], vec![0xFE], vec![0xFC]),
    ] {
        for (odd, name) in [(nan, "NaN"), (infinity, "an infinity")] {
            let odd = if dtype == "BF16" && name == "NaN" {
                vec![0x81, 0xFF]
            } else {
                odd
            };
            let expected = format!("expected finite numbers, got {name} at [1, 1]");
            assert_eq!(six(dtype, plain, &odd).unwrap_err(), expected, "{dtype}");
        }
        assert!(six(dtype, plain, plain).is_ok(), "{dtype}");
    }
}

#[test]
fn short_types_have_nan_alone() {
    for (dtype, plain, nan) in [
        ("F8_E4M3", 0xFE, 0xFF),
        ("F8_E8M0", 0xFE, 0xFF),
        ("F8_E4M3FNUZ", 0xFF, 0x80),
        ("F8_E5M2FNUZ", 0x7F, 0x80),
    ] {
        let found = six(dtype, &[plain], &[nan]).unwrap_err();
        assert_eq!(
            found, "expected finite numbers, got NaN at [1, 1]",
            "{dtype}"
        );
    }
}

#[test]
fn whole_numbers_are_never_wrong() {
    for dtype in ["U8", "I8", "BOOL"] {
        assert!(six(dtype, &[0xFF], &[0x7F]).is_ok());
    }
}

#[test]
fn the_first_one_is_named_wherever_it_lies() {
    let mut values = vec![0u8; (PIECE + BLOCK_BYTES) * 2];
    for at in [PIECE + BLOCK_BYTES + 2, PIECE * 2] {
        values[at..at + 2].copy_from_slice(&0x7E00u16.to_le_bytes());
    }
    let shape = format!("[{}]", values.len() / 2);
    let expected = (PIECE + BLOCK_BYTES + 2) / 2;
    let found = told("F16", &shape, &values).unwrap_err();
    assert_eq!(
        found,
        format!("expected finite numbers, got NaN at [{expected}]")
    );
}

#[test]
fn a_complex_number_is_wrong_in_either_half() {
    let mut values = [1.0f32; 6];
    values[3] = f32::NAN;
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let found = told("C64", "[3]", &bytes).unwrap_err();
    assert_eq!(found, "expected finite numbers, got NaN at [1]");
}
