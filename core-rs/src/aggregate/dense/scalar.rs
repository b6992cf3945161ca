//! The definition: compare, exchange, and add in ascending order.

use super::{Line, network};

pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed(pairs, trim, lines, means);
}
