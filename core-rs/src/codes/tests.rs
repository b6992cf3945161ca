#![allow(clippy::float_cmp)] // equal to the last bit, by definition

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::*;

/// Codes, bits of the scales, zeros.
type Packed = (Vec<u8>, Vec<u16>, Vec<u8>);

fn pack(values: &[f32], cols: usize, group: usize) -> Result<Packed, CoreError> {
    let rows = values.len() / cols;
    let groups = rows * cols.div_ceil(group);
    let mut codes = vec![0xFF; rows * row_bytes(cols)];
    let (mut scales, mut zeros) = (vec![f16::ONE; groups], vec![7; groups]);
    let out = CodesMut {
        codes: &mut codes,
        scales: &mut scales,
        zeros: &mut zeros,
    };
    pack_codes2(values, cols, group, out)?;
    Ok((codes, scales.iter().map(|s| s.to_bits()).collect(), zeros))
}

fn unpack(
    (codes, scales, zeros): &Packed,
    cols: usize,
    group: usize,
) -> Result<Vec<f32>, CoreError> {
    let scales: Vec<f16> = scales.iter().copied().map(f16::from_bits).collect();
    let mut values = vec![9.0; codes.len() / row_bytes(cols) * cols];
    let packed = Codes {
        codes,
        scales: &scales,
        zeros,
    };
    unpack_codes2(packed, cols, group, &mut values)?;
    Ok(values)
}

/// Columns, group and values; magnitudes from below float16's smallest number to 1e4.
fn matrix() -> impl Strategy<Value = (usize, usize, Vec<f32>)> {
    let group = prop_oneof![Just(128usize), 1usize..9, Just(300)];
    (1usize..300, 1usize..4, group, -9i32..5).prop_flat_map(|(cols, rows, group, exponent)| {
        let value = (-1.0f32..1.0).prop_map(move |value| value * 10f32.powi(exponent));
        let value = prop_oneof![8 => value, 1 => Just(0.0), 1 => Just(-0.0)];
        prop::collection::vec(value, rows * cols).prop_map(move |values| (cols, group, values))
    })
}

proptest! {
    #[test]
    fn no_value_is_more_than_half_a_step_off((cols, group, values) in matrix()) {
        let packed = pack(&values, cols, group).unwrap();
        let back = unpack(&packed, cols, group).unwrap();
        for (i, (value, back)) in values.iter().zip(&back).enumerate() {
            let at = i / cols * cols.div_ceil(group) + i % cols / group;
            let step = f16::from_bits(packed.1[at]).to_f32();
            // float32 adds a rounding error of a few parts in 2^24 of the group's three steps.
            prop_assert!((value - back).abs() <= step * 0.500_001, "{value} {back} {step}");
        }
    }

    #[test]
    fn any_codes_with_finite_scales_read_back(
        codes in prop::collection::vec(any::<u8>(), 3),
        scale in 0u16..0x7C00,
        zero in any::<u8>(),
    ) {
        let back = unpack(&(codes.clone(), vec![scale], vec![zero]), 11, 11).unwrap();
        for (i, value) in back.iter().enumerate() {
            let code = f64::from(codes[i / 4] >> (2 * (i % 4)) & 3);
            let exact = (code - f64::from(zero) / 64.0) * f16::from_bits(scale).to_f64();
            prop_assert_eq!(f64::from(*value), exact);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    #[cfg_attr(miri, ignore = "takes hours interpreted")]
    fn the_number_of_threads_makes_no_difference((cols, group, values) in matrix()) {
        let values = values.repeat(1 + 200_000 / values.len());
        let on = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let packed = pack(&values, cols, group).unwrap();
                (unpack(&packed, cols, group).unwrap(), packed)
            })
        };
        prop_assert_eq!(on(1), on(4));
    }
}

#[test]
fn a_group_is_coded_as_the_definition_says() {
    // Range -1 to 2: step 1, zero on code 1, codes 0 1 2 3 1; 1 is at place 2, 0.4 at 1.4.
    let (codes, scales, zeros) = pack(&[-1.0, 0.0, 1.0, 2.0, 0.4], 5, 128).unwrap();
    assert_eq!(codes, [0b11_10_01_00, 0b01]);
    assert_eq!((scales, zeros), (vec![f16::ONE.to_bits()], vec![64]));
}

