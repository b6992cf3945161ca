//! Where tensors may lie, and how they may be aligned.

use super::*;

#[test]
fn an_alignment_that_is_none_is_refused() {
    let alignment = |value: u32| {
        File::new(3, 0, 1)
            .text("general.alignment")
            .u32(4)
            .u32(value)
    };
    for value in [0, 1, 4, 24, 1 << 17, u32::MAX] {
        let expected = format!("expected a power of two from 8 to 65536 as UINT32, got {value}");
        assert!(alignment(value).sentence().ends_with(&expected));
    }
    assert_eq!(parse(&alignment(8).0).unwrap().alignment, 8);
    let wide = File::new(3, 0, 1).text("general.alignment").u32(10).u64(32);
    assert!(wide.sentence().contains("got another type"));
}

fn one(dimensions: &[u64], kind: u32, offset: u64) -> File {
    File::new(3, 1, 0).tensor("x", dimensions, kind, offset)
}

#[test]
fn a_tensor_that_cannot_be_is_refused() {
    for kind in [4, 5, 9, 31, 36, 42, u32::MAX] {
        assert!(
            one(&[1], kind, 0)
                .sentence()
                .contains("has an unknown type")
        );
    }
    for (dimensions, kind) in [
        (vec![31], 2),
        (vec![128], 12),
        (vec![1 << 32, 1 << 31], 0),
        (vec![u64::MAX, 2], 0),
        (vec![1 << 61], 28),
    ] {
        let file = one(&dimensions, kind, 0);
        assert!(
            file.sentence().contains("has impossible dimensions"),
            "{dimensions:?}"
        );
    }
    assert!(
        one(&[1; 5], 0, 0)
            .sentence()
            .contains("too many dimensions: expected at most 4, got 5")
    );
    assert!(
        File::new(3, 1, 0)
            .text("x")
            .u32(u32::MAX)
            .raw(&[0; 40])
            .sentence()
            .contains("too many dimensions")
    );
    let name = "n".repeat(65);
    let long = File::new(3, 1, 0).tensor(&name, &[1], 0, 0);
    assert!(
        long.sentence()
            .contains("tensor name is too long: expected at most 64 bytes, got 65")
    );
    let twice = File::new(3, 2, 0)
        .tensor("x", &[1], 0, 0)
        .tensor("x", &[1], 0, 32);
    assert!(twice.sentence().contains("tensor name 'x' is duplicated"));
}

#[test]
fn tensors_that_do_not_follow_one_another_are_refused() {
    let two = |first, second, bytes| {
        sentence(
            &File::new(3, 2, 0)
                .tensor("x", &[1], 0, first)
                .tensor("y", &[9], 0, second)
                .data(32, bytes),
        )
    };
    assert!(
        two(0, 4, 68)
            .contains("tensor 'y' is not aligned: expected an offset in steps of 32, got 4")
    );
    assert!(two(0, 0, 68).contains("tensor 'y' overlaps another"));
    assert!(two(0, 64, 100).contains("gap before tensor 'y'"));
    assert!(two(32, 64, 100).contains("gap before tensor 'x'"));
    assert!(two(0, u64::MAX - 31, 100).contains("gap before tensor 'y'"));
    assert!(two(0, 32, 67).contains("truncated file: expected at least"));
    assert!(two(0, 32, 97).contains("bytes after the last tensor"));
    let padded = File::new(3, 2, 0)
        .tensor("y", &[9], 0, 32)
        .tensor("x", &[1], 0, 0)
        .data(32, 96);
    assert_eq!(parse(&padded).unwrap().tensors[1].name, "y");
}

#[test]
fn tensors_without_bytes_are_read() {
    let file = File::new(2, 2, 0)
        .tensor("x", &[0, 7], 0, 0)
        .tensor("y", &[], 0, 0)
        .data(32, 4);
    let header = parse(&file).unwrap();
    assert_eq!(
        (
            header.version,
            header.tensors[0].stop - header.tensors[0].start
        ),
        (2, 0)
    );
}
