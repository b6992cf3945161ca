//! Every instruction set of the machine against the plain definitions; under qemu for NEON.

use super::{Packed, dense, hamming, signed, votes, weighted};
use crate::{isa::Isa, weights::Weights};

mod many;

/// Rows of pseudo-random bytes (xorshift).
fn bytes(rows: usize, width: usize) -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..rows)
        .map(|_| (0..width).map(|_| next()).collect())
        .collect()
}

fn is_plus(row: &[u8], column: usize) -> bool {
    row[column / 8] >> (column % 8) & 1 == 1
}

/// Rows, columns: a tail, whole strips and more than a block.
const SIZES: [(usize, usize); 4] = [(1, 5), (18, 515), (37, 4100), (3, 9001)];

#[test]
fn distances_count_the_columns_that_differ() {
    for (n, cols) in SIZES {
        let owned = bytes(n, cols.div_ceil(8));
        let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        let differ = |a: &[u8], b: &[u8]| {
            (0..cols)
                .filter(|c| is_plus(a, *c) != is_plus(b, *c))
                .count()
        };
        for isa in Isa::available() {
            let mut total = vec![0; n * n];
            hamming::add_hamming(isa, Packed::new(&rows, cols).unwrap(), &mut total).unwrap();
            for (at, got) in total.iter().enumerate() {
                assert_eq!(*got, differ(rows[at / n], rows[at % n]) as u64, "{isa}");
            }
        }
    }
}

/// Rows that fill panels and pass by in two parts; columns beyond what sums of 16 bits hold.
#[test]
fn distances_of_many_rows_are_those_of_the_definition() {
    for (n, cols) in [(391, 700_usize), (35, 8 * 16_000 + 3)] {
        let owned = bytes(n, cols.div_ceil(8));
        let mut rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        let (all, none) = (vec![0xff; cols.div_ceil(8)], vec![0; cols.div_ceil(8)]);
        (rows[0], rows[n - 1]) = (&all, &none);
        let packed = Packed::new(&rows, cols).unwrap();
        let mut expected = vec![0; n * n];
        hamming::add_hamming(Isa::Scalar, packed, &mut expected).unwrap();
        assert_eq!(expected[n - 1], cols as u64);
        for isa in Isa::available() {
            let mut total = vec![0; n * n];
            hamming::add_hamming(isa, packed, &mut total).unwrap();
            assert!(total == expected, "{isa}");
        }
    }
}

#[test]
fn a_majority_is_more_than_half_of_the_bits() {
    // The last is more than one of the largest blocks.
    for (n, cols) in SIZES.into_iter().chain([(5, 600_001)]) {
        let owned = bytes(n, cols.div_ceil(8));
        let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        let packed = Packed::new(&rows, cols).unwrap();
        for isa in Isa::available() {
            let mut bits = vec![0; cols.div_ceil(8)];
            votes::majority(isa, packed, &mut bits).unwrap();
            for column in 0..cols {
                let pluses = rows.iter().filter(|row| is_plus(row, column)).count();
                assert_eq!(is_plus(&bits, column), 2 * pluses > n, "{isa}");
            }
        }
    }
}

/// The definition of a trimmed mean: sort, drop, add in order, divide.
fn sorted(mut values: Vec<f32>, trim: usize) -> f32 {
    values.sort_by(f32::total_cmp);
    let kept = &values[trim..values.len() - trim];
    let sum: f64 = kept.iter().copied().map(f64::from).sum();
    (sum / kept.len() as f64) as f32
}

