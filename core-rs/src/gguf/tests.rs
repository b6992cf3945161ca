use proptest::prelude::*;

use super::{
    limits::{MAX_ARRAYS, MAX_DEPTH, MAX_HEADER_BYTES, MAX_STRINGS},
    *,
};

mod layout;

/// Bytes of a GGUF file, put together field by field.
#[derive(Clone, Default)]
struct File(Vec<u8>);

impl File {
    fn new(version: u32, tensors: u64, pairs: u64) -> Self {
        let file = Self(b"GGUF".to_vec()).u32(version);
        file.u64(tensors).u64(pairs)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn text(self, text: &str) -> Self {
        self.u64(text.len() as u64).raw(text.as_bytes())
    }

    fn tensor(self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        let file = self.text(name).u32(dimensions.len().try_into().unwrap());
        let file = dimensions.iter().fold(file, |file, size| file.u64(*size));
        file.u32(kind).u64(offset)
    }

    /// Padding up to the data, and so many bytes of them.
    fn data(mut self, alignment: usize, bytes: usize) -> Vec<u8> {
        self.0
            .resize(self.0.len().next_multiple_of(alignment) + bytes, 0);
        self.0
    }

    fn sentence(&self) -> String {
        sentence(&self.0)
    }
}

fn sentence(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

fn pair(kind: u32) -> File {
    File::new(3, 0, 1).text("k").u32(kind)
}

fn array(kind: u32, count: u64) -> File {
    pair(9).u32(kind).u64(count)
}

/// A pair of each shape, two tensors.
fn whole() -> Vec<u8> {
    let file = File::new(3, 2, 4).text("general.alignment").u32(4).u32(64);
    let file = file
        .text("name")
        .u32(8)
        .text("ü")
        .text("b")
        .u32(7)
        .raw(&[1]);
    let file = file
        .text("tokens")
        .u32(9)
        .u32(8)
        .u64(2)
        .text("a")
        .text("bc");
    let file = file.tensor("x", &[32, 2], 2, 0).tensor("y", &[3], 0, 64);
    file.data(64, 64 + 12)
}

#[test]
fn a_small_file_is_read() {
    let bytes = whole();
    let header = parse(&bytes).unwrap();
    assert_eq!((header.version, header.alignment), (3, 64));
    assert_eq!(
        header.metadata[1],
        ("name".to_owned(), Value::Text("ü".to_owned()))
    );
    assert_eq!(header.metadata[2].1, Value::Number(Number::Bool, vec![1]));
    let Value::Array(Array::Texts(texts)) = &header.metadata[3].1 else {
        panic!("{:?}", header.metadata[3]);
    };
    assert_eq!(texts.iter().collect::<Vec<_>>(), ["a", "bc"]);
    let start = bytes.len() as u64 - 64 - 12;
    let places: Vec<_> = header
        .tensors
        .iter()
        .map(|t| {
            (
                t.name.as_str(),
                t.kind.name,
                t.start - start,
                t.stop - start,
            )
        })
        .collect();
    // Two rows of 32 values at 18 bytes a block; then padding to 64.
    assert_eq!(places, [("x", "Q4_0", 0, 36), ("y", "F32", 64, 76)]);
}

#[test]
fn every_kind_of_number_is_read() {
    for (code, bytes) in [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 4),
        (5, 4),
        (6, 4),
        (7, 1),
        (10, 8),
        (11, 8),
        (12, 8),
    ] {
        let value = pair(code).raw(&vec![1; bytes]).0;
        let header = parse(&value).unwrap();
        assert!(matches!(&header.metadata[0].1, Value::Number(_, found) if found.len() == bytes));
        let two = array(code, 2).raw(&vec![1; 2 * bytes]).0;
        let header = parse(&two).unwrap();
        assert!(
            matches!(&header.metadata[0].1, Value::Array(Array::Numbers(_, found)) if found.len() == 2 * bytes)
        );
    }
}

#[test]
fn arrays_nest_to_a_limit() {
    let nested = |depth: usize| {
        (1..depth)
            .fold(pair(9), |file, _| file.u32(9).u64(1))
            .u32(0)
            .u64(1)
            .raw(&[7])
    };
    let header = parse(&nested(MAX_DEPTH).0).unwrap();
    let mut value = match &header.metadata[0].1 {
        Value::Array(array) => array,
        other => panic!("{other:?}"),
    };
    while let Array::Arrays(inner) = value {
        value = &inner[0];
    }
    assert_eq!(*value, Array::Numbers(Number::U8, vec![7]));
    assert!(
        nested(MAX_DEPTH + 1)
            .sentence()
            .contains("nested too deeply: expected at most 4")
    );
    assert!(nested(100_000).sentence().contains("nested too deep"));
}

#[test]
fn files_cut_anywhere_are_refused() {
    let bytes = whole();
    for end in 0..bytes.len() {
        let error = parse(&bytes[..end]).unwrap_err();
        let cut = matches!(
            error,
            GgufError::Truncated { .. } | GgufError::Magic { .. } | GgufError::TooMany { .. }
        );
        assert!(cut, "{end}: {error}");
    }
}

#[test]
fn other_files_are_named() {
    assert!(sentence(b"").contains("got an empty file"));
    assert!(sentence(b"PK\x03\x04....").contains(r"got 'PK\x03\x04'"));
    assert!(sentence(b"GGUF\0\0\0\x03").starts_with("big-endian GGUF file"));
    assert!(sentence(b"GGUF\x01\0\0\0").contains("expected 2 or 3, got 1"));
    assert!(sentence(b"GGUF\0\0\0\0").contains("expected 2 or 3, got 0"));
    assert!(sentence(b"GGUF\x04\0\0\0").contains("expected 2 or 3, got 4"));
}

#[test]
fn counts_that_the_file_has_no_room_for_are_refused() {
    for count in [1, 1 << 40, u64::MAX] {
        assert!(
            File::new(3, count, 0)
                .sentence()
                .contains("too many tensors: expected at most 0")
        );
        assert!(
            File::new(3, 0, count)
                .sentence()
                .contains("too many keys: expected at most 0")
        );
    }
    let many = File::new(3, 0, MAX_PAIRS + 1).raw(&vec![0; 1 << 20]);
    assert!(
        many.sentence()
            .contains("too many keys: expected at most 16384, got 16385")
    );
    let many = File::new(3, MAX_TENSORS + 1, 0).raw(&vec![0; 1 << 22]);
    assert!(
        many.sentence()
            .contains("too many tensors: expected at most 65536")
    );
    for count in [9, 1 << 61, u64::MAX] {
        for kind in [4, 8, 9, 12] {
            assert!(
                array(kind, count)
                    .raw(&[0; 8])
                    .sentence()
                    .starts_with("truncated file")
            );
        }
    }
    for length in [9, u64::MAX - 40, u64::MAX] {
        assert!(
            pair(8)
                .u64(length)
                .raw(&[0; 8])
                .sentence()
                .starts_with("truncated file")
        );
    }
}

#[test]
fn what_takes_more_memory_than_its_bytes_is_limited() {
    let many = array(8, MAX_STRINGS + 1).raw(&vec![0; 17 << 20]);
    assert!(
        many.sentence()
            .contains("too many strings: expected at most 2097152, got 2097153")
    );
    let many = array(9, MAX_ARRAYS + 1).raw(&vec![0; 1 << 20]);
    assert!(many.sentence().contains("too many arrays in arrays"));
    let long = pair(8).u64(MAX_HEADER_BYTES);
    let error = read(Source::new(&long.0[..], u64::MAX)).unwrap_err();
    assert!(matches!(error, Stop::Refused(GgufError::TooLong { .. })));
}

#[test]
fn a_value_that_cannot_be_is_refused() {
    assert!(
        pair(13)
            .raw(&[0; 8])
            .sentence()
            .contains("the value of 'k' has an unknown type: expected 0 to 12, got 13")
    );
    assert!(array(13, 0).sentence().contains("unknown type"));
    assert!(
        pair(7)
            .raw(&[2])
            .sentence()
            .contains("expected 0 or 1, got 2")
    );
    assert!(
        array(7, 3)
            .raw(&[0, 1, 255])
            .sentence()
            .contains("expected 0 or 1, got 255")
    );
    let text = pair(8).u64(2).raw(b"a\xFF");
    assert!(
        text.sentence()
            .contains("expected UTF-8, got byte 0xff at position 1")
    );
}

#[test]
fn a_key_that_is_not_plain_is_refused() {
    let key = |key: &str| File::new(3, 0, 1).text(key).u32(0).raw(&[0; 2]).sentence();
    assert!(key("").contains("key '' is not plain"));
    assert!(key("a\0").contains(r"key 'a\0' is not plain"));
    assert!(key(&"k".repeat(65_536)).contains("key is too long: expected at most 65535 bytes"));
    let twice = File::new(3, 0, 2)
        .text("k")
        .u32(0)
        .raw(&[0])
        .text("k")
        .u32(0)
        .raw(&[0]);
    assert!(twice.sentence().contains("key 'k' is duplicated"));
}

#[test]
fn a_file_on_disk_is_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for bytes in [whole(), whole()[..99].to_vec()] {
        std::fs::write(&path, &bytes).unwrap();
        let found = read_header(&OpenFile::open(&path).unwrap()).map_err(|error| error.to_string());
        let expected = parse(&bytes).map_err(|error| format!("{}: {error}", path.display()));
        assert_eq!(found, expected);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse(&bytes));
        drop(parse(&File::new(3, 1, 1).raw(&bytes).0));
        drop(parse(&array(9, 3).raw(&bytes).0));
    }

    #[test]
    fn any_changed_bytes_are_survived(changes in prop::collection::vec((0usize..250, any::<u8>()), 1..4)) {
        let mut bytes = whole();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(header) = parse(&bytes) {
            prop_assert!(header.tensors.iter().all(|t| t.start <= t.stop && t.stop <= bytes.len() as u64));
        }
    }
}
