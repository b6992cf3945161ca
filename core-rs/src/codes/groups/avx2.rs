//! The definition, compiled for AVX2.

use half::f16;

use super::{Codec, scalar};

#[target_feature(enable = "avx2,fma,f16c,popcnt")]
pub(super) fn pack_block(kind: Codec, values: &[f32], codes: &mut [u8], scales: &mut [f16]) {
    scalar::pack_block(kind, values, codes, scales);
}

#[target_feature(enable = "avx2,fma,f16c,popcnt")]
pub(super) fn apply_block(kind: Codec, codes: &[u8], scales: &[f16], values: &mut [f32]) {
    scalar::apply_block(kind, codes, scales, values);
}
