//! The network, which the compiler turns into AVX2: 16 columns in two registers.

use super::{Line, network};

#[target_feature(enable = "avx2")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed(pairs, trim, lines, means);
}
