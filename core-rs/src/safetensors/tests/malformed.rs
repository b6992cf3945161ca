//! Headers that are no JSON, or other JSON than a header's.

use super::*;

fn entry(fields: &str) -> String {
    format!(r#"{{"a":{{{fields}}}}}"#)
}

fn shape(shape: &str) -> String {
    one("F32", shape, "[0,4]")
}

fn check(cases: &[(String, &str)]) {
    for (json, part) in cases {
        let sentence = sentence(json);
        assert!(sentence.contains(part), "{json}: {sentence}");
        assert!(sentence.starts_with("header is malformed: "), "{sentence}");
    }
}

#[test]
fn fields_of_another_form_are_refused() {
    check(&[
        ("{".to_owned(), "expected '\"', got the header's end"),
        ("{} {}".to_owned(), "only spaces after the header"),
        ("{}\n".to_owned(), "only spaces after the header"),
        (
            r#"{"a":1}"#.to_owned(),
            "'a': expected an object with dtype",
        ),
        (
            r#"{"a":["F32",[1],[0,4]]}"#.to_owned(),
            "'a': expected an object",
        ),
        (r#"{"a":null}"#.to_owned(), "'a': expected an object"),
        (r#"{"a":{},}"#.to_owned(), "'a': no data_offsets"),
        (entry(r#""dtype":"F32","shape":[1]"#), "no data_offsets"),
        (entry(r#""shape":[1],"data_offsets":[0,4]"#), "no dtype"),
        (
            one("F32", "[1]", "[0]"),
            "expected ',' and a second number, got ']'",
        ),
        (
            one("F32", "[1]", "[0,4,4]"),
            "expected ']' after two numbers",
        ),
        (shape("[1,]"), "expected a whole number, got ']'"),
        (shape("[1 1]"), "expected ',' or ']', got '1'"),
        (shape("[-1]"), "expected a whole number, got '-'"),
        (shape("[1.0]"), "expected a whole number, got '.'"),
        (shape("[1e0]"), "expected a whole number, got 'e'"),
        (shape("[01]"), "without leading zeros, got '01'"),
        (shape("[99999999999999999999]"), "below 2^64"),
        (
            shape(&format!("[{}1]", "1,".repeat(64))),
            "at most 64 dimensions",
        ),
    ]);
}

#[test]
fn malformed_strings_and_metadata_are_refused() {
    check(&[
        (entry(r#""dtype":32"#), "expected '\"', got '3'"),
        (entry(r#""x":0"#), "unknown field 'x'"),
        (
            r#"{"__metadata__":{"a":1}}"#.to_owned(),
            "'__metadata__': 'a': expected '\"'",
        ),
        (
            r#"{"__metadata__":[]}"#.to_owned(),
            "'__metadata__': expected an object",
        ),
        (
            r#"{"__metadata__":nul}"#.to_owned(),
            "'__metadata__': expected an object",
        ),
        (
            "{\"a\tb\":{}}".to_owned(),
            "control characters to be escaped",
        ),
        (r#"{"a\x":{}}"#.to_owned(), "an escape of JSON"),
        (
            r#"{"a\u12g4":{}}"#.to_owned(),
            "a hexadecimal digit, got 'g'",
        ),
        (
            r#"{"a\ud800":{}}"#.to_owned(),
            "both halves of a surrogate pair",
        ),
        (
            r#"{"a\ud800\u0041":{}}"#.to_owned(),
            "both halves of a surrogate pair",
        ),
        (
            r#"{"a\udc00":{}}"#.to_owned(),
            "both halves of a surrogate pair",
        ),
        (
            r#"{"a\u00"#.to_owned(),
            "a hexadecimal digit, got the header's end",
        ),
        (r#"{"a"#.to_owned(), "expected '\"', got the header's end"),
    ]);
}
