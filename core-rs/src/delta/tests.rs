use proptest::prelude::*;

use super::*;

const TEXT: &str = r#"{"form":"dense","base":{"identity":"0000000000000000000000000000000000000000000000000000000000000000","id":"b","revision":null},"tensors":[{"name":"w","shape":[2,130],"terms":[{"kind":"sign","scale":"group","zero":"mask","planes":2,"group":128},{"kind":"int","bits":4,"group":128}]}],"recipe":{"x":[1,-1,0.5,null,true,"y",{}]},"seed":-1,"data":null,"privacy":null,"tool":"t","quality":null}"#;

fn parts(terms: &str, shape: &str) -> Vec<String> {
    let told = TEXT.replace("[2,130]", shape);
    let start = told.find("[{\"kind\"").unwrap();
    let stop = told.find("}],\"recipe\"").unwrap();
    let form = if terms.contains("lowrank") {
        "lowrank"
    } else {
        "dense"
    };
    let told = format!("{}[{terms}]{}", &told[..start], &told[stop..]).replace("dense", form);
    let header = parse_text(&told, Version::One).unwrap();
    let parts = header.tensors[0].parts().unwrap();
    parts
        .iter()
        .map(|part| format!("{} {} {:?}", &part.name[2..], part.dtype, part.shape))
        .collect()
}

#[test]
fn terms_call_for_their_parts() {
    let sign = r#"{"kind":"sign","scale":"column","zero":"mask","planes":2}"#;
    let expected = [
        "sign U8 [6, 17]",
        "scale F32 [130]",
        "sign.2 U8 [6, 17]",
        "scale.2 F32 [130]",
        "mask U8 [6, 17]",
    ];
    assert_eq!(parts(sign, "[2,3,130]"), expected);
    let group = r#"{"kind":"sign","scale":"group","zero":"minus","group":128}"#;
    assert_eq!(
        parts(group, "[2,130]"),
        ["sign U8 [2, 17]", "scale F32 [2, 2]"]
    );
    let ternary = r#"{"kind":"ternary","group":128},{"kind":"raw"}"#;
    let expected = [
        "ternary.codes U8 [1, 26]",
        "ternary.scale F16 [1, 2]",
        "raw F32 [130]",
    ];
    assert_eq!(parts(ternary, "[130]"), expected);
    let int = r#"{"kind":"int","bits":4,"group":128}"#;
    assert_eq!(
        parts(int, "[]"),
        ["int.codes U8 [1, 1]", "int.scale F16 [1, 1]"]
    );
    let factors = r#"{"kind":"lowrank","rank":3,"group":128,"A":"int2","B":"bf16"}"#;
    let expected = [
        "A.codes U8 [3, 33]",
        "A.scale F16 [3, 2]",
        "B.values BF16 [3, 2]",
    ];
    assert_eq!(parts(factors, "[2,130]"), expected);
}

#[test]
fn a_header_is_read() {
    let header = parse_text(TEXT, Version::One).unwrap();
    let mask = true;
    let sign = Term::Sign {
        scale: Scale::Group,
        mask,
        planes: 2,
    };
    assert_eq!(header.tensors[0].terms, [sign, Term::Int { bits: 4 }]);
    assert!(!header.low_rank);
}

const EXTENDED: &str = r#"{"form":"dense","base":{"identity":"0000000000000000000000000000000000000000000000000000000000000000","id":"b","revision":null},"tensors":[{"name":"w","shape":[2],"terms":[{"kind":"raw"}]}],"recipe":{},"seed":null,"data":null,"parents":["1111111111111111111111111111111111111111111111111111111111111111"],"privacy":{"mechanism":"discrete-gaussian","unit":"contribution","epsilon":1.0,"delta":1e-6,"sigma":4.3,"clip":1,"contributors":100,"values":2,"noise_to_signal":0.06},"tool":"t","quality":{"rows":1,"tokens":1,"base":1,"tuned":null,"delta":1,"recovered":null,"kl":null,"top1":0.5,"drift":-0.1,"controls":[{"kind":"a","loss":1},{"kind":"b","loss":2}],"right":40,"kept":38}}"#;

#[test]
fn version_2_has_more_fields_and_version_1_has_none_of_them() {
    assert!(parse_text(EXTENDED, Version::Two).is_ok());
    assert!(parse_text(EXTENDED, Version::One).is_err());
    assert!(parse_text(TEXT, Version::Two).is_err()); // no parents
}

#[test]
fn a_wrong_field_of_version_2_is_named() {
    for (old, new, phrase) in [
        ("\"1111", "\"111", "header: parents: expected 64"),
        (
            "[\"1",
            "[\"2222222222222222222222222222222222222222222222222222222222222222\",\"2222222222222222222222222222222222222222222222222222222222222222\",\"1",
            "header: parents: expected each once",
        ),
        (
            "\"contributors\":100",
            "\"contributors\":0",
            "header: privacy.contributors: expected at least 1",
        ),
        (
            "\"values\":2",
            "\"values\":0",
            "header: privacy.values: expected at least 1",
        ),
        ("discrete-", "", "unknown variant `gaussian`"),
        (
            "\"unit\":\"contribution\"",
            "\"unit\":\"token\"",
            "unknown variant `token`",
        ),
        ("\"clip\":1,", "", "missing field `clip`"),
        (
            "\"clip\":1,",
            "\"clip\":1,\"amplification\":0.1,",
            "unknown field `amplification`",
        ),
        ("\"top1\":0.5", "\"top1\":null", "invalid type: null"),
        (
            "\"kind\":\"b\"",
            "\"kind\":\"a\"",
            "header: quality.controls: expected each kind once",
        ),
        (
            "[{\"kind\":\"a\",\"loss\":1},{\"kind\":\"b\",\"loss\":2}]",
            "[]",
            "header: quality.controls: expected at least one",
        ),
    ] {
        let changed = EXTENDED.replace(old, new);
        assert_ne!(changed, EXTENDED);
        let error = parse_text(&changed, Version::Two).unwrap_err().to_string();
        assert!(error.contains(phrase), "{error}");
    }
}

#[test]
fn a_header_cut_anywhere_is_refused() {
    for (text, version) in [(TEXT, Version::One), (EXTENDED, Version::Two)] {
        for end in 0..text.len() {
            assert!(parse_text(&text[..end], version).is_err(), "{end}");
        }
    }
}

proptest! {
    #[test]
    fn any_changed_bytes_are_survived(changes in prop::collection::vec((0usize..600, " |0|1|9|\\[|\\]|\\{|\\}|,|:|\"|a|null"), 1..4)) {
        let mut text = TEXT.to_owned();
        for (at, new) in changes {
            let at = at % text.len();
            text.replace_range(at..=at, &new);
        }
        for version in [Version::One, Version::Two] {
            let Ok(header) = parse_text(&text, version) else { continue };
            prop_assert_eq!(header.base_identity.len(), 64);
            drop(header.tensors[0].parts());
        }
    }
}
