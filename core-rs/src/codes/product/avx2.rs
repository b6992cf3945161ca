//! The definition, compiled for AVX2.

use super::scalar;

#[target_feature(enable = "avx2,fma,f16c,popcnt")]
pub(super) fn add_row(a: &[f32], factors: &[f64], total: &mut [f32]) {
    scalar::add_row(a, factors, total);
}
