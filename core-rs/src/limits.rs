//! The memory bandwidth of the machine: minimal work on each byte.
//!
//! A kernel that reads two streams cannot be faster than *read*, and one that changes its data in
//! place not faster than *in place*. Each folder's file has them for one instruction set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::{
    iter::IndexedParallelIterator,
    slice::{ParallelSlice, ParallelSliceMut},
};

use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

/// Bytes that one task takes.
const TASK_BYTES: usize = 1 << 18;

/// Reads two streams side by side and returns the exclusive or of all their words of 64 bits (a rest
/// that fills none is left out).
///
/// # Errors
/// [`CoreError::Length`] for streams of different lengths.
pub fn read(first: &[u8], second: &[u8], isa: Isa) -> Result<u64, CoreError> {
    check_length("second", first.len(), second.len())?;
    let tasks = first
        .par_chunks(TASK_BYTES)
        .zip(second.par_chunks(TASK_BYTES));
    let xor = AtomicU64::new(0);
    threads::for_each(tasks, 1, |(first, second)| {
        xor.fetch_xor(dispatch!(isa, read(first, second)), Relaxed);
    })?;
    Ok(xor.into_inner())
}

/// Flips every bit of a buffer, in place.
///
/// # Errors
/// [`CoreError::Stopped`] alone.
pub fn in_place(data: &mut [u8], isa: Isa) -> Result<(), CoreError> {
    let tasks = data.par_chunks_mut(TASK_BYTES);
    threads::for_each(tasks, 1, |data| dispatch!(isa, in_place(data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_reads_and_flips_every_byte() {
        let first: Vec<u8> = (0..=250).cycle().take(700_003).collect();
        let second: Vec<u8> = first.iter().rev().copied().collect();
        let words = first.as_chunks::<8>().0.iter().chain(second.as_chunks().0);
        let expected = words.fold(0, |xor, word| xor ^ u64::from_le_bytes(*word));
        for isa in Isa::available() {
            assert_eq!(read(&first, &second, isa).unwrap(), expected, "{isa}");
            let mut data = first.clone();
            in_place(&mut data, isa).unwrap();
            assert!(
                data.iter().zip(&first).all(|(new, old)| *new == !old),
                "{isa}"
            );
        }
    }
}
