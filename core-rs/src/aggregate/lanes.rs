//! One bit for each of many columns, worked on at once: what counters of columns are built from.
//!
//! The counters are written once, over this trait; each instruction set gives it a register.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
pub(super) mod scalar;

/// A register of bits; bit `b` of byte `i` belongs to column `8 * i + b`.
///
/// # Safety
/// An implementation may use instructions that not every processor has. So a function that is generic
/// over a register and makes one is unsafe: its caller must have been compiled with these instructions,
/// as [`crate::isa::compiled!`] has it.
#[allow(unsafe_code)]
pub(super) unsafe trait Lanes: Copy {
    /// Its size.
    const BYTES: usize;

    /// The first [`Lanes::BYTES`] of some bytes, which must be there.
    fn load(bytes: &[u8]) -> Self;
    /// Writes the first [`Lanes::BYTES`] of some bytes.
    fn store(self, bytes: &mut [u8]);
    /// The same bit for every column.
    fn splat(bit: bool) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;

    /// Adds three bits of weight 1: their sum's bits of weight 1 and of weight 2.
    #[inline(always)]
    fn add(self, second: Self, third: Self) -> (Self, Self) {
        let half = self.xor(second);
        let carry = self.and(second).or(half.and(third));
        (half.xor(third), carry)
    }
}

/// A register of bytes, two of which are also a number of 16 bits, the first its lower half.
///
/// # Safety
/// As for [`Lanes`].
#[allow(unsafe_code)]
pub(super) unsafe trait Bytes: Lanes {
    /// The same 16 bytes in each 16 of its bytes.
    fn repeat(bytes: &[u8; 16]) -> Self;
    /// For each index below 16 that byte of the table that the same 16 bytes of `self` are.
    fn lookup(self, indices: Self) -> Self;
    /// Sums of bytes.
    fn add_bytes(self, other: Self) -> Self;
    /// Sums of numbers of 16 bits.
    fn add_pairs(self, other: Self) -> Self;
    /// Differences of numbers of 16 bits.
    fn sub_pairs(self, other: Self) -> Self;
    /// Numbers of 16 bits, shifted down.
    fn shift_right(self, bits: u8) -> Self;
    /// Numbers of 16 bits, shifted up.
    fn shift_left(self, bits: u8) -> Self;
}

/// Adds 16 bits to 4 digits in place; the digit of weight 16 that leaves them goes to the fifth.
#[inline(always)]
pub(super) fn add16<L: Lanes>(digits: &mut [L; 5], bits: &[L; 16]) {
    let mut eights = [L::splat(false); 2];
    for (half, eight) in bits.chunks_exact(8).zip(&mut eights) {
        let mut fours = [L::splat(false); 2];
        for (quarter, four) in half.chunks_exact(4).zip(&mut fours) {
            let (ones, first) = digits[0].add(quarter[0], quarter[1]);
            let (ones, second) = ones.add(quarter[2], quarter[3]);
            digits[0] = ones;
            (digits[1], *four) = digits[1].add(first, second);
        }
        (digits[2], *eight) = digits[2].add(fours[0], fours[1]);
    }
    (digits[3], digits[4]) = digits[3].add(eights[0], eights[1]);
}
