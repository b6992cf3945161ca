//! 128 columns at a time.

use std::arch::aarch64::uint8x16_t;

use super::{Kept, Strip, Trim, gates};

#[target_feature(enable = "neon")]
pub(super) fn pass(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) {
    gates::pass::<uint8x16_t>(rule, strip, kept);
}
