#![allow(clippy::float_cmp)] // equal to the last bit, by definition

use half::{bf16, f16};
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::{pack::mean, *};
use crate::weights::{Weights, WeightsMut};

/// Bits, scale of each row, scale of the matrix.
type Packed = (Vec<u8>, Vec<f32>, f32);

fn pack(base: Weights<'_>, tuned: Weights<'_>, cols: usize) -> Result<Packed, CoreError> {
    let (bits, of_rows) = plain(base, tuned, cols, Axis::Row)?;
    let (_, of_matrix) = plain(base, tuned, cols, Axis::Matrix)?;
    Ok((bits, of_rows, of_matrix[0]))
}

/// Bits and scales without a mask.
fn plain(
    base: Weights<'_>,
    tuned: Weights<'_>,
    cols: usize,
    axis: Axis,
) -> Result<(Vec<u8>, Vec<f32>), CoreError> {
    let rows = base.len() / cols;
    let mut bits = vec![0xAA; rows * row_bytes(cols)];
    let mut scales = vec![0.0; axis.scales(rows, cols)];
    let planes = PlanesMut {
        bits: &mut bits,
        mask: None,
    };
    pack_signs(base, tuned, cols, axis, planes, &mut scales, Isa::best())?;
    Ok((bits, scales))
}

/// Applies scales of rows.
fn apply(
    weights: WeightsMut<'_>,
    cols: usize,
    bits: &[u8],
    scales: &[f32],
) -> Result<(), CoreError> {
    let planes = Planes { bits, mask: None };
    apply_signs(weights, cols, Axis::Row, planes, scales, Isa::best())
}

fn pack_f32(base: &[f32], tuned: &[f32], cols: usize) -> Packed {
    pack(Weights::F32(base), Weights::F32(tuned), cols).unwrap()
}

/// The scale's definition, value by value.
fn sum_of_row(differences: &[f32]) -> f64 {
    let mut row = 0.0f64;
    for block in differences.chunks(4096) {
        let mut lanes = [0.0f32; 32];
        for (i, difference) in block.iter().enumerate() {
            lanes[i % 32] += difference.abs();
        }
        let mut sum = 0.0f64;
        for lane in lanes {
            sum += f64::from(lane);
        }
        row += sum;
    }
    row
}

