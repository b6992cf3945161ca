#![allow(clippy::float_cmp)] // equal to the last bit, by definition
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use half::bf16;
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::{dense::multiply_dense, tables::*, *};

/// Numbers that follow from a seed, spread evenly over -1 to 1.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    numbers(seed, count)
        .iter()
        .map(|x| (x.to_bits() >> 2) as u8)
        .collect()
}

fn sign(bits: &[u8], cols: usize, row: usize, col: usize) -> f64 {
    let byte = bits[row * row_bytes(cols) + col / 8];
    if byte >> (col % 8) & 1 == 1 {
        1.0
    } else {
        -1.0
    }
}

/// A product's parts: tokens, rows, cols, x, bits, scales.
struct Given {
    rows: usize,
    cols: usize,
    x: Vec<f32>,
    bits: Vec<u8>,
    scales: Vec<f32>,
}

impl Given {
    fn new(tokens: usize, rows: usize, cols: usize, seed: u64) -> Self {
        let scales = numbers(seed + 2, rows);
        let (x, bits) = (
            numbers(seed, tokens * cols),
            bytes(seed + 1, rows * row_bytes(cols)),
        );
        Self {
            rows,
            cols,
            x,
            bits,
            scales,
        }
    }

    fn multiply(&self, isa: Isa, method: Method) -> Vec<f32> {
        self.multiply_by(How {
            isa,
            method,
            add: false,
        })
    }

    fn multiply_by(&self, how: How) -> Vec<f32> {
        let tokens = self.x.len() / self.cols;
        let mut y = vec![f32::NAN; tokens * self.rows];
        let signs = Signs {
            bits: &self.bits,
            scales: &self.scales,
            cols: self.cols,
        };
        multiply(how, &self.x, signs, &mut y).unwrap();
        y
    }

    /// `sum of sign * value` for the values that `of` makes of a token, times the scale.
    fn expected(&self, of: impl Fn(&[f32]) -> Vec<f64>) -> Vec<f32> {
        let one = |x: &[f64], row: usize| {
            let signed = x.iter().enumerate();
            let signed = signed.map(|(col, x)| sign(&self.bits, self.cols, row, col) * x);
            (f64::from(self.scales[row]) * signed.sum::<f64>()) as f32
        };
        let tokens = self.x.chunks(self.cols).map(of);
        tokens
            .flat_map(|x| (0..self.rows).map(|row| one(&x, row)).collect::<Vec<_>>())
            .collect()
    }
}

/// A token as integers of steps: the meaning of `Method::Int8`, value by value.
fn rounded(x: &[f32]) -> Vec<f64> {
    let blocks = x.chunks(BLOCK).flat_map(|block| {
        let size = step_of_block(block);
        let whole = |x: &f32| f64::from(whole(*x, per_step(size))) * size;
        block.iter().map(whole).collect::<Vec<_>>()
    });
    blocks.collect()
}

fn shapes() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    (
        1..20usize,
        1..140usize,
        1..2300usize,
        any::<u32>().prop_map(u64::from),
    )
}

/// Values of all sizes, one of which outweighs the rest, or all about as large.
fn blocks() -> impl Strategy<Value = Vec<f32>> {
    let of_all_sizes = prop::collection::vec(any::<f32>(), 1..64);
    prop_oneof![of_all_sizes, prop::collection::vec(0.98f32..1.0, 1..64)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_instruction_set_and_thread_count_gives_the_same_bytes((tokens, rows, cols, seed) in shapes()) {
        let given = Given::new(tokens, rows, cols, seed);
        for method in [Method::Exact, Method::Int8] {
            let expected = given.multiply(Isa::Scalar, method);
            for isa in Isa::available() {
                prop_assert_eq!(&given.multiply(isa, method), &expected);
                let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
                prop_assert_eq!(&pool.install(|| given.multiply(isa, method)), &expected);
            }
        }
    }

    #[test]
    fn the_int8_product_is_that_of_the_rounded_inputs((tokens, rows, cols, seed) in shapes()) {
        let given = Given::new(tokens.min(3), rows, cols, seed);
        let expected = given.expected(rounded);
        for (got, expected) in given.multiply(Isa::best(), Method::Int8).iter().zip(expected) {
            prop_assert!((got - expected).abs() <= 2e-7 * expected.abs() + 1e-12);
        }
    }

    #[test]
    fn the_exact_product_is_near_that_in_float64((tokens, rows, cols, seed) in shapes()) {
        let given = Given::new(tokens.min(3), rows, cols, seed);
        let expected = given.expected(|x| x.iter().map(|x| f64::from(*x)).collect());
        let norm = |values: &[f32]| values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let got = given.multiply(Isa::best(), Method::Exact);
        let error: Vec<f32> = got.iter().zip(&expected).map(|(got, want)| got - want).collect();
        prop_assert!(norm(&error) <= 1e-6 * norm(&expected).max(1e-3));
    }

    #[test]
    fn whole_numbers_stay_within_their_bytes(block in blocks()) {
        let block: Vec<f32> = block.iter().map(|x| if x.is_finite() { *x } else { 0.0 }).collect();
        let per_step = per_step(step_of_block(&block));
        for four in block.chunks(4) {
            let sizes: Vec<i32> = four.iter().map(|x| whole(*x, per_step).abs()).collect();
            prop_assert!(sizes.iter().all(|size| *size <= 127));
            prop_assert!(sizes.iter().sum::<i32>() <= 255);
        }
    }

    #[test]
    fn the_dense_product_has_the_same_bytes_on_every_instruction_set(rows in 1..600usize, cols in 1..100usize, tokens in 1..5usize, seed: u32) {
        let weights: Vec<bf16> = numbers(seed.into(), rows * cols).iter().map(|x| bf16::from_f32(*x)).collect();
        let x = numbers(7, tokens * cols);
        let product = |isa| {
            let mut y = vec![f32::NAN; tokens * rows];
            multiply_dense(isa, &weights, &x, &mut y, tokens).unwrap();
            y
        };
        for isa in Isa::available() {
            prop_assert_eq!(product(isa), product(Isa::Scalar));
        }
        for (x, y) in x.chunks(cols).zip(product(Isa::Scalar).chunks(rows)) {
            for (row, y) in weights.chunks(cols).zip(y) {
                let want: f64 = row.iter().zip(x).map(|(w, x)| w.to_f64() * f64::from(*x)).sum();
                prop_assert!((f64::from(*y) - want).abs() <= 1e-6 * cols as f64);
            }
        }
    }
}
