use half::bf16;
use proptest::prelude::*;

use super::{exact, floats, lowrank, mixing, selection, signs, whole};
use crate::{aggregate::Refusal, isa::Isa, weights::Weights};

/// Numbers without a pattern, the same in every run.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 40) as f32 / (1 << 24) as f32 - 0.5)
                * 2.0f32.powi((state >> 33 & 7) as i32 - 9)
        })
        .collect()
}

fn rows(count: usize, cols: usize) -> Vec<Vec<f32>> {
    (0..count).map(|row| numbers(cols, row as u64)).collect()
}

fn gram(isa: Isa, rows: &[Vec<f32>]) -> Vec<exact::Exact> {
    let weights: Vec<Weights<'_>> = rows.iter().map(|row| Weights::F32(row)).collect();
    let mut total = vec![[0; 2]; rows.len() * rows.len()];
    floats::add_floats(isa, &weights, &mut total).unwrap();
    total
}

/// The definition, pair by pair.
fn defined(one: &[f32], other: &[f32]) -> i128 {
    let blocks = one.chunks(1024).zip(other.chunks(1024));
    let sums = blocks.map(|(one, other)| {
        let mut lanes = [0.0f64; 8];
        for (at, (one, other)) in one.iter().zip(other).enumerate() {
            lanes[at % 8] += f64::from(*one) * f64::from(*other);
        }
        let sum: f64 = lanes.into_iter().fold(0.0, |sum, lane| sum + lane);
        (sum * 2.0f64.powi(80)).round_ties_even() as i128
    });
    sums.sum()
}

#[test]
fn products_of_floats_are_those_of_the_definition() {
    for (count, cols) in [(1, 1), (2, 7), (5, 1024), (9, 2500), (13, 31)] {
        let rows = rows(count, cols);
        for isa in Isa::available() {
            for (at, sum) in gram(isa, &rows).into_iter().enumerate() {
                let expected = defined(&rows[at / count], &rows[at % count]);
                assert_eq!(exact::read(sum), expected, "{isa} {count} {cols}");
            }
        }
    }
}

#[test]
fn shards_of_whole_blocks_add_up() {
    let rows = rows(6, 3000);
    let whole = gram(Isa::best(), &rows);
    let mut parts = vec![[0; 2]; 36];
    for range in [2048..3000, 0..1024, 1024..2048] {
        let part: Vec<Weights<'_>> = rows
            .iter()
            .map(|row| Weights::F32(&row[range.clone()]))
            .collect();
        floats::add_floats(Isa::best(), &part, &mut parts).unwrap();
    }
    assert_eq!(parts, whole);
}

#[test]
fn bfloat16_is_widened() {
    let half: Vec<Vec<bf16>> = rows(3, 40)
        .iter()
        .map(|row| row.iter().copied().map(bf16::from_f32).collect())
        .collect();
    let wide: Vec<Vec<f32>> = half
        .iter()
        .map(|row| row.iter().map(|value| value.to_f32()).collect())
        .collect();
    let narrow: Vec<Weights<'_>> = half.iter().map(|row| Weights::Bf16(row)).collect();
    let mut total = vec![[0; 2]; 9];
    floats::add_floats(Isa::best(), &narrow, &mut total).unwrap();
    assert_eq!(total, gram(Isa::best(), &wide));
}

