//! 512 columns at a time.

use std::arch::x86_64::__m512i;

use super::{Kept, Strip, Trim, gates};

#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn pass(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) {
    gates::pass::<__m512i>(rule, strip, kept);
}
