//! The entries of a header: read from left to right, kept small, checked against the file's size.

use std::collections::BTreeMap;

use super::{
    dtype::DType,
    error::HeaderError,
    header::TensorInfo,
    json::{Scanner, Text},
    limits::{MAX_DIMENSIONS, MAX_METADATA_BYTES, MAX_METADATA_ENTRIES, MAX_TENSORS},
    names,
};

const METADATA: &str = "__metadata__";

/// Bytes that no tensor's entry is shorter than, with a name of its own among many.
const SHORTEST_ENTRY: usize = 50;

/// A tensor as its header has it: 32 bytes, less than its text. Places are within 32 bits because a
/// header is; offsets count from the start of the data.
pub(super) struct Entry {
    start: u64,
    stop: u64,
    name_at: u32,
    shape_at: u32,
    name_bytes: u16,
    dtype: u8,
    escaped: bool,
}

impl Entry {
    pub(super) fn name<'a>(&self, header: &'a str) -> Text<'a> {
        let (at, length) = (self.name_at as usize, usize::from(self.name_bytes));
        Text::found(header, at, length, self.escaped)
    }

    fn dtype(&self) -> DType {
        DType::from_code(self.dtype)
    }

    /// The same with its name and shape in memory of their own, and counted from the file's start.
    pub(super) fn owned(&self, header: &str, data_start: u64) -> Result<TensorInfo, HeaderError> {
        let mut shape = Vec::new();
        read_shape(&mut Scanner::at(header, self.shape_at as usize), &mut shape)?;
        Ok(TensorInfo {
            name: self.name(header).decode().into_owned(),
            dtype: self.dtype(),
            shape,
            start: data_start + self.start,
            stop: data_start + self.stop,
        })
    }
}

/// Reads all of a header.
pub(super) fn read(header: &str) -> Result<(Vec<Entry>, BTreeMap<String, String>), HeaderError> {
    let mut scanner = Scanner::new(header);
    let expected = (header.len() / SHORTEST_ENTRY).min(MAX_TENSORS);
    let (mut entries, mut metadata) = (Vec::with_capacity(expected), None);
    let (mut first, mut shape) = (true, Vec::new());
    scanner.expect(b'{', "'{'")?;
    while scanner.more(first, b'}')? {
        first = false;
        let name = scanner.string()?;
        scanner.expect(b':', "':'")?;
        if name.is(METADATA) {
            if metadata.is_some() {
                return Err(twice(name));
            }
            metadata = Some(read_metadata(&mut scanner).map_err(inside(name))?);
            continue;
        }
        names::check(name)?;
        if entries.len() == MAX_TENSORS {
            return Err(HeaderError::TooManyTensors);
        }
        let fields = read_fields(&mut scanner, &mut shape).map_err(inside(name))?;
        entries.push(check_tensor(name, &fields, &shape)?);
    }
    scanner.end()?;
    Ok((entries, metadata.unwrap_or_default()))
}

fn twice(name: Text<'_>) -> HeaderError {
    HeaderError::Twice {
        name: name.decode().into_owned(),
    }
}

/// Adds the entry of the header to an error.
fn inside(name: Text<'_>) -> impl FnOnce(HeaderError) -> HeaderError {
    move |error| error.inside(&name.opening())
}

/// A tensor's object; its shape is stored in a reused buffer.
struct Fields<'a> {
    dtype: Text<'a>,
    shape_at: usize,
    from: u64,
    to: u64,
}

fn read_fields<'a>(
    scanner: &mut Scanner<'a>,
    shape: &mut Vec<u64>,
) -> Result<Fields<'a>, HeaderError> {
    let (mut dtype, mut shape_at, mut offsets, mut first) = (None, None, None, true);
    scanner.expect(b'{', "an object with dtype, shape and data_offsets")?;
    while scanner.more(first, b'}')? {
        first = false;
        let key = scanner.string()?;
        scanner.expect(b':', "':'")?;
        let was_there = if key.is("dtype") {
            dtype.replace(scanner.string()?).is_some()
        } else if key.is("shape") {
            let at = scanner.position();
            read_shape(scanner, shape)?;
            shape_at.replace(at).is_some()
        } else if key.is("data_offsets") {
            offsets.replace(read_offsets(scanner)?).is_some()
        } else {
            return Err(HeaderError::unknown_field(&key.opening()));
        };
        if was_there {
            return Err(twice(key));
        }
    }
    let (from, to) = offsets.ok_or_else(|| HeaderError::missing("data_offsets"))?;
    Ok(Fields {
        dtype: dtype.ok_or_else(|| HeaderError::missing("dtype"))?,
        shape_at: shape_at.ok_or_else(|| HeaderError::missing("shape"))?,
        from,
        to,
    })
}

fn read_shape(scanner: &mut Scanner<'_>, shape: &mut Vec<u64>) -> Result<(), HeaderError> {
    shape.clear();
    scanner.expect(b'[', "a list of whole numbers")?;
    while scanner.more(shape.is_empty(), b']')? {
        if shape.len() == MAX_DIMENSIONS {
            return Err(scanner.fault("at most 64 dimensions"));
        }
        shape.push(scanner.number()?);
    }
    Ok(())
}

