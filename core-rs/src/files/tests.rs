use super::*;

#[test]
fn a_file_that_is_cut_short_after_it_was_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [1; 100]).unwrap();
    let file = OpenFile::open(&path).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(50)
        .unwrap();
    assert_eq!(file.range(40, 10).unwrap(), [1; 10]);
    assert!(matches!(
        file.range(40, 20),
        Err(CoreError::CutShort { .. })
    ));
}

#[test]
fn another_file_in_its_place_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [1; 8]).unwrap();
    let file = OpenFile::open(&path).unwrap();
    fs::write(folder.path().join("other"), [2; 8]).unwrap();
    fs::rename(folder.path().join("other"), &path).unwrap();
    assert_eq!(file.range(0, 8).unwrap(), [1; 8]);
}

#[test]
fn memory_that_the_machine_does_not_have_is_an_error() {
    let file = OpenFile::open(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/Cargo.toml"
    )));
    let refused = file.unwrap().range(0, u64::MAX >> 2);
    assert!(matches!(refused, Err(CoreError::Memory { .. })));
}
