//! Discrete Gaussian noise, exact: no float is involved, so no rounding leaks what noise should hide.
//!
//! Canonne, Kamath and Steinke, arXiv:2004.00010, algorithms 1 to 3, for an integer sigma: a discrete
//! Laplace variate is accepted with a probability that is a ratio of integers. Random bits are those of
//! `ChaCha20` under a secret key; every block of values has a stream of its own, so the number of
//! threads changes nothing.

use rand_chacha::{
    ChaCha20Rng,
    rand_core::{RngCore, SeedableRng},
};
use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use crate::{error::CoreError, threads};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// The largest sigma: with it all integers here have fewer than 128 bits.
pub const MOST_SIGMA: u64 = 1 << 20;

const BLOCK: usize = 4096;

/// Fills `values` with independent samples of `P(x) ~ exp(-x^2 / (2 sigma^2))` over the integers.
///
/// `key` is 32 bytes of the system's randomness, used once and forgotten.
///
/// # Errors
/// Only those of cancelled work.
///
/// # Panics
/// If sigma is 0 or above [`MOST_SIGMA`].
pub fn discrete_gaussian(
    values: &mut [i64],
    sigma: u64,
    key: &[u8; KEY_BYTES],
) -> Result<(), CoreError> {
    assert!((1..=MOST_SIGMA).contains(&sigma), "sigma is checked before");
    let blocks = values.par_chunks_mut(BLOCK).enumerate();
    threads::for_each(blocks, 1, |(number, block)| {
        let mut bits = ChaCha20Rng::from_seed(*key);
        bits.set_stream(number as u64);
        let mut source = Source(bits);
        block.fill_with(|| source.gaussian(sigma));
    })
}

struct Source(ChaCha20Rng);

impl Source {
    /// A uniform integer below `bound`, which is at least 1.
    fn below(&mut self, bound: u128) -> u128 {
        let mask = u128::MAX
            .checked_shr((bound - 1).leading_zeros())
            .unwrap_or(0);
        loop {
            let mut found = u128::from(self.0.next_u64());
            if mask > u128::from(u64::MAX) {
                found |= u128::from(self.0.next_u64()) << 64;
            }
            found &= mask;
            if found < bound {
                return found;
            }
        }
    }

    /// True with probability exp(-num / den), num <= den (algorithm 1, the first case).
    fn exp_at_most_one(&mut self, num: u128, den: u128) -> bool {
        let mut count = 1;
        while self.below(den * count) < num {
            count += 1;
        }
        count % 2 == 1
    }

    /// True with probability exp(-num / den) (algorithm 1).
    fn exp(&mut self, num: u128, den: u128) -> bool {
        for _ in 0..num / den {
            if !self.exp_at_most_one(1, 1) {
                return false;
            }
        }
        self.exp_at_most_one(num % den, den)
    }

    /// A discrete Laplace variate, P(x) ~ exp(-|x| / scale) (algorithm 2); its size and sign.
    fn laplace(&mut self, scale: u128) -> (u128, bool) {
        loop {
            let rest = self.below(scale);
            if !self.exp_at_most_one(rest, scale) {
                continue;
            }
            let mut whole = 0;
            while self.exp_at_most_one(1, 1) {
                whole += 1;
            }
            let size = rest + scale * whole;
            let negative = self.below(2) == 1;
            if size > 0 || !negative {
                return (size, negative);
            }
        }
    }

    /// A discrete Gaussian variate (algorithm 3).
    fn gaussian(&mut self, sigma: u64) -> i64 {
        let variance = u128::from(sigma) * u128::from(sigma);
        let scale = u128::from(sigma) + 1;
        loop {
            let (size, negative) = self.laplace(scale);
            let apart = (size * scale).abs_diff(variance);
            if self.exp(apart * apart, 2 * variance * scale * scale) {
                // beyond 2^63 only with a probability below exp(-2^80)
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                return if negative { -size } else { size };
            }
        }
    }
}

#[cfg(test)]
mod tests;
