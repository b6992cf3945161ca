//! The definition, compiled for AVX-512.

use super::scalar;

#[target_feature(enable = "avx2,fma,f16c,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn add_row(a: &[f32], factors: &[f64], total: &mut [f32]) {
    scalar::add_row(a, factors, total);
}
