//! Many contributors, with many binary digits and more than one panel, and weights that differ.

use super::*;

/// Inline, and on three threads.
fn both(work: impl Fn() + Send + Sync) {
    work();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    pool.unwrap().install(work);
}

#[test]
fn distances_of_five_hundred_rows_are_those_of_the_definition() {
    let (n, cols) = (507, 4100);
    let owned = bytes(n, 513);
    let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let last = 0x0f; // 4100 = 8 * 512 + 4
    let differ = |a: &[u8], b: &[u8]| -> u64 {
        let whole = a[..512].iter().zip(b).map(|(a, b)| (a ^ b).count_ones());
        u64::from(whole.sum::<u32>() + ((a[512] ^ b[512]) & last).count_ones())
    };
    both(|| {
        let mut total = vec![0; n * n];
        let packed = Packed::new(&rows, cols).unwrap();
        hamming::add_hamming(Isa::best(), packed, &mut total).unwrap();
        for (at, got) in total.iter().enumerate() {
            assert_eq!(*got, differ(rows[at / n], rows[at % n]), "{at}");
        }
    });
}

#[test]
fn the_majority_of_a_thousand_rows_has_all_digits_of_their_counts() {
    let (n, cols) = (1037, 700);
    let mut owned = bytes(n, 88);
    for row in &mut owned {
        row[0] |= 1; // everybody's: 1037 takes eleven digits
    }
    let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let expected: Vec<u32> = (0..cols)
        .map(|c| rows.iter().map(|row| u32::from(is_plus(row, c))).sum())
        .collect();
    assert_eq!(expected[0], 1037);
    for isa in Isa::available() {
        let packed = Packed::new(&rows, cols).unwrap();
        let mut most = vec![0; 88];
        votes::majority(isa, packed, &mut most).unwrap();
        for (column, count) in expected.iter().enumerate() {
            assert_eq!(is_plus(&most, column), *count > 518, "{isa} {column}");
        }
    }
}

#[test]
fn a_weighted_mean_divides_by_the_sum_of_the_weights() {
    let (n, cols) = (70, 600);
    let owned = bytes(n, 75);
    let rows: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let scales: Vec<f32> = (0..n).map(|row| (row % 7) as f32 * 0.25).collect();
    let weights: Vec<f32> = (0..n).map(|row| (row % 5) as f32 + 0.5).collect();
    let all: f64 = weights.iter().map(|w| f64::from(*w)).sum();
    for isa in Isa::available() {
        let mut means = vec![0.0; cols];
        let packed = Packed::new(&rows, cols).unwrap();
        signed::mean(isa, packed, &scales, &weights, &mut means).unwrap();
        for (column, mean) in means.iter().enumerate() {
            // Multiples of an eighth: every product and sum is exact.
            let terms = rows.iter().zip(scales.iter().zip(&weights));
            let sum: f64 = terms
                .map(|(row, (s, w))| {
                    let sign = if is_plus(row, column) { 1.0 } else { -1.0 };
                    sign * f64::from(*s) * f64::from(*w)
                })
                .sum();
            assert_eq!(*mean, (sum / all) as f32, "{isa} {column}");
        }
    }
}
