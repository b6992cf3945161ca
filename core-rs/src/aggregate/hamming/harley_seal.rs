//! Counting bits 16 words at a time: carry-save adders leave one word to count in 16.
#![allow(unsafe_code)]

use super::{
    super::lanes::{Lanes, add16},
    NEAR, STEP_BYTES,
};

/// A register whose bits can be counted.
///
/// # Safety
/// That of [`Lanes`].
pub(super) unsafe trait Tally: Lanes {
    /// `totals` with the number of this register's bits added, spread over its 64-bit numbers.
    fn tally(self, totals: Self) -> Self;
    /// Its 64-bit numbers doubled.
    fn twice(self) -> Self;
    /// The sum of its 64-bit numbers.
    fn total(self) -> u64;
    /// The same value, opaque to the compiler.
    fn opaque(self) -> Self;
}

/// Five binary digits, and the total of the fifth.
struct Counter<L> {
    digits: [L; 5],
    sixteens: L,
}

impl<L: Tally> Counter<L> {
    #[inline(always)]
    fn new() -> Self {
        let zero = L::splat(false);
        let digits = [zero; 5];
        Self {
            digits,
            sixteens: zero,
        }
    }

    /// The kernel's inner instructions.
    #[inline(always)]
    fn step(&mut self, words: &[L; 16]) {
        add16(&mut self.digits, words);
        self.sixteens = self.digits[4].tally(self.sixteens);
    }

    #[inline(always)]
    fn total(self) -> u64 {
        let digits = self.digits[..4].iter().rev();
        let add = |total: L, digit: &L| digit.tally(total.twice());
        digits.fold(self.sixteens, add).total()
    }
}

/// Adds the distances of every row of `above` to every row of `beside`; a line of sums for each row
/// above.
///
/// # Safety
/// That of [`Lanes`]: only from a function with the register's instructions.
#[inline(always)]
pub(super) unsafe fn add_block<L: Tally>(
    above: &[&[u8]],
    beside: &[&[u8]],
    sums: &mut [[u64; NEAR]],
) {
    for (first, line) in above.iter().zip(sums) {
        for (second, sum) in beside.iter().zip(line) {
            *sum += distance::<L>(first, second);
        }
    }
}

#[inline(always)]
fn distance<L: Tally>(first: &[u8], second: &[u8]) -> u64 {
    let mut counter = Counter::<L>::new();
    let size = 16 * L::BYTES;
    debug_assert_eq!(STEP_BYTES % size, 0);
    for (first, second) in first.chunks_exact(size).zip(second.chunks_exact(size)) {
        let mut words = [L::splat(false); 16];
        for (index, word) in words.iter_mut().enumerate() {
            let at = index * L::BYTES;
            *word = L::load(&first[at..]).xor(L::load(&second[at..]));
        }
        counter.step(&words);
    }
    counter.total()
}

/// The inner instructions on registers alone; returns the pairs of bits compared.
///
/// # Safety
/// As [`add_block`].
#[inline(always)]
pub(super) unsafe fn registers<L: Tally>(steps: usize) -> usize {
    let mut counter = Counter::<L>::new();
    let (mut first, second) = (L::splat(true).opaque(), L::splat(false).opaque());
    for _ in 0..steps {
        let mut words = [second; 16];
        for word in &mut words {
            first = first.opaque();
            *word = first.xor(second);
        }
        counter.step(&words);
    }
    std::hint::black_box(counter.total());
    steps * 16 * 8 * L::BYTES
}
