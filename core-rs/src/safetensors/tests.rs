use proptest::prelude::*;

use super::*;
use crate::error::Reason;

mod limits;
mod malformed;

/// A file of this header and so many bytes of data.
fn file(json: &str, data_bytes: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.resize(bytes.len() + data_bytes, 7);
    bytes
}

fn read(bytes: &[u8]) -> Result<Header, CoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    read_header(&OpenFile::open(&path)?)
}

fn reason(bytes: &[u8]) -> HeaderError {
    let refused = read(bytes).unwrap_err();
    refused.reason::<HeaderError>().unwrap().clone()
}

fn reason_of(json: &str, data_bytes: usize) -> HeaderError {
    reason(&file(json, data_bytes))
}

/// What is said of a header in front of four bytes of data.
fn sentence(json: &str) -> String {
    reason_of(json, 4).to_string()
}

const ONE: &str = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;

#[test]
fn a_small_file_is_read() {
    let json = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},
        "empty":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},
        "a":{"shape":[],"dtype":"F32","data_offsets":[0,4]}}   "#;
    let header = read(&file(json, 8)).unwrap();
    let start = 8 + json.len() as u64;
    let found: Vec<_> = header
        .tensors
        .iter()
        .map(|t| {
            (
                t.name.as_str(),
                t.dtype.name,
                t.shape.clone(),
                t.start - start,
                t.stop - start,
            )
        })
        .collect();
    let expected = [
        ("a", "F32", vec![], 0, 4),
        ("empty", "F32", vec![0, 5], 4, 4),
        ("b", "BF16", vec![2, 1], 4, 8),
    ];
    assert_eq!(found, expected);
    assert_eq!(header.metadata["format"], "pt");
}

#[test]
fn a_file_without_tensors_is_read() {
    for json in ["{}", r#"{"__metadata__":null}"#, r#"{"__metadata__":{}}"#] {
        assert_eq!(read(&file(json, 0)).unwrap(), Header::default());
    }
}

#[test]
fn values_of_less_than_a_byte_need_whole_bytes() {
    let json =
        |count| format!(r#"{{"a":{{"dtype":"F4","shape":[{count}],"data_offsets":[0,4]}}}}"#);
    assert!(read(&file(&json(8), 4)).is_ok());
    assert!(matches!(reason_of(&json(7), 4), HeaderError::Shape { .. }));
}

#[test]
fn files_cut_anywhere_are_refused() {
    let whole = file(ONE, 4);
    for end in 0..whole.len() {
        let error = reason(&whole[..end]);
        assert_eq!(parse(&whole[..end]), Err(error.clone()));
        let cut = matches!(
            error,
            HeaderError::TooShort { .. }
                | HeaderError::Truncated { .. }
                | HeaderError::TruncatedData { .. }
        );
        assert!(cut, "{end}: {error}");
        assert_eq!(error.hint(), Some("download or copy the file again"));
    }
}

#[test]
fn a_header_beyond_the_limit_is_refused_before_it_is_read() {
    let error = reason(&(MAX_HEADER_BYTES + 1).to_le_bytes());
    assert!(matches!(error, HeaderError::TooLong { .. }));
    assert!(matches!(reason(&[0xFF; 40]), HeaderError::TooLong { .. }));
}

#[test]
fn a_git_lfs_pointer_is_named() {
    let text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 1044992\n";
    let error = reason(text.as_bytes());
    let expected = "git LFS pointer instead of the file itself: expected tensors in 1044992 bytes, \
                    got the pointer's text";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.hint(), Some("download the file itself: git lfs pull"));
}

#[test]
fn other_formats_are_named() {
    for (opening, name) in [
        ("PK\x03\x04......", "zip"),
        ("GGUF\x03...", "GGUF"),
        ("<!doctype html>", "web"),
    ] {
        assert!(
            reason(opening.as_bytes()).to_string().contains(name),
            "{name}"
        );
    }
}

#[test]
fn a_header_that_is_no_text_is_refused() {
    let mut bytes = file(ONE, 4);
    bytes[8 + 2] = 0xFF;
    assert_eq!(reason(&bytes), HeaderError::NotUtf8 { at: 2, byte: 0xFF });
}

#[test]
fn a_header_that_starts_otherwise_is_refused() {
    for json in ["", " {}", "[]", "\u{feff}{}"] {
        let error = reason_of(json, 0);
        assert_eq!(
            error,
            HeaderError::NotAnObject {
                got: json.chars().next()
            }
        );
    }
}

