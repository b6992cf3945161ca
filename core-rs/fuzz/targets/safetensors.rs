//! The safetensors reader on any bytes. What it takes, a plain JSON reader takes too, and its tensors
//! cover the data once.
#![no_main]

use std::collections::BTreeSet;

use _core::safetensors::{Header, parse, parse_header};
use libfuzzer_sys::fuzz_target;

/// Bytes of the length before the header.
const PREFIX: usize = 8;

fn check(header: &Header, json: &[u8], file_bytes: usize) {
    let value: serde_json::Value = serde_json::from_slice(json).expect("taken, and no JSON");
    let entries = value.as_object().expect("taken, and no object");
    let names: BTreeSet<_> = header.tensors.iter().map(|tensor| &tensor.name).collect();
    assert_eq!(names.len(), header.tensors.len());
    assert!(names.iter().all(|name| entries.contains_key(*name)));
    let mut at = (PREFIX + json.len()) as u64;
    for tensor in &header.tensors {
        assert_eq!(tensor.start, at);
        assert_eq!(tensor.dtype.bytes(&tensor.shape), Some(tensor.stop - tensor.start));
        at = tensor.stop;
    }
    assert_eq!(at, file_bytes as u64);
}

fuzz_target!(|file: &[u8]| {
    if let Ok(header) = parse(file) {
        let length = u64::from_le_bytes(*file.first_chunk().expect("taken without a length"));
        let stop = PREFIX + usize::try_from(length).expect("taken beyond its end");
        check(&header, &file[PREFIX..stop], file.len());
    }
    // A change that moves the header's end spoils the length: once more with the end that is there.
    let Some(end) = file.iter().rposition(|byte| *byte == b'}') else {
        return;
    };
    if let Some(json) = file.get(PREFIX..=end)
        && let Ok(header) = parse_header(json, file.len() as u64)
    {
        check(&header, json, file.len());
    }
});
