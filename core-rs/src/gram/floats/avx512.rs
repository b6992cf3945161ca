//! Four rows with four: a register of eight sums for each pair.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm256_loadu_ps, _mm512_cvtps_pd, _mm512_fmadd_pd, _mm512_setzero_pd, _mm512_storeu_pd,
};

use super::tile::{LANES, TILE, Tile, whole};

#[target_feature(enable = "avx2,fma,f16c,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn multiply(above: &[&[f32]], beside: &[&[f32]], tile: &mut Tile) {
    let (above, beside) = (whole::<TILE>(above), whole::<TILE>(beside));
    let steps = above[0].len() / LANES;
    let (above, beside) = (
        above.map(|row| &row.as_chunks::<LANES>().0[..steps]),
        beside.map(|row| &row.as_chunks::<LANES>().0[..steps]),
    );
    let mut sums = [[_mm512_setzero_pd(); TILE]; TILE];
    for step in 0..steps {
        // SAFETY: eight values each.
        let right =
            beside.map(|row| _mm512_cvtps_pd(unsafe { _mm256_loadu_ps(row[step].as_ptr()) }));
        for (sums, above) in sums.iter_mut().zip(above) {
            // SAFETY: as above.
            let left = _mm512_cvtps_pd(unsafe { _mm256_loadu_ps(above[step].as_ptr()) });
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum = _mm512_fmadd_pd(left, right, *sum);
            }
        }
    }
    for (line, sums) in tile.iter_mut().zip(sums) {
        for (total, sum) in line.iter_mut().zip(sums) {
            let mut lanes = [0.0; LANES];
            // SAFETY: eight values.
            unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), sum) };
            *total = lanes.into_iter().fold(0.0, |sum, lane| sum + lane);
        }
    }
}
