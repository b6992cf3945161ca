//! Floats as integer multiples of one unit, so that a sum does not depend on its order.

/// Numbers as multiples of a power of two.
#[derive(Debug)]
pub(super) struct Fixed {
    /// How many units each number is.
    pub(super) multiples: Vec<i64>,
    /// The unit.
    pub(super) unit: f64,
}

/// The bits of the largest number; with 13 bits or fewer for the number of terms, sums fit an i64.
const BITS: i32 = 50;

/// Rounds each number (finite, at least 0) to the nearest multiple of a unit, ties to even.
///
/// The unit is such that the largest number takes 50 bits (fewer above 4096 numbers, so that all sums
/// fit 62 bits). A float32 thus becomes exact unless it is 2^26 times smaller than the largest one.
pub(super) fn fixed(numbers: &[f64]) -> Fixed {
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Fixed {
            multiples: vec![0; numbers.len()],
            unit: 0.0,
        };
    }
    let terms = i32::try_from(usize::BITS - numbers.len().leading_zeros()).unwrap_or(i32::MAX);
    let exponent = exponent(largest) - BITS.min(62 - terms);
    let inverse = 2.0f64.powi(-exponent);
    #[allow(clippy::cast_possible_truncation)] // integers of at most 50 bits
    let multiple = |number: &f64| (number * inverse).round_ties_even() as i64;
    Fixed {
        multiples: numbers.iter().map(multiple).collect(),
        unit: 2.0f64.powi(exponent),
    }
}

/// The smallest e with `number < 2^e`; `number` is a normal float64.
fn exponent(number: f64) -> i32 {
    let bits = number.to_bits() >> 52 & 0x7ff;
    i32::try_from(bits).unwrap_or(0) - 1022
}

impl Fixed {
    /// A sum of multiples divided by `divisor`, rounded to float64 at each step and then to float32.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded, as defined
    pub(super) fn mean(&self, sum: i64, divisor: f64) -> f32 {
        (sum as f64 * self.unit / divisor) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_takes_fifty_bits() {
        // 1 = 2^49 units of 2^-49, below 2^50; half a unit goes to the even neighbour
        let fixed = fixed(&[
            1.0,
            2.0f64.powi(-49),
            2.0f64.powi(-50),
            3.0 * 2.0f64.powi(-50),
        ]);
        assert_eq!(fixed.multiples, [1 << 49, 1, 0, 2]);
        assert_eq!(fixed.unit.to_bits(), 2.0f64.powi(-49).to_bits());
    }

    #[test]
    fn beyond_4095_numbers_it_takes_fewer_so_that_sums_fit() {
        for (count, bits) in [
            (4095, 50),
            (4096, 49),
            (8191, 49),
            (8192, 48),
            (1 << 20, 41),
        ] {
            let multiples = fixed(&vec![1.0; count]).multiples;
            assert_eq!(multiples[0], 1 << (bits - 1), "{count}");
            let sum: i64 = multiples.iter().sum();
            assert!(sum < 1 << 62, "{count}");
        }
    }
}
