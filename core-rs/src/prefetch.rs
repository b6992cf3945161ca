//! Prefetching of memory, on processors that support it.
#![allow(unsafe_code)]
#![allow(clippy::inline_always)] // a hint is one instruction

const CACHE_LINE: usize = 64;

/// Prefetches values that will be needed soon.
#[inline(always)]
pub(crate) fn now<T>(values: &[T]) {
    behind(values, 0);
}

/// Prefetches as many bytes as some values take, at an offset behind their start, which may be past
/// the end of the data.
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
