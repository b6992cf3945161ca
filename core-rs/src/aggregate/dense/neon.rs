//! The network, which the compiler turns into NEON: 16 columns in four registers.

use super::{Line, network};

#[target_feature(enable = "neon")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed(pairs, trim, lines, means);
}
