use super::*;

#[test]
fn a_row_is_the_sum_over_the_rank() {
    // B[0, 1] = 2, B[1, 1] = 10: row 1 is 2 * [1, 2] + 10 * [3, 4], on top of 100
    let mut total = [100.0; 4];
    add_product(
        &[1.0, 2.0, 3.0, 4.0],
        &[0.0, 2.0, 0.0, 10.0],
        2,
        &mut total,
        Isa::best(),
    )
    .unwrap();
    assert_eq!(
        total.map(f32::to_bits),
        [100.0f32, 100.0, 132.0, 144.0].map(f32::to_bits)
    );
}

#[test]
fn the_sum_is_rounded_once() {
    // 2^-30 is lost in float32 beside 1, but not in float64: 1 + 2^-30 - 1 = 2^-30
    let (a, b) = ([1.0, 2.0f32.powi(-30), -1.0], [1.0, 1.0, 1.0]);
    let mut total = [0.0];
    add_product(&a, &b, 1, &mut total, Isa::Scalar).unwrap();
    assert_eq!(total[0].to_bits(), 2.0f32.powi(-30).to_bits());
}

#[test]
fn every_instruction_set_gives_the_same_bytes() {
    let a: Vec<f32> = (0..3 * 1111u16)
        .map(|i| f32::from(i % 101 * 37 % 101) / 7.0 - 5.0)
        .collect();
    let b: Vec<f32> = (0..3 * 5u16).map(|i| f32::from(i) * 1e-3 - 3e-3).collect();
    let run = |isa| {
        let mut total = vec![0.5; 5 * 1111];
        add_product(&a, &b, 1111, &mut total, isa).unwrap();
        total
    };
    let expected = run(Isa::Scalar);
    for isa in Isa::available() {
        assert_eq!(run(isa), expected, "{isa}");
    }
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let refused = add_product(&[1.0; 4], &[1.0; 3], 2, &mut [0.0; 4], Isa::Scalar);
    assert!(matches!(refused, Err(CoreError::Length { what: "B", .. })));
}
