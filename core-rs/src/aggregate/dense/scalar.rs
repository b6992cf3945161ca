//! The definition: compare, exchange, and add in ascending order.

use super::{
    Line,
    network::{self, Compare},
};

pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed::<Scalar>(pairs, trim, lines, means);
}

struct Scalar;

impl Compare for Scalar {
    #[inline(always)]
    fn compare(first: &mut Line, second: &mut Line) {
        for (a, b) in first.0.iter_mut().zip(&mut second.0) {
            (*a, *b) = if *a < *b { (*a, *b) } else { (*b, *a) };
        }
    }
}
