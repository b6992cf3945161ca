//! The network, which the compiler turns into AVX-512: 16 columns in one register.

use super::{Line, network};

#[target_feature(enable = "avx512f")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed(pairs, trim, lines, means);
}
