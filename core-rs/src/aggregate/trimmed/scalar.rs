//! The definition of `signed`, 64 columns at a time.

use super::{Kept, Strip, Trim, gates};

pub(super) fn pass(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) {
    gates::pass::<u64>(rule, strip, kept);
}
