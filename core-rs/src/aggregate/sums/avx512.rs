//! Eight sums in a register, 128 columns at a time; a byte of bits is the mask of an addition.

use std::arch::x86_64::{__m512i, _mm512_mask_add_epi64, _mm512_set1_epi64};

use super::{super::lanes::Lanes, Strip, Sums};

/// Registers of sums that stay while all terms pass by.
const HELD: usize = 16;

#[target_feature(enable = "avx512f")]
pub(super) fn add_masked(masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    for (part, sums) in sums
        .as_chunks_mut::<{ 8 * HELD }>()
        .0
        .iter_mut()
        .enumerate()
    {
        let mut held = [<__m512i as Lanes>::splat(false); HELD];
        for (mask, number) in masks.iter().zip(numbers) {
            let number = _mm512_set1_epi64(*number);
            for (index, held) in held.iter_mut().enumerate() {
                *held = _mm512_mask_add_epi64(*held, mask[part * HELD + index], *held, number);
            }
        }
        for (held, sums) in held.iter().zip(sums.as_chunks_mut::<8>().0) {
            let mut bytes = [0; 64];
            held.store(&mut bytes);
            for (sum, bytes) in sums.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *sum += i64::from_le_bytes(*bytes);
            }
        }
    }
}