#[test]
fn trimmed_means_equal_a_sort() {
    for (n, cols) in SIZES {
        let owned = bytes(n, cols.div_ceil(8));
        let value = |row: usize, column| {
            let scale = 1.0 + (row % 7) as f32 / 8.0;
            if is_plus(&owned[row], column) {
                scale
            } else {
                -scale
            }
        };
        let floats: Vec<Vec<f32>> = (0..n)
            .map(|row| (0..cols).map(|column| value(row, column)).collect())
            .collect();
        let rows: Vec<Weights<'_>> = floats.iter().map(|row| Weights::F32(row)).collect();
        for isa in Isa::available() {
            for trim in [0, (n - 1) / 2] {
                let mut means = vec![0.0; cols];
                dense::trimmed_mean(isa, &rows, trim, &mut means).unwrap();
                for (column, mean) in means.iter().enumerate() {
                    let expected = sorted(floats.iter().map(|row| row[column]).collect(), trim);
                    assert_eq!(*mean + 0.0, expected + 0.0, "{isa}");
                }
            }
        }
    }
}

#[test]
fn the_mean_around_the_median_by_hand() {
    // 1 2 4 8 16: median 4, two nearest 2 and 4; of 1 2 4 8 the median is 3: 2 and 4, three: 1 2 4
    for isa in Isa::available() {
        for (values, keep, expected) in [
            (vec![16.0, 1.0, 4.0, 2.0, 8.0], 2, 3.0),
            (vec![8.0, 4.0, 2.0, 1.0], 2, 3.0),
            (vec![8.0, 4.0, 2.0, 1.0], 3, 7.0 / 3.0),
        ] {
            let rows: Vec<Vec<f32>> = values.iter().map(|value| vec![*value; 300]).collect();
            let rows: Vec<Weights<'_>> = rows.iter().map(|row| Weights::F32(row)).collect();
            let mut means = vec![0.0; 300];
            dense::near_median(isa, &rows, keep, &mut means).unwrap();
            assert_eq!(means, vec![expected; 300], "{isa}");
        }
    }
}

#[test]
fn weighted_means_of_floats_are_added_in_order() {
    let values: Vec<Vec<f32>> = (0..5)
        .map(|row| {
            (0..5000)
                .map(|column| (row * 7 + column) as f32 / 3.0)
                .collect()
        })
        .collect();
    let rows: Vec<Weights<'_>> = values.iter().map(|row| Weights::F32(row)).collect();
    let weights = [1.0, 0.0, 3.0, 0.1, 7.0f32];
    let total: f64 = weights.iter().copied().map(f64::from).sum();
    for isa in Isa::available() {
        let mut means = vec![0.0; 5000];
        weighted::mean(isa, &rows, &weights, &mut means).unwrap();
        for (column, mean) in means.iter().enumerate() {
            let terms = values
                .iter()
                .zip(weights)
                .map(|(row, weight)| f64::from(row[column]) * f64::from(weight));
            assert_eq!(*mean, (terms.sum::<f64>() / total) as f32, "{isa}");
        }
    }
}

#[test]
fn weighted_means_add_exactly_more_rows_than_sixteen_bits_hold() {
    let (n, cols) = (4_700, 523_usize);
    let owned = bytes(n, cols.div_ceil(8));
    let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let packed = Packed::new(&rows, cols).unwrap();
    // 63 fills a plane of 6 bits; the products of long fractions take all planes.
    for long in [0.0, 1.0 / 8192.0] {
        let scales: Vec<f32> = (0..n).map(|row| 63.0 + row as f32 * long).collect();
        let weights: Vec<f32> = (0..n).map(|row| 1.0 + row as f32 * long).collect();
        let products: Vec<f64> = scales
            .iter()
            .zip(&weights)
            .map(|(scale, weight)| f64::from(*scale) * f64::from(*weight))
            .collect();
        let total: f64 = weights.iter().copied().map(f64::from).sum();
        for isa in Isa::available() {
            let mut means = vec![0.0; cols];
            signed::mean(isa, packed, &scales, &weights, &mut means).unwrap();
            for (column, mean) in means.iter().enumerate() {
                let signs = rows
                    .iter()
                    .map(|row| if is_plus(row, column) { 1.0 } else { -1.0 });
                let sum: f64 = signs
                    .zip(&products)
                    .map(|(sign, product)| sign * product)
                    .sum();
                assert_eq!(*mean, (sum / total) as f32, "{isa} {column}");
            }
        }
    }
}
