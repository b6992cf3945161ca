//! The definition's loop, which the compiler turns into AVX2.

use super::{Strip, Sums, scalar};

#[target_feature(enable = "avx2")]
pub(super) fn add_masked(masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    scalar::add_masked(masks, numbers, sums);
}
