//! The GGUF reader on any bytes. The tensors of what it takes lie in the file, apart and aligned.
#![no_main]

use _core::gguf::{Array, Value, parse};
use libfuzzer_sys::fuzz_target;

fn depth(array: &Array) -> usize {
    match array {
        Array::Arrays(inner) => 1 + inner.iter().map(depth).max().unwrap_or(0),
        Array::Texts(texts) => {
            assert!(texts.iter().map(str::len).sum::<usize>() < 1 << 20);
            1
        }
        Array::Numbers(number, bytes) => {
            assert_eq!(bytes.len() as u64 % number.bytes(), 0);
            1
        }
    }
}

fuzz_target!(|file: &[u8]| {
    let Ok(header) = parse(file) else {
        return;
    };
    for (_, value) in &header.metadata {
        if let Value::Array(array) = value {
            assert!(depth(array) <= 4);
        }
    }
    let mut at = 0;
    for tensor in &header.tensors {
        assert!(at <= tensor.start && tensor.start <= tensor.stop);
        assert!(tensor.stop <= file.len() as u64);
        at = tensor.stop;
    }
});