fn read_offsets(scanner: &mut Scanner<'_>) -> Result<(u64, u64), HeaderError> {
    scanner.expect(b'[', "a list of two whole numbers")?;
    let from = scanner.number()?;
    scanner.expect(b',', "',' and a second number")?;
    let to = scanner.number()?;
    scanner.expect(b']', "']' after two numbers")?;
    Ok((from, to))
}

/// An object of strings, or null.
fn read_metadata(scanner: &mut Scanner<'_>) -> Result<BTreeMap<String, String>, HeaderError> {
    let mut texts = BTreeMap::new();
    if scanner.take_null() {
        return Ok(texts);
    }
    let (start, mut first) = (scanner.position(), true);
    scanner.expect(b'{', "an object with a string under each key")?;
    while scanner.more(first, b'}')? {
        first = false;
        let key = scanner.string()?;
        names::check(key)?;
        scanner.expect(b':', "':'")?;
        let text = scanner.string().map_err(inside(key))?;
        let bytes = scanner.position() - start;
        if bytes > MAX_METADATA_BYTES || texts.len() == MAX_METADATA_ENTRIES {
            return Err(HeaderError::Metadata);
        }
        if texts
            .insert(key.decode().into_owned(), text.decode().into_owned())
            .is_some()
        {
            return Err(twice(key));
        }
    }
    Ok(texts)
}

/// Checks one tensor on its own.
fn check_tensor(name: Text<'_>, fields: &Fields<'_>, shape: &[u64]) -> Result<Entry, HeaderError> {
    let owned = || name.decode().into_owned();
    let Fields { from, to, .. } = *fields;
    let Some(dtype) = DType::from_name(&fields.dtype.decode()) else {
        return Err(HeaderError::UnknownDType {
            name: owned(),
            dtype: fields.dtype.opening(),
        });
    };
    // Far below 2^64, so that no later sum of a start and a length overflows.
    if from > to || to > u64::MAX / 2 {
        let name = owned();
        return Err(HeaderError::Offsets { name, from, to });
    }
    let expected = dtype.bytes(shape).ok_or_else(|| HeaderError::Shape {
        name: owned(),
        shape: shape.to_owned(),
    })?;
    if expected != to - from {
        return Err(HeaderError::Size {
            name: owned(),
            dtype,
            shape: shape.to_owned(),
            expected,
            got: to - from,
        });
    }
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Ok(Entry {
        start: from,
        stop: to,
        name_at: place(name.at),
        shape_at: place(fields.shape_at),
        name_bytes: u16::try_from(name.raw_bytes()).unwrap_or(u16::MAX),
        dtype: dtype.code(),
        escaped: name.escaped,
    })
}

/// Sorts tensors by their bytes and checks that they cover the data from its first byte to its last,
/// each byte once.
pub(super) fn check_cover(
    header: &str,
    entries: &mut [Entry],
    data_start: u64,
    file_bytes: u64,
) -> Result<(), HeaderError> {
    entries.sort_unstable_by_key(|entry| (entry.start, entry.stop, entry.name_at));
    let mut covered = 0;
    let mut before: Option<&Entry> = None;
    for entry in entries.iter() {
        let name = || entry.name(header).decode().into_owned();
        let (start, stop) = (data_start + entry.start, data_start + entry.stop);
        let end = data_start + covered;
        if entry.start < covered {
            return Err(HeaderError::Overlap {
                name: name(),
                start,
                covered: end,
            });
        }
        if entry.start > covered {
            return Err(HeaderError::Hole {
                name: name(),
                start,
                covered: end,
            });
        }
        if stop > file_bytes {
            return Err(HeaderError::TruncatedData {
                name: name(),
                stop,
                file_bytes,
            });
        }
        covered = entry.stop;
        if let Some(before) = before {
            check_order(header, before, entry)?;
        }
        before = Some(entry);
    }
    if data_start + covered != file_bytes {
        let covered = data_start + covered;
        return Err(HeaderError::Trailing {
            covered,
            file_bytes,
        });
    }
    Ok(())
}

/// A tensor without bytes shares its offset with the next one. It is accepted where the format's own
/// library would have put it: by falling size of a value, within one type by name.
fn check_order(header: &str, before: &Entry, entry: &Entry) -> Result<(), HeaderError> {
    let empty = |entry: &Entry| entry.start == entry.stop;
    if empty(before) == empty(entry) {
        return Ok(());
    }
    let (left, right) = (before.dtype(), entry.dtype());
    let ordered = if left == right {
        before.name(header).decode() <= entry.name(header).decode()
    } else {
        left.bits >= right.bits
    };
    if ordered {
        return Ok(());
    }
    let (first, second) = (before.name(header), entry.name(header));
    let (empty, other) = if empty(before) {
        (first, second)
    } else {
        (second, first)
    };
    Err(HeaderError::Misplaced {
        name: empty.decode().into_owned(),
        other: other.decode().into_owned(),
    })
}
