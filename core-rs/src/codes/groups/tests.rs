#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // as the definitions round

use half::bf16;

use super::*;

fn packed(kind: Codec, values: &[f32], cols: usize) -> (Vec<u8>, Vec<f16>) {
    packed_on(kind, values, cols, Isa::best()).unwrap()
}

fn packed_on(
    kind: Codec,
    values: &[f32],
    cols: usize,
    isa: Isa,
) -> Result<(Vec<u8>, Vec<f16>), CoreError> {
    let rows = values.len() / cols;
    let mut codes = vec![0xAA; rows * kind.row_bytes(cols)];
    let mut scales = vec![f16::NAN; rows * row_groups(cols)];
    let tuned = Weights::F32(values);
    pack_groups(kind, None, tuned, cols, &mut codes, &mut scales, isa)?;
    Ok((codes, scales))
}

fn unpacked(kind: Codec, codes: &[u8], scales: &[f16], cols: usize) -> Vec<f32> {
    let mut values = vec![0.0; codes.len() / kind.row_bytes(cols) * cols];
    let weights = WeightsMut::F32(&mut values);
    apply_groups(kind, weights, cols, codes, scales, Isa::best()).unwrap();
    values
}

/// Values of many sizes, some of them zero.
fn noise(len: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from((state >> 16) as u16) / 65536.0
    };
    (0..len)
        .map(|i| {
            if i % 7 == 3 {
                0.0
            } else {
                (next() - 0.5) * next() * 0.01
            }
        })
        .collect()
}

#[test]
fn whole_steps_come_back_exactly() {
    let cases: [(Codec, &[f32]); 5] = [
        (Codec::Sign, &[0.5, -0.5, -0.5, 0.5]),
        (Codec::Ternary, &[2.0, -2.0, 0.0, 0.0, 2.0, -2.0]),
        (Codec::Int2, &[1.5, -1.5, 0.5, -0.5, 0.5]),
        (Codec::Int4, &[7.0, -3.0, 0.0, 1.0, -7.0]),
        (Codec::Int8, &[127.0, -126.0, 0.0, 1.0, -127.0]),
    ];
    for (kind, values) in cases {
        let (codes, scales) = packed(kind, values, values.len());
        assert_eq!(
            unpacked(kind, &codes, &scales, values.len()),
            values,
            "{kind:?}"
        );
    }
}

#[test]
fn digits_lie_in_their_bytes_as_documented() {
    // ternary 2 0 1 1 2 = 2 + 0*3 + 1*9 + 1*27 + 2*81 = 200, then 0 alone
    assert_eq!(
        packed(Codec::Ternary, &[2.0, -2.0, 0.0, 0.0, 2.0, -2.0], 6).0,
        [200, 0]
    );
    // int2 3 0 2 1: 3 + 0*4 + 2*16 + 1*64 = 99, then 2 alone
    assert_eq!(
        packed(Codec::Int2, &[1.5, -1.5, 0.5, -0.5, 0.5], 5).0,
        [99, 2]
    );
    // int4 15 5, 8 9, 1
    assert_eq!(
        packed(Codec::Int4, &[7.0, -3.0, 0.0, 1.0, -7.0], 5).0,
        [0x5F, 0x98, 0x01]
    );
    assert_eq!(
        packed(Codec::Int8, &[127.0, -126.0, 0.0], 3).0,
        [255, 2, 128]
    );
    assert_eq!(packed(Codec::Sign, &[0.5, -0.5, -0.5, 0.5], 4).0, [0b1001]);
}

#[test]
fn a_group_of_zeros_comes_back_as_zeros() {
    for kind in Codec::ALL {
        let (codes, scales) = packed(kind, &[0.0, -0.0, 0.0], 3);
        assert_eq!(scales, [f16::ZERO]);
        assert_eq!(unpacked(kind, &codes, &scales, 3), [0.0; 3], "{kind:?}");
    }
}

#[test]
fn every_instruction_set_gives_the_same_bytes() {
    for kind in Codec::ALL {
        for cols in [1, 31, 127, 128, 129, 641, 3840, 5001] {
            let values = noise(3 * cols);
            let expected = packed_on(kind, &values, cols, Isa::Scalar).unwrap();
            let (codes, scales) = &expected;
            let mut back = vec![bf16::from_f32(0.7); 3 * cols];
            let weights = WeightsMut::Bf16(&mut back);
            apply_groups(kind, weights, cols, codes, scales, Isa::Scalar).unwrap();
            for isa in Isa::available() {
                let got = packed_on(kind, &values, cols, isa).unwrap();
                assert_eq!(got, expected, "{kind:?} {isa} {cols}");
                let mut other = vec![bf16::from_f32(0.7); 3 * cols];
                let weights = WeightsMut::Bf16(&mut other);
                apply_groups(kind, weights, cols, codes, scales, isa).unwrap();
                assert_eq!(other, back, "{kind:?} {isa} {cols}");
            }
        }
    }
}