#[test]
fn what_no_sum_survives_is_refused_by_contributor() {
    for (value, refusal) in [
        (f32::NAN, None),
        (f32::INFINITY, None),
        (3e38, Some(Refusal::TooLarge { row: 2 })),
        (2e6, Some(Refusal::TooLarge { row: 2 })),
    ] {
        let mut rows = rows(4, 1500);
        (rows[2][1200], rows[3][1300]) = (value, value);
        let weights: Vec<Weights<'_>> = rows.iter().map(|row| Weights::F32(row)).collect();
        for isa in Isa::available() {
            let found = floats::add_floats(isa, &weights, &mut [[0; 2]; 16]).unwrap_err();
            match (&refusal, found.reason::<Refusal>().unwrap()) {
                (Some(expected), found) => assert_eq!(found, expected),
                (None, Refusal::NotFinite { row, index, .. }) => {
                    assert_eq!((*row, *index), (2, 1200));
                }
                (None, other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn products_of_signs_are_those_of_their_values() {
    // + + - times 0.5 and + - - times 0.25: one of three differs, 0.125 (3 - 2) = 0.125
    let mut total = vec![[0; 2]; 4];
    signs::add_signs(&[0, 1, 1, 0], 3, &[0.5, 0.25], &mut total).unwrap();
    let unit = 2.0f64.powi(80);
    let expected = [0.75, 0.125, 0.125, 0.1875].map(|value| (value * unit) as i128);
    assert_eq!(
        total
            .iter()
            .map(|sum| exact::read(*sum))
            .collect::<Vec<_>>(),
        expected
    );
    let found = signs::add_signs(&[0; 4], 3, &[0.5, 3e38], &mut total).unwrap_err();
    assert_eq!(found.reason(), Some(&Refusal::TooLarge { row: 1 }));
}

#[test]
fn products_of_factors_are_those_of_the_matrices() {
    let (inputs, outputs) = (5, 3);
    let factors: Vec<(Vec<f32>, Vec<f32>)> = [2, 1, 2]
        .into_iter()
        .enumerate()
        .map(|(row, rank)| {
            let seed = row as u64;
            (
                numbers(rank * inputs, seed),
                numbers(rank * outputs, seed + 9),
            )
        })
        .collect();
    let lent: Vec<lowrank::Factors<'_>> = factors
        .iter()
        .map(|(a, b)| lowrank::Factors { a, b })
        .collect();
    let mut total = vec![[0; 2]; 9];
    lowrank::add_lowrank(&lent, (inputs, outputs), &mut total).unwrap();
    let matrix = |(a, b): &(Vec<f32>, Vec<f32>)| -> Vec<f64> {
        let rank = a.len() / inputs;
        let value = |o: usize, i: usize| {
            (0..rank)
                .map(|k| f64::from(b[k * outputs + o]) * f64::from(a[k * inputs + i]))
                .sum()
        };
        (0..outputs * inputs)
            .map(|at| value(at / inputs, at % inputs))
            .collect()
    };
    let matrices: Vec<Vec<f64>> = factors.iter().map(matrix).collect();
    for (at, sum) in total.into_iter().enumerate() {
        let pairs = matrices[at / 3].iter().zip(&matrices[at % 3]);
        let expected: f64 = pairs.map(|(one, other)| one * other).sum();
        let got = exact::read(sum) as f64 * 2.0f64.powi(-80);
        assert!((got - expected).abs() < 1e-13, "{got} {expected}");
    }
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let (a, b) = (vec![0.0; 10], vec![0.0; 6]);
    for (row, inputs, outputs) in [(0, 5, 2), (0, 11, 3), (0, 10, 3)] {
        let rows = [lowrank::Factors { a: &a, b: &b }];
        let found = lowrank::add_lowrank(&rows, (inputs, outputs), &mut [[0; 2]]).unwrap_err();
        assert!(matches!(found.reason(), Some(Refusal::Length { row: at, .. }) if *at == row));
    }
}

fn wholes(rows: &[Vec<f32>]) -> Vec<i64> {
    let exact = gram(Isa::best(), rows);
    let mut integers = vec![0; exact.len()];
    whole::to_whole(&exact, rows.len(), &mut integers).unwrap();
    integers
}

proptest! {
    #[test]
    fn mixing_equals_the_product_of_matrices(count in 1usize..70, seed: u64) {
        let near = count.div_ceil(2);
        let rows: Vec<Vec<f32>> =
            (0..count).map(|row| numbers(11, seed.wrapping_add(row as u64))).collect();
        let gram = wholes(&rows);
        let (mut chosen, mut expected) = (vec![0; count * count], vec![0; count * count]);
        mixing::nearest(&gram, count, near, &mut chosen).unwrap();
        prop_assert!(chosen.chunks(count).all(|line| line.iter().map(|bit| usize::from(*bit)).sum::<usize>() == near));
        for (at, sum) in expected.iter_mut().enumerate() {
            let (above, beside) = (at / count * count, at % count * count);
            for (row, line) in gram.chunks(count).enumerate() {
                for (column, product) in line.iter().enumerate() {
                    *sum += i64::from(chosen[above + row] * chosen[beside + column]) * product;
                }
            }
        }
        for isa in Isa::available() {
            let mut mixed = vec![0; count * count];
            mixing::mix(isa, &gram, &chosen, count, &mut mixed).unwrap();
            prop_assert_eq!(&mixed, &expected);
        }
    }
}

#[test]
fn the_crowd_comes_first_and_ties_in_order() {
    // 0 1 3 5 100 on a line; two nearest others: 10, 5, 8, 20, ...
    let line: Vec<Vec<f32>> = [0.0, 1.0, 3.0, 5.0, 100.0]
        .map(|place| vec![place])
        .to_vec();
    let mut order = [0; 5];
    selection::krum_order(&wholes(&line), 5, 2, &mut order).unwrap();
    assert_eq!(order, [1, 2, 0, 3, 4]);
    let mut same = [0; 3];
    selection::krum_order(&[7; 9], 3, 1, &mut same).unwrap();
    assert_eq!(same, [0, 1, 2]);
}

#[test]
fn bulyan_takes_one_after_the_other() {
    // 0 1 3 5 6 20 100, f = 1: nearest 4, then 3, 2, 1 and 1 of those that are left
    let line: Vec<Vec<f32>> = [0.0, 1.0, 3.0, 5.0, 6.0, 20.0, 100.0]
        .map(|place| vec![place])
        .to_vec();
    let mut order = [0; 5];
    selection::bulyan_order(&wholes(&line), 7, 1, &mut order).unwrap();
    // scores with 4: 0: 71, 1: 46, 3: 26, 5: 46, 6: 71: row 2 first; with 3 of 0 1 5 6 20 100:
    // 0: 62, 1: 42, 5: 42, 6: 62: row 1; with 2 of 0 5 6 20 100: 5: 26, 6: 37: row 3; with 1 of
    // 0 6 20 100: 0: 36, 6: 36: row 0; of 6 20 100: row 4
    assert_eq!(order, [2, 1, 3, 0, 4]);
}

#[test]
fn rounding_keeps_as_many_bits_as_all_sums_allow() {
    let exact = gram(Isa::best(), &[vec![1.0], vec![-1.0]]);
    let mut integers = vec![0; 4];
    // 1 is 2^80 units, 81 bits; 60 - 2 * 2 = 56 bits are kept
    assert_eq!(whole::to_whole(&exact, 2, &mut integers).unwrap(), 25);
    assert_eq!(integers, [1 << 55, -1 << 55, -1 << 55, 1 << 55]);
}