#[test]
fn names_that_are_there_twice_are_refused() {
    let a = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let cases = [
        (format!("{{{a},{a}}}"), "'a' is duplicated"),
        (
            format!("{{{a},{}}}", a.replacen("\"a\"", r#""\u0061""#, 1)),
            "'a' is duplicated",
        ),
        (
            r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(),
            "'__metadata__' is duplicated",
        ),
        (
            r#"{"__metadata__":{"k":"1","k":"2"}}"#.to_owned(),
            "'k' is duplicated",
        ),
        (
            r#"{"a":{"dtype":"F32","dtype":"F32"}}"#.to_owned(),
            "'a': 'dtype' is duplicated",
        ),
        (
            r#"{"a":{"shape":[],"shape":[]}}"#.to_owned(),
            "'a': 'shape' is duplicated",
        ),
    ];
    for (json, part) in cases {
        let sentence = sentence(&json);
        assert!(sentence.contains(part), "{json}: {sentence}");
    }
}

fn one(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

#[test]
fn a_tensor_that_cannot_be_is_refused() {
    let error = reason_of(&one("F128", "[1]", "[0,4]"), 4);
    assert!(
        error
            .to_string()
            .contains("unknown dtype: expected one like F32 or BF16, got 'F128'")
    );
    let error = reason_of(&one("F32", "[1]", "[4,0]"), 4);
    assert!(matches!(error, HeaderError::Offsets { from: 4, to: 0, .. }));
    let error = reason_of(&one("F32", "[1]", &format!("[0,{}]", u64::MAX)), 4);
    assert!(matches!(error, HeaderError::Offsets { .. }));
    let error = reason_of(&one("F32", "[4294967296,4294967296]", "[0,4]"), 4);
    assert!(matches!(error, HeaderError::Shape { .. }));
    let error = reason_of(&one("F32", "[2,1]", "[0,4]"), 4);
    let expected = "tensor 'a' has the wrong size: expected 8 bytes for [2, 1] of F32, got 4";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn tensors_that_do_not_cover_the_data_once_are_refused() {
    let two = |a: &str, b: &str| {
        let tensor = |offsets| format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}"#);
        format!(r#"{{"a":{},"b":{}}}"#, tensor(a), tensor(b))
    };
    assert!(matches!(
        reason_of(&two("[0,4]", "[2,6]"), 6),
        HeaderError::Overlap { .. }
    ));
    assert!(matches!(
        reason_of(&two("[0,4]", "[0,4]"), 4),
        HeaderError::Overlap { .. }
    ));
    assert!(matches!(
        reason_of(&two("[0,4]", "[5,9]"), 9),
        HeaderError::Hole { .. }
    ));
    assert!(matches!(
        reason_of(&two("[1,5]", "[5,9]"), 9),
        HeaderError::Hole { .. }
    ));
    assert!(matches!(
        reason_of(&two("[0,4]", "[4,8]"), 7),
        HeaderError::TruncatedData { .. }
    ));
    assert!(matches!(
        reason_of(&two("[0,4]", "[4,8]"), 9),
        HeaderError::Trailing { .. }
    ));
    assert!(read(&file(&two("[4,8]", "[0,4]"), 8)).is_ok());
}

#[test]
fn a_message_is_short_and_harmless_on_a_terminal() {
    let name = format!("\\u009b2J{}", "x".repeat(100_000));
    for json in [
        one("F32", "[2]", "[0,4]").replace("\"a\"", &format!("\"{name}\"")),
        one("F32", &format!("[{}]", "1".repeat(100_000)), "[0,4]"),
        one(&name, "[1]", "[0,4]"),
        format!(r#"{{"a":{{"{name}":1}}}}"#),
        format!(r#"{{"a":{{}}}}{name}"#),
        "{\u{1b}".to_owned(),
    ] {
        let message = sentence(&json);
        assert!(
            !message.contains(char::is_control) && message.len() < 400,
            "{message}"
        );
    }
}

#[test]
fn a_folder_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = OpenFile::open(folder.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("expected a file with tensors, got a folder")
    );
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse(&bytes));
    }

    #[test]
    fn any_text_as_a_header_is_survived(json in r#"\{("a"|:|,|\{|\}|\[|\]|"dtype"|"F32"|"shape"|"data_offsets"|[0-9]|-| ){0,40}"#) {
        drop(parse(&file(&json, 8)));
    }

    #[test]
    fn any_changed_byte_is_survived(at in 0usize..66, byte in any::<u8>()) {
        let mut bytes = file(ONE, 4);
        bytes[at] = byte;
        if let Ok(header) = read(&bytes) {
            prop_assert_eq!(header.tensors.iter().map(|t| t.stop - t.start).sum::<u64>(), 4);
        }
    }
}
