use proptest::prelude::*;

use super::*;

fn digest(bytes: &[u8], zero_at: u64, zero_len: u64) -> Result<String, CoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    file_digest(&OpenFile::open(&path)?, zero_at, zero_len)
}

fn plain(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

proptest! {
    #[test]
    fn the_hole_counts_as_ascii_zeros(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        at in 0usize..100,
        len in 0usize..100,
    ) {
        let at = at.min(bytes.len());
        let stop = (at + len).min(bytes.len());
        let mut expected = bytes.clone();
        expected[at..stop].fill(b'0');
        let got = digest(&bytes, at as u64, (stop - at) as u64).unwrap();
        prop_assert_eq!(got, plain(&expected));
    }
}

#[test]
fn a_hole_across_two_pieces_is_whole() {
    let piece = to_index(PIECE_BYTES);
    let mut bytes = vec![1; 2 * piece + 5];
    let got = digest(&bytes, PIECE_BYTES - 3, PIECE_BYTES + 6).unwrap();
    bytes[piece - 3..2 * piece + 3].fill(b'0');
    assert_eq!(got, plain(&bytes));
}

#[test]
fn a_hole_beyond_the_file_is_refused() {
    for (at, len) in [(0, 6), (6, 0), (u64::MAX, u64::MAX)] {
        let error = digest(b"12345", at, len).unwrap_err();
        assert!(
            matches!(error, CoreError::Range { length: 5, .. }),
            "{error}"
        );
    }
}

#[test]
fn an_absent_file_is_the_file_systems_answer() {
    let error = OpenFile::open("/nowhere/at/all".as_ref()).unwrap_err();
    assert!(matches!(error, CoreError::Io { .. }));
}

#[test]
fn a_file_of_several_pieces_is_digested_with_its_hole_across_two() {
    let piece = usize::try_from(PIECE_BYTES).unwrap();
    let mut bytes: Vec<u8> = (0..=250).cycle().take(2 * piece + 77).collect();
    let found = digest(&bytes, PIECE_BYTES - 30, 64).unwrap();
    bytes[piece - 30..piece + 34].fill(b'0');
    assert_eq!(found, plain(&bytes));
    assert_eq!(digest(&bytes, 0, 0).unwrap(), found);
}

#[test]
fn bytes_have_the_digest_of_a_file_with_them() {
    for bytes in [&b""[..], b"12345", &[7; 5000]] {
        assert_eq!(bytes_digest(bytes), plain(bytes));
    }
}