#[test]
fn more_digits_give_a_smaller_error() {
    let values = noise(4096);
    let errors = [Codec::Sign, Codec::Ternary, Codec::Int4, Codec::Int8].map(|kind| {
        let (codes, scales) = packed(kind, &values, 4096);
        let back = unpacked(kind, &codes, &scales, 4096);
        let squares = values.iter().zip(&back).map(|(v, b)| (v - b).powi(2));
        squares.sum::<f32>()
    });
    assert!(
        errors.is_sorted_by(|before, after| before > after),
        "{errors:?}"
    );
}

#[test]
fn a_difference_is_taken_before_it_is_packed() {
    let (base, tuned) = (
        [1.0f32, 2.0, 3.0],
        [bf16::from_f32(8.0), bf16::ONE, bf16::from_f32(3.0)],
    );
    let (mut codes, mut scales) = (vec![0; 2], vec![f16::ZERO]);
    let (base, tuned) = (Some(Weights::F32(&base)), Weights::Bf16(&tuned));
    pack_groups(
        Codec::Int4,
        base,
        tuned,
        3,
        &mut codes,
        &mut scales,
        Isa::best(),
    )
    .unwrap();
    assert_eq!(unpacked(Codec::Int4, &codes, &scales, 3), [7.0, -1.0, 0.0]);
}

#[test]
fn what_is_not_finite_is_named_with_its_place() {
    let mut values = noise(2 * 5000);
    values[5000 + 4500] = f32::NAN;
    for kind in Codec::ALL {
        let refused = packed_on(kind, &values, 5000, Isa::best());
        let message = refused.unwrap_err().to_string();
        assert!(
            message.ends_with("got NaN in row 1, column 4500"),
            "{message}"
        );
    }
}

#[test]
fn a_scale_beyond_float16_is_refused() {
    let mut values = noise(2 * 300);
    values[300 + 150] = 1e9;
    for kind in [
        Codec::Sign,
        Codec::Ternary,
        Codec::Int2,
        Codec::Int4,
        Codec::Int8,
    ] {
        let refused = packed_on(kind, &values, 300, Isa::best());
        assert!(
            matches!(
                refused,
                Err(CoreError::ScaleOverflow {
                    row: 1,
                    start: 128,
                    last: 255
                })
            ),
            "{kind:?}"
        );
    }
}

#[test]
fn a_byte_of_no_ternary_digits_is_refused() {
    let mut weights = [0.0; 12];
    let refused = apply_groups(
        Codec::Ternary,
        WeightsMut::F32(&mut weights),
        6,
        &[242, 2, 1, 243],
        &[f16::ONE; 2],
        Isa::best(),
    );
    assert!(matches!(
        refused,
        Err(CoreError::Digits {
            row: 1,
            byte: 1,
            got: 243
        })
    ));
    assert_eq!(weights.map(f32::to_bits), [0; 12]);
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    for (codes, scales) in [(1, 1), (3, 1), (2, 0), (2, 2)] {
        let mut weights = [0.0; 6];
        let (codes, scales) = (vec![0; codes], vec![f16::ONE; scales]);
        let weights = WeightsMut::F32(&mut weights);
        let refused = apply_groups(Codec::Ternary, weights, 6, &codes, &scales, Isa::best());
        assert!(matches!(refused, Err(CoreError::Length { .. })));
    }
}

/// The mean of the sizes beyond half of it, found in so many steps; sums of integers are exact.
fn ternary_by_steps(values: &[f32], steps: usize) -> f16 {
    let sizes: Vec<f64> = values.iter().map(|v| f64::from(v.abs())).collect();
    let mut threshold = 0.75 * sizes.iter().sum::<f64>() / sizes.len() as f64;
    let mut scale = 0.0;
    for _ in 0..steps {
        let kept: Vec<f64> = sizes.iter().copied().filter(|s| *s > threshold).collect();
        scale = kept.iter().sum::<f64>() / kept.len() as f64;
        threshold = scale / 2.0;
    }
    f16::from_f32(scale as f32)
}

fn int2_by_steps(values: &[f32], steps: usize) -> f16 {
    let sizes: Vec<f64> = values.iter().map(|v| f64::from(v.abs())).collect();
    let (all, count) = (sizes.iter().sum::<f64>(), sizes.len() as f64);
    let mut scale = (1.25 * all / count) as f32;
    for _ in 0..steps {
        let kept: Vec<f64> = sizes
            .iter()
            .copied()
            .filter(|s| *s > f64::from(scale))
            .collect();
        let high: f64 = kept.iter().sum();
        scale = ((0.5 * all + high) / (0.25 * count + 2.0 * kept.len() as f64)) as f32;
    }
    f16::from_f32(scale)
}

#[test]
fn scales_are_refitted_three_times() {
    // Cubes: a long tail, for which each step moves the threshold; all sums are exact.
    let values: Vec<f32> = (0..128u8).map(|i| f32::from(i).powi(3) / 64.0).collect();
    for (codec, by_steps) in [
        (Codec::Ternary, ternary_by_steps as fn(&[f32], usize) -> f16),
        (Codec::Int2, int2_by_steps),
    ] {
        let found = packed(codec, &values, 128).1;
        assert_eq!(found, [by_steps(&values, 3)]);
        assert_ne!(found, [by_steps(&values, 2)]);
        assert_ne!(found, [by_steps(&values, 4)]);
    }
}
