//! Asking for memory before its turn, where the processor can be asked.
#![allow(unsafe_code)]
#![allow(clippy::inline_always)] // a hint is one instruction

const CACHE_LINE: usize = 64;

/// Asks for values that will be read soon.
#[inline(always)]
pub(crate) fn to_read<T>(values: &[T]) {
    to_read_after(values, 0);
}

/// Asks for as much as some values take, so many bytes behind their start: it will be read soon, if it
/// is there at all.
#[inline(always)]
pub(crate) fn to_read_after<T>(values: &[T], bytes: usize) {
    for line in lines(values, bytes) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint never faults, wherever it points; every x86-64 processor has it.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// As `to_read_after`, and it will be written.
#[inline(always)]
pub(crate) fn to_write_after<T>(values: &[T], bytes: usize) {
    for line in lines(values, bytes) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `to_read_after`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(line);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

#[inline(always)]
fn lines<T>(values: &[T], after: usize) -> impl Iterator<Item = *const i8> {
    let start = values.as_ptr().cast::<i8>().wrapping_add(after);
    (0..size_of_val(values))
        .step_by(CACHE_LINE)
        .map(move |line| start.wrapping_add(line))
}
