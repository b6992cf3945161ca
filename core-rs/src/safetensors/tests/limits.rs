//! Names, metadata and numbers of tensors: what is taken and what is not.

use super::*;
use crate::safetensors::limits::MAX_TENSORS;

#[test]
fn names_that_could_do_harm_are_refused() {
    for (name, part) in [
        ("../../x", "no path that leads out of a folder"),
        ("a/../../x", "no path that leads out"),
        (r"a\\..\\x", "no path that leads out"),
        ("/etc/passwd", "no path that leads out"),
        (r"\\\\host\\share", "no path that leads out"),
        (
            r"a\u0000",
            r"'a\0' is not plain: expected no control characters",
        ),
        (r"\u001b[2J", "no control characters"),
        ("\u{85}", "no control characters"),
        (
            &"n".repeat(1025),
            "is too long: expected at most 1024 bytes, got 1025",
        ),
        (
            &r"\u00fc".repeat(513),
            "is too long: expected at most 1024 bytes, got 3078",
        ),
    ] {
        let json = one("F32", "[1]", "[0,4]").replacen("\"a\"", &format!("\"{name}\""), 1);
        let told = sentence(&json);
        assert!(told.contains(part), "{name}: {told}");
        let told = sentence(&format!(r#"{{"__metadata__":{{"{name}":""}}}}"#));
        assert!(told.contains(part), "{name}: {told}");
    }
}

#[test]
fn names_of_published_checkpoints_are_taken() {
    let names = [
        "encoder/layer_0/kernel:0",
        "a..b",
        ".",
        "ü",
        r"\u00fc\ud83d\ude00",
        "a b",
        &"n".repeat(1024),
    ];
    for name in names {
        let json = one("F32", "[1]", "[0,4]").replacen("\"a\"", &format!("\"{name}\""), 1);
        let expected: String = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        assert_eq!(read(&file(&json, 4)).unwrap().tensors[0].name, expected);
    }
}

#[test]
fn metadata_are_read_as_json_has_them() {
    let text = r#"a\"b\\c\/d\b\f\n\r\t\u00e9\ud83d\ude00 ü"#;
    let json = format!(r#"{{"__metadata__": {{ "k" : "{text}" , "" : "" }} }}  "#);
    let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
    let header = read(&file(&json, 0)).unwrap();
    assert_eq!(header.metadata["k"], expected);
    assert_eq!(header.metadata[""], "");
}

#[test]
fn metadata_without_end_are_refused() {
    let json = format!(r#"{{"__metadata__":{{"k":"{}"}}}}"#, "x".repeat(16_000_001));
    assert_eq!(reason_of(&json, 0), HeaderError::Metadata);
    let entries: Vec<_> = (0..16_385).map(|n| format!(r#""{n}":"""#)).collect();
    let json = format!(r#"{{"__metadata__":{{{}}}}}"#, entries.join(","));
    assert_eq!(reason_of(&json, 0), HeaderError::Metadata);
}

#[test]
fn a_tensor_without_bytes_lies_where_the_library_writes_it() {
    let tensor = |name: &str, dtype: &str, count: u64, from: u64| {
        let to = from + 4 * count;
        format!(r#""{name}":{{"dtype":"{dtype}","shape":[{count}],"data_offsets":[{from},{to}]}}"#)
    };
    let of = |tensors: &[String]| parse(&file(&format!("{{{}}}", tensors.join(",")), 4));
    let full = tensor("m", "F32", 1, 0);
    for taken in [
        ("z", "F32", 4),
        ("a", "F32", 0),
        ("z", "F64", 0),
        ("a", "F16", 4),
    ] {
        let (name, dtype, from) = taken;
        assert!(
            of(&[full.clone(), tensor(name, dtype, 0, from)]).is_ok(),
            "{taken:?}"
        );
    }
    for refused in [
        ("z", "F32", 0),
        ("a", "F32", 4),
        ("z", "F16", 0),
        ("a", "F64", 4),
    ] {
        let (name, dtype, from) = refused;
        let error = of(&[full.clone(), tensor(name, dtype, 0, from)]).unwrap_err();
        assert!(
            error.to_string().contains("shares its offset with 'm'"),
            "{error}"
        );
    }
    assert!(parse(&file(&format!("{{{}}}", tensor("a", "F32", 0, 0)), 0)).is_ok());
}

#[test]
fn more_tensors_than_any_model_has_are_refused() {
    let json = |count: usize| {
        let entry = |n| format!(r#""{n:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
        let entries: Vec<_> = (0..count).map(entry).collect();
        format!("{{{}}}", entries.join(","))
    };
    assert_eq!(
        parse(&file(&json(MAX_TENSORS), 0)).unwrap().tensors.len(),
        MAX_TENSORS
    );
    assert_eq!(
        reason_of(&json(MAX_TENSORS + 1), 0),
        HeaderError::TooManyTensors
    );
}
