use super::*;

const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

fn samples(count: usize, sigma: u64, key: &[u8; KEY_BYTES]) -> Vec<i64> {
    let mut values = vec![0; count];
    discrete_gaussian(&mut values, sigma, key).unwrap();
    values
}

#[test]
#[allow(clippy::cast_precision_loss)] // small counts
fn frequencies_are_those_of_the_probability_mass_function() {
    for sigma in [1, 2, 5] {
        let count = 200_000;
        let found = samples(count, sigma, &KEY);
        let square = 2.0 * (sigma * sigma) as f64;
        let weight = |x: i64| (-((x * x) as f64) / square).exp();
        let total: f64 = (-100..=100).map(weight).sum();
        let widest = 3 * i64::try_from(sigma).unwrap();
        let (mut chi, mut cells) = (0.0, 0.0);
        for value in -widest..=widest {
            let expected = count as f64 * weight(value) / total;
            let seen = found.iter().filter(|sample| **sample == value).count() as f64;
            chi += (seen - expected) * (seen - expected) / expected;
            cells += 1.0;
        }
        // a chi-squared variable is below its mean and 5 standard deviations
        assert!(
            chi < cells + 5.0 * (2.0f64 * cells).sqrt(),
            "{sigma}: {chi} of {cells}"
        );
    }
}

#[test]
#[allow(clippy::cast_precision_loss)]
fn the_variance_is_that_of_sigma_also_where_it_is_largest() {
    for sigma in [100, 12_345, MOST_SIGMA] {
        let found = samples(20_000, sigma, &KEY);
        let square: f64 = found.iter().map(|x| (*x as f64).powi(2)).sum();
        let ratio = square / found.len() as f64 / (sigma as f64).powi(2);
        assert!((ratio - 1.0).abs() < 0.05, "{sigma}: {ratio}"); // 5 of 1 %
    }
}

#[test]
fn a_key_gives_the_same_values_on_any_number_of_threads() {
    let one = samples(3 * BLOCK + 5, 1000, &KEY);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    assert_eq!(one, pool.install(|| samples(3 * BLOCK + 5, 1000, &KEY)));
    assert_ne!(one[..100], one[BLOCK..BLOCK + 100]);
    assert_ne!(one, samples(3 * BLOCK + 5, 1000, &[8; KEY_BYTES]));
}

#[test]
fn integers_below_a_bound_are_uniform() {
    let mut source = Source(ChaCha20Rng::from_seed(KEY));
    assert_eq!(source.below(1), 0);
    let mut seen = [0; 6];
    for _ in 0..6000 {
        seen[usize::try_from(source.below(6)).unwrap()] += 1;
    }
    assert!(
        seen.iter().all(|count| (850..1150).contains(count)),
        "{seen:?}"
    );
    let wide = 3 << 100;
    assert!(
        (0..100)
            .map(|_| source.below(wide))
            .any(|found| found > 1 << 100)
    );
}
