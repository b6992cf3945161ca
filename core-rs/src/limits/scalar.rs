//! Words of 64 bits; the compiler may join them as the target's base line allows.

pub(super) fn read(first: &[u8], second: &[u8]) -> u64 {
    let words = first.as_chunks::<8>().0.iter().zip(second.as_chunks().0);
    words.fold(0, |xor, (first, second)| {
        xor ^ u64::from_le_bytes(*first) ^ u64::from_le_bytes(*second)
    })
}

pub(super) fn in_place(data: &mut [u8]) {
    for byte in data {
        *byte = !*byte;
    }
}
