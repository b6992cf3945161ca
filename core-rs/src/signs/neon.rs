//! Four float32 to a register; bits are made by adding the powers of two of a byte's places.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // listing every intrinsic adds nothing

use std::arch::aarch64::*;

use super::rows::{
    AHEAD_BYTES, ApplyRow, PackRow, mask_word, pack_words, padded, row_kernels, sum_in_order, word,
    write_word,
};
use crate::{
    prefetch,
    weights::{BLOCK, CHUNK, Kind, Weight},
};

/// 32 numbers in order.
type Lanes = [float32x4_t; 8];

/// The places of a byte.
const PLACES: [u8; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

row_kernels!(#[target_feature(enable = "neon")]);
pack_words!(#[target_feature(enable = "neon")]);

#[inline]
#[target_feature(enable = "neon")]
fn splat(value: f32) -> Lanes {
    [vdupq_n_f32(value); 8]
}

#[inline]
#[target_feature(enable = "neon")]
fn to_lanes<B: Weight, T: Weight>(values: &[f32; CHUNK]) -> Lanes {
    widen(values)
}

#[inline]
#[target_feature(enable = "neon")]
fn from_lanes<B: Weight, T: Weight>(lanes: Lanes, values: &mut [f32; CHUNK]) {
    for (place, lane) in values.as_chunks_mut::<4>().0.iter_mut().zip(lanes) {
        // SAFETY: `place` is four float32.
        unsafe { vst1q_f32(place.as_mut_ptr(), lane) };
    }
}

/// As float32 in order; the conversion of float16 is left to the half crate.
#[inline]
#[target_feature(enable = "neon")]
fn widen<W: Weight>(weights: &[W; CHUNK]) -> Lanes {
    if W::KIND == Kind::F16 {
        return widen(&W::widen(weights));
    }
    [0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        let start = weights[4 * at..].as_ptr();
        // SAFETY: `start` points at four weights of the requested type.
        unsafe {
            match W::KIND {
                Kind::Bf16 => vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(start.cast()))),
                _ => vld1q_f32(start.cast()),
            }
        }
    })
}

#[inline]
#[target_feature(enable = "neon")]
fn pack_chunk<B: Weight, T: Weight, const MASK: bool>(
    base: &[B; CHUNK],
    tuned: &[T; CHUNK],
    lanes: &mut Lanes,
) -> (u32, u32) {
    let (base, mut differences) = (widen(base), widen(tuned));
    for ((difference, base), lane) in differences.iter_mut().zip(base).zip(lanes) {
        *difference = vsubq_f32(*difference, base);
        *lane = vaddq_f32(*lane, vabsq_f32(*difference));
    }
    let plus = gathered(differences.map(|difference| vcgtzq_f32(difference)));
    if !MASK {
        return (plus, 0);
    }
    let zeros = gathered(differences.map(|difference| vceqzq_f32(difference)));
    (plus, !zeros)
}

/// 32 flags of all ones or zeros as a word of bits.
#[inline]
#[target_feature(enable = "neon")]
fn gathered(flags: [uint32x4_t; 8]) -> u32 {
    // SAFETY: eight bytes.
    let places = unsafe { vld1_u8(PLACES.as_ptr()) };
    let bytes = [0, 1, 2, 3].map(|at| {
        let pair = vcombine_u16(vmovn_u32(flags[2 * at]), vmovn_u32(flags[2 * at + 1]));
        vaddv_u8(vand_u8(vmovn_u16(pair), places))
    });
    u32::from_le_bytes(bytes)
}

/// All ones for each bit that is 1.
#[inline]
#[target_feature(enable = "neon")]
fn spread(bits: u32) -> [uint32x4_t; 8] {
    let places = [[1, 2, 4, 8], [16, 32, 64, 128]].map(|places: [u32; 4]| {
        // SAFETY: four words.
        unsafe { vld1q_u32(places.as_ptr()) }
    });
    [0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        let byte = vdupq_n_u32(bits >> (at / 2 * 8));
        vtstq_u32(byte, places[at % 2])
    })
}

#[inline]
#[target_feature(enable = "neon")]
fn apply_chunk<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    let (old, plus) = (widen(weights), spread(bits));
    let sums = [0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        vaddq_f32(
            old[at],
            vbslq_f32(plus[at], scale[at], vnegq_f32(scale[at])),
        )
    });
    let mut new = *weights;
    narrow(sums, &mut new);
    if mask == u32::MAX {
        *weights = new;
        return;
    }
    for (at, (weight, new)) in weights.iter_mut().zip(new).enumerate() {
        if mask >> at & 1 == 1 {
            *weight = new;
        }
    }
}

/// Stores 32 sums as weights.
#[inline]
#[target_feature(enable = "neon")]
fn narrow<W: Weight>(sums: Lanes, weights: &mut [W; CHUNK]) {
    if W::KIND == Kind::F16 {
        let mut values = [0.0; CHUNK];
        from_lanes::<W, W>(sums, &mut values);
        *weights = W::narrow(&values);
        return;
    }
    for (place, sum) in weights.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        let place = place.as_mut_ptr();
        // SAFETY: `place` points at four weights of the requested type.
        unsafe {
            match W::KIND {
                Kind::Bf16 => vst1_u16(place.cast(), rounded(sum)),
                _ => vst1q_f32(place.cast(), sum),
            }
        }
    }
}

/// The upper halves of float32, rounded to nearest, ties to even. A NaN was widened from bfloat16, so
/// its lower half is 0 and it stays as it is.
#[inline]
#[target_feature(enable = "neon")]
fn rounded(sums: float32x4_t) -> uint16x4_t {
    let bits = vreinterpretq_u32_f32(sums);
    let is_odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    let up = vaddq_u32(is_odd, vdupq_n_u32(0x7FFF));
    vaddhn_u32(bits, up)
}

#[inline]
#[target_feature(enable = "neon")]
fn unpack_chunk(signs: &mut [f32; CHUNK], bits: u32, mask: u32) {
    let (plus, keep) = (spread(bits), spread(mask));
    let kept = [0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        let sign = vbslq_f32(plus[at], vdupq_n_f32(1.0), vdupq_n_f32(-1.0));
        vbslq_f32(keep[at], sign, vdupq_n_f32(0.0))
    });
    from_lanes::<f32, f32>(kept, signs);
}