/// A matrix of a width that meets the edges of bytes, lanes and blocks.
fn matrix() -> impl Strategy<Value = (usize, Vec<f32>)> {
    // Interpreted, the wide ones take hours.
    let wide = u32::from(!cfg!(miri));
    let width = prop_oneof![1 => 1usize..70, wide => 4090usize..4110, wide => Just(8200)];
    (width, 1usize..5).prop_flat_map(|(cols, rows)| {
        let value = prop_oneof![8 => -1.0f32..1.0, 1 => Just(0.0), 1 => Just(-0.0)];
        prop::collection::vec(value, rows * cols).prop_map(move |values| (cols, values))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    #[test]
    fn bits_and_scales_follow_the_definition((cols, tuned) in matrix()) {
        let base = vec![0.25; tuned.len()];
        let (bits, of_rows, of_matrix) = pack_f32(&base, &tuned, cols);
        let mut total = 0.0;
        for (row, values) in tuned.chunks(cols).enumerate() {
            let differences: Vec<f32> = values.iter().map(|value| value - 0.25).collect();
            let row_bits = &bits[row * row_bytes(cols)..][..row_bytes(cols)];
            for bit in 0..row_bits.len() * 8 {
                let plus = differences.get(bit).is_some_and(|difference| *difference > 0.0);
                prop_assert_eq!(row_bits[bit / 8] >> (bit % 8) & 1 == 1, plus);
            }
            let sum = sum_of_row(&differences);
            prop_assert_eq!(of_rows[row].to_bits(), mean(sum, cols).to_bits());
            total += sum;
        }
        prop_assert_eq!(of_matrix.to_bits(), mean(total, tuned.len()).to_bits());
    }

    #[test]
    fn unpacking_gives_the_signs_back((cols, tuned) in matrix()) {
        let (bits, ..) = pack_f32(&vec![0.0; tuned.len()], &tuned, cols);
        let mut signs = vec![9.0; tuned.len()];
        unpack_signs(Planes { bits: &bits, mask: None }, cols, &mut signs, Isa::best()).unwrap();
        for (sign, value) in signs.iter().zip(&tuned) {
            prop_assert_eq!(*sign, if *value > 0.0 { 1.0 } else { -1.0 });
        }
    }

    #[test]
    fn rows_packed_apart_equal_rows_packed_together((cols, tuned) in matrix()) {
        let base = vec![-0.5; tuned.len()];
        let (bits, scales, _) = pack_f32(&base, &tuned, cols);
        let apart = tuned.chunks(cols).map(|row| pack_f32(&base[..cols], row, cols));
        let (apart_bits, apart_scales): (Vec<_>, Vec<_>) = apart.map(|row| (row.0, row.2)).unzip();
        prop_assert_eq!(bits, apart_bits.concat());
        prop_assert_eq!(scales, apart_scales);
    }

    #[test]
    fn narrow_types_pack_like_their_float32_values((cols, tuned) in matrix()) {
        let base: Vec<f16> = tuned.iter().map(|value| f16::from_f32(value * 0.9)).collect();
        let tuned: Vec<bf16> = tuned.iter().copied().map(bf16::from_f32).collect();
        let wide_base: Vec<f32> = base.iter().map(|value| value.to_f32()).collect();
        let wide_tuned: Vec<f32> = tuned.iter().map(|value| value.to_f32()).collect();
        let narrow = pack(Weights::F16(&base), Weights::Bf16(&tuned), cols).unwrap();
        prop_assert_eq!(narrow, pack_f32(&wide_base, &wide_tuned, cols));
    }

    #[test]
    fn applying_rounds_once((cols, weights) in matrix(), scale in 0.0f32..0.1) {
        let (bits, ..) = pack_f32(&vec![0.0; weights.len()], &weights, cols);
        // Each row its own: half of the one before.
        let halves = std::iter::successors(Some(scale), |scale| Some(scale / 2.0));
        let scales: Vec<f32> = halves.take(weights.len() / cols).collect();
        let mut narrow: Vec<bf16> = weights.iter().copied().map(bf16::from_f32).collect();
        let expected: Vec<u16> = narrow
            .iter()
            .zip(&weights)
            .enumerate()
            .map(|(at, (w, sign))| {
                let scale = scales[at / cols];
                w.to_f32() + if *sign > 0.0 { scale } else { -scale }
            })
            .map(|sum| bf16::from_f32(sum).to_bits())
            .collect();
        apply(WeightsMut::Bf16(&mut narrow), cols, &bits, &scales).unwrap();
        let got: Vec<u16> = narrow.iter().map(|value| value.to_bits()).collect();
        prop_assert_eq!(got, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    #[cfg_attr(miri, ignore = "takes hours interpreted")]
    fn the_number_of_threads_makes_no_difference((cols, tuned) in matrix(), threads in 2usize..6) {
        // Repeated, so that there is more than one task to hand out.
        let tuned = tuned.repeat(1 + 200_000 / tuned.len());
        let base = vec![0.1; tuned.len()];
        let on = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| pack_f32(&base, &tuned, cols))
        };
        prop_assert_eq!(on(1), on(threads));
    }
}

#[test]
fn each_row_is_applied_with_its_own_scale() {
    // Signs + - in the first row, - + in the second.
    let mut weights = [1.0, 1.0, 1.0, 1.0f32];
    apply(
        WeightsMut::F32(&mut weights),
        2,
        &[0b01, 0b10],
        &[0.5, 0.25],
    )
    .unwrap();
    assert_eq!(weights, [1.5, 0.5, 0.75, 1.25]);
}

#[test]
fn a_sum_between_two_narrow_numbers_goes_to_the_even_one() {
    // Above 1 float16 counts in steps of 2^-10, bfloat16 of 2^-7; half a step and one and a half.
    let (mut half, mut brain) = ([f16::ONE; 2], [bf16::ONE; 2]);
    let scales = |step: f32| [0.5 * step, 1.5 * step];
    let f16_step = 1.0 / 1024.0;
    apply(WeightsMut::F16(&mut half), 1, &[1, 1], &scales(f16_step)).unwrap();
    assert_eq!(half.map(f16::to_f32), [1.0, 1.0 + 2.0 * f16_step]);
    let bf16_step = 1.0 / 128.0;
    apply(WeightsMut::Bf16(&mut brain), 1, &[1, 1], &scales(bf16_step)).unwrap();
    assert_eq!(brain.map(bf16::to_f32), [1.0, 1.0 + 2.0 * bf16_step]);
}

#[test]
fn zeros_of_either_sign_give_a_zero_bit() {
    let (bits, scales, _) = pack_f32(&[0.0, -0.0, 0.0, -0.0], &[0.0, 0.0, -0.0, -0.0], 4);
    assert_eq!((bits, scales), (vec![0], vec![0.0]));
}

#[test]
fn the_first_value_that_is_not_finite_is_named() {
    let mut tuned = vec![0.0f32; 3 * 5000];
    (tuned[5000 + 4321], tuned[2 * 5000]) = (f32::INFINITY, f32::NAN);
    let error = pack(
        Weights::F32(&vec![0.0; tuned.len()]),
        Weights::F32(&tuned),
        5000,
    );
    let expected = "tuned is not finite: expected a finite number, got inf in row 1, column 4321";
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn a_difference_beyond_float32_is_refused() {
    let error = pack(Weights::F32(&[f32::MIN]), Weights::F32(&[f32::MAX]), 1).unwrap_err();
    let expected =
        "tuned - base is not finite: expected a finite number, got inf in row 0, column 0";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_sum_beyond_float32_is_refused() {
    // Values 0 and 32 share a lane.
    let tuned = [3e38f32; 33];
    let error = pack(Weights::F32(&[0.0; 33]), Weights::F32(&tuned), 33).unwrap_err();
    assert!(
        matches!(
            error,
            CoreError::SumOverflow {
                what: "row",
                index: 0
            }
        ),
        "{error}"
    );
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let nine = Weights::F32(&[1.0; 9]);
    for (bits, scales) in [(1, 1), (3, 1), (2, 2), (2, 0)] {
        let (mut bits_room, mut room) = (vec![0; bits], vec![0.0; scales]);
        let planes = PlanesMut {
            bits: &mut bits_room,
            mask: None,
        };
        let error = pack_signs(nine, nine, 9, Axis::Row, planes, &mut room, Isa::Scalar);
        assert!(
            matches!(error, Err(CoreError::Length { .. })),
            "{bits} {scales}"
        );
    }
    let ragged = plain(nine, nine, 4, Axis::Row);
    assert!(matches!(
        ragged,
        Err(CoreError::Length { what: "base", .. })
    ));
}

#[test]
fn a_matrix_without_values_is_refused() {
    let none = Weights::F32(&[]);
    for cols in [0, 3] {
        let planes = PlanesMut {
            bits: &mut [],
            mask: None,
        };
        let error = pack_signs(none, none, cols, Axis::Row, planes, &mut [], Isa::Scalar);
        assert!(matches!(error, Err(CoreError::Empty { .. })));
    }
}

#[test]
fn a_scale_that_is_not_finite_leaves_the_weights_alone() {
    let mut weights = [1.0f32, 2.0];
    let error = apply(WeightsMut::F32(&mut weights), 1, &[1, 1], &[0.5, f32::NAN]);
    assert!(matches!(
        error,
        Err(CoreError::NotFinite {
            what: "scale",
            row: 1,
            ..
        })
    ));
    assert_eq!(weights, [1.0, 2.0]);
}

mod same_bytes;

#[test]
fn a_matrix_without_columns_has_a_scale_that_may_be_refused() {
    let planes = Planes {
        bits: &[],
        mask: None,
    };
    let nothing = WeightsMut::F32(&mut []);
    let refused = apply_signs(nothing, 0, Axis::Matrix, planes, &[f32::NAN], Isa::best());
    assert!(matches!(
        refused,
        Err(CoreError::NotFinite {
            row: 0,
            column: 0,
            ..
        })
    ));
}

#[test]
fn with_a_mask_a_scale_is_the_mean_over_the_nonzero() {
    // d = [[1, 0, -2], [3, 0, 0]]: the matrix has (1 + 2 + 3) / 3, its columns 4 / 2, none, 2 / 1
    let (base, tuned) = ([0.0; 6], [1.0, 0.0, -2.0, 3.0, 0.0, 0.0]);
    for (axis, expected) in [
        (Axis::Matrix, &[2.0][..]),
        (Axis::Column, &[2.0, 0.0, 2.0]),
        (Axis::Row, &[1.5, 3.0]),
    ] {
        let (mut bits, mut mask) = ([0; 2], [0; 2]);
        let mut scales = vec![f32::NAN; expected.len()];
        let planes = PlanesMut {
            bits: &mut bits,
            mask: Some(&mut mask),
        };
        let (base, tuned) = (Weights::F32(&base), Weights::F32(&tuned));
        pack_signs(base, tuned, 3, axis, planes, &mut scales, Isa::best()).unwrap();
        assert_eq!(scales, expected, "{axis:?}");
        assert_eq!((bits, mask), ([0b001, 0b001], [0b101, 0b001]));
        let (planes, mut weights) = (
            Planes {
                bits: &bits,
                mask: Some(&mask),
            },
            [10.0f32; 6],
        );
        let changed = WeightsMut::F32(&mut weights);
        apply_signs(changed, 3, axis, planes, &scales, Isa::best()).unwrap();
        assert_eq!(weights[1], 10.0, "{axis:?}: masked");
        let of_last = if axis == Axis::Row { 1.5 } else { 2.0 };
        assert_eq!(weights[2], 10.0 - of_last, "{axis:?}: minus");
    }
}
