//! The definition's loop, which the compiler turns into NEON.

use super::{Strip, Sums, scalar};

#[target_feature(enable = "neon")]
pub(super) fn add_masked(masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    scalar::add_masked(masks, numbers, sums);
}
