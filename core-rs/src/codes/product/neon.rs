//! The definition, compiled for NEON.

use super::scalar;

#[target_feature(enable = "neon")]
pub(super) fn add_row(a: &[f32], factors: &[f64], total: &mut [f32]) {
    scalar::add_row(a, factors, total);
}
