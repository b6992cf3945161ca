use std::fs;

use super::*;

/// A tensor: name, dtype, shape, bytes.
type Tensor = (&'static str, &'static str, &'static [u64], &'static [u8]);

const A: Tensor = ("a", "U8", &[2, 2], b"1234");
const B: Tensor = ("b", "BF16", &[1], b"56");

fn file_of(tensors: &[Tensor]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let from = data.len();
        data.extend_from_slice(bytes);
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{from},{}]}}"#,
            data.len()
        ));
    }
    let json = format!("{{{}}}", entries.join(","));
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &data].concat()
}

fn identity(files: &[&[Tensor]], names: &[&str]) -> Result<String, CoreError> {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (index, tensors) in files.iter().enumerate() {
        paths.push(folder.path().join(format!("{index}.safetensors")));
        fs::write(&paths[index], file_of(tensors)).unwrap();
    }
    let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
    base_identity(&paths, &names)
}

#[test]
fn the_framing_is_the_documented_one() {
    let number = |value: u64| value.to_le_bytes();
    let a = [
        &number(1)[..],
        b"a",
        &number(2),
        b"U8",
        &number(2),
        &number(2),
        &number(2),
        &number(4),
        b"1234",
    ];
    let b = [
        &number(1)[..],
        b"b",
        &number(4),
        b"BF16",
        &number(1),
        &number(1),
        &number(2),
        b"56",
    ];
    let framed = [a.concat(), b.concat()].concat();
    let expected = blake3::hash(&framed).to_hex().to_string();
    assert_eq!(identity(&[&[A, B]], &["a", "b"]).unwrap(), expected);
}

#[test]
fn shards_and_order_make_no_difference() {
    let together = identity(&[&[A, B]], &["a", "b"]).unwrap();
    assert_eq!(identity(&[&[B], &[A]], &["b", "a", "b"]).unwrap(), together);
    assert_eq!(
        identity(&[&[B, ("c", "U8", &[1], b"7"), A]], &["a", "b"]).unwrap(),
        together
    );
}

#[test]
fn every_part_of_a_tensor_counts() {
    let others: [&[Tensor]; 5] = [
        &[A],
        &[("b", "U8", &[2, 2], b"1234")],
        &[("a", "I8", &[2, 2], b"1234")],
        &[("a", "U8", &[4], b"1234")],
        &[("a", "U8", &[2, 2], b"1235")],
    ];
    let found: BTreeSet<_> = others
        .iter()
        .map(|tensors| identity(&[tensors], &[tensors[0].0]).unwrap())
        .collect();
    assert_eq!(found.len(), others.len());
}

#[test]
fn a_missing_tensor_is_named() {
    let message = identity(&[&[A], &[B]], &["a", "c"])
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "tensor 'c' is missing: expected it in one of 2 files"
    );
}

#[test]
fn a_tensor_in_two_files_is_refused() {
    let error = identity(&[&[A], &[A, B]], &["a"]).unwrap_err();
    assert!(matches!(error, CoreError::TensorTwice { .. }), "{error}");
}

#[test]
fn no_names_are_refused() {
    assert!(matches!(identity(&[&[A]], &[]), Err(CoreError::NoNames)));
}

#[test]
fn tensors_given_one_by_one_hash_as_those_of_a_file() {
    let mut hasher = IdentityHasher::default();
    for (name, dtype, shape, bytes) in [A, B] {
        hasher.add(name, dtype, shape, bytes).unwrap();
    }
    let expected = identity(&[&[A, B]], &["a", "b"]).unwrap();
    assert_eq!(hasher.finish().unwrap(), expected);
}

#[test]
fn tensors_out_of_order_or_none_at_all_are_refused() {
    let mut hasher = IdentityHasher::default();
    assert!(matches!(hasher.finish(), Err(CoreError::NoNames)));
    hasher.add("b", "U8", &[1], b"1").unwrap();
    for name in ["a", "b"] {
        let error = hasher.add(name, "U8", &[1], b"1").unwrap_err();
        assert!(matches!(error, CoreError::NameOrder { .. }), "{error}");
    }
}
