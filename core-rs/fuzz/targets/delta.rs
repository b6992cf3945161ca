//! The delta reader on any bytes: as a file, and as the header's JSON alone. The parts of what it takes as a
//! file are those that its terms call for, once each.
#![no_main]

use std::collections::BTreeSet;

use _core::delta::{DeltaHeader, Part, VERSIONS, parse, parse_text};
use _core::safetensors::DType;
use libfuzzer_sys::fuzz_target;

fn parts(header: &DeltaHeader) -> Vec<Part> {
    let tensors = header.tensors.iter();
    tensors.filter_map(|tensor| tensor.parts()).flatten().collect()
}

fuzz_target!(|file: &[u8]| {
    if let Ok(delta) = parse(file) {
        let called: BTreeSet<_> = parts(&delta.header).into_iter().map(|part| part.name).collect();
        let there: BTreeSet<_> = delta.container.tensors.iter().map(|t| t.name.clone()).collect();
        assert_eq!(called, there);
        assert_eq!(parse_text(&delta.text, delta.version), Ok(delta.header));
    }
    let Ok(text) = std::str::from_utf8(file) else {
        return;
    };
    for (_, version) in VERSIONS {
        let Ok(header) = parse_text(text, version) else {
            continue;
        };
        let value: serde_json::Value = serde_json::from_str(text).expect("taken, and no JSON");
        assert!(value["base"].is_object() && value["recipe"].is_object());
        assert_eq!(value["base"]["identity"].as_str(), Some(header.base_identity.as_str()));
        for part in parts(&header) {
            let dtype = DType::from_name(part.dtype).expect("a type of no name");
            let _ = dtype.bytes(&part.shape);
        }
    }
});
