//! Asking for memory before its turn, where the processor can be asked.
#![allow(unsafe_code)]
#![allow(clippy::inline_always)] // a hint is one instruction

const CACHE_LINE: usize = 64;

/// Asks for values that will be needed soon.
#[inline(always)]
pub(crate) fn now<T>(values: &[T]) {
    behind(values, 0);
}

/// Asks for as much as some values take, so many bytes behind their start: it will be needed soon, if
/// it is there at all.
#[inline(always)]
pub(crate) fn behind<T>(values: &[T], bytes: usize) {
    let start = values.as_ptr().cast::<i8>().wrapping_add(bytes);
    for line in (0..size_of_val(values)).step_by(CACHE_LINE) {
        let line = start.wrapping_add(line);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint never faults, wherever it points; every x86-64 processor has it.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }
}