#[test]
fn the_range_of_a_group_is_widened_to_contain_zero() {
    // 3 to 6 becomes 0 to 6: step 2, zero on code 0; 3 lies between two codes, the even one is taken.
    let packed = pack(&[3.0, 6.0], 2, 2).unwrap();
    assert_eq!(
        packed,
        (vec![0b11_10], vec![f16::from_f32(2.0).to_bits()], vec![0])
    );
    // -6 to -3 becomes -6 to 0: zero on code 3.
    assert_eq!(pack(&[-3.0, -6.0], 2, 2).unwrap().2, [192]);
}

#[test]
fn codes_between_two_steps_are_even() {
    // Steps of 2: 1 and 5 lie at places 0.5 and 2.5.
    assert_eq!(pack(&[1.0, 5.0, 6.0], 3, 3).unwrap().0, [0b11_10_00]);
}

#[test]
fn the_zero_point_is_rounded_to_the_nearest_part_of_a_step() {
    // Steps of 1: -low is 0.5, 0.625 and 1.5 parts of 64.
    for (parts, zero) in [(0.5, 0), (0.625, 1), (1.5, 2)] {
        let low = -parts / 64.0;
        assert_eq!(pack(&[low, 3.0 + low], 2, 2).unwrap().2, [zero]);
    }
}

#[test]
fn a_group_of_zeros_reads_back_as_zeros() {
    let packed = pack(&[0.0, -0.0, 0.0], 3, 128).unwrap();
    assert_eq!(packed, (vec![0], vec![0], vec![0]));
    let bits: Vec<u32> = unpack(&packed, 3, 128)
        .unwrap()
        .iter()
        .map(|v| v.to_bits())
        .collect();
    assert_eq!(bits, [0; 3]);
}

#[test]
fn a_scale_that_rounds_down_is_taken_one_further_up() {
    // A third of 1 is 0x3555 in float16 after rounding down.
    assert_eq!(f16::from_f32(1.0 / 3.0).to_bits(), 0x3555);
    assert_eq!(pack(&[1.0], 1, 1).unwrap().1, [0x3556]);
}

#[test]
fn the_smallest_values_keep_a_scale() {
    assert_eq!(pack(&[f32::from_bits(1)], 1, 1).unwrap().1, [1]);
}

#[test]
fn a_range_beyond_float16_is_refused() {
    let widest = 3.0 * 65504.0;
    assert_eq!(pack(&[widest], 1, 1).unwrap().1, [f16::MAX.to_bits()]);
    for values in [[0.0, widest * 1.001], [f32::MIN, f32::MAX]] {
        let error = pack(&values, 2, 2).unwrap_err();
        assert!(
            matches!(error, CoreError::StepOverflow { last: 1, .. }),
            "{error}"
        );
    }
}

#[test]
fn the_first_value_that_is_not_finite_is_named() {
    let mut values = vec![0.0; 600];
    (values[250], values[500]) = (f32::NEG_INFINITY, f32::NAN);
    let error = pack(&values, 200, 128).unwrap_err();
    let expected = "value is not finite: expected a finite number, got -inf in row 1, column 50";
    assert_eq!(error.to_string(), expected);
}

#[test]
#[cfg_attr(miri, ignore = "takes hours interpreted")]
fn the_first_bad_row_is_named_whoever_meets_one_first() {
    let cols = 1 << 15;
    let mut values = vec![1.0; 40 * cols];
    for row in 15..40 {
        values[row * cols] = f32::NAN;
    }
    let pool = ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let error = pool.install(|| pack(&values, cols, 128)).unwrap_err();
    assert!(
        matches!(error, CoreError::NotFinite { row: 15, .. }),
        "{error}"
    );
}

#[test]
fn a_scale_that_is_not_finite_is_refused() {
    let packed = (vec![0; 2], vec![0, f16::NAN.to_bits()], vec![0; 2]);
    let error = unpack(&packed, 4, 4).unwrap_err();
    assert!(matches!(
        error,
        CoreError::NotFinite {
            what: "scale",
            row: 1,
            column: 0,
            ..
        }
    ));
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    for (codes, scales, zeros) in [(1, 1, 1), (2, 2, 1), (2, 1, 0)] {
        let packed = (vec![0; codes], vec![0; scales], vec![0; zeros]);
        let scales: Vec<f16> = packed.1.iter().copied().map(f16::from_bits).collect();
        let packed = Codes {
            codes: &packed.0,
            scales: &scales,
            zeros: &packed.2,
        };
        let error = unpack_codes2(packed, 5, 128, &mut [0.0; 5]);
        assert!(matches!(error, Err(CoreError::Length { .. })));
    }
}
