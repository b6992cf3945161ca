//! 256 columns at a time.

use std::arch::x86_64::__m256i;

use super::{Kept, Strip, Trim, gates};

#[target_feature(enable = "avx2")]
pub(super) fn pass(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) {
    gates::pass::<__m256i>(rule, strip, kept);
}
