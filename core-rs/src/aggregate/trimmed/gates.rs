//! The gates, over registers of any width.
#![allow(unsafe_code)]

use super::{
    super::lanes::{Lanes, count16},
    Group, Kept, Masks, STRIP, Strip, Trim,
};

/// Binary digits of a count: more contributors than 2^32 do not fit a computer.
const DIGITS: usize = 33;

/// Opens, column by column, when a number of bits have passed.
#[derive(Clone, Copy)]
struct Gate<L> {
    /// The count, in as many digits as the number of rows takes ...
    digits: [L; DIGITS],
    top: usize,
    /// ... and its top digit: 1 where it is open.
    open: L,
}

impl<L: Lanes> Gate<L> {
    #[inline(always)]
    fn new(rows: usize, threshold: usize) -> Self {
        let top = ((usize::BITS - rows.leading_zeros()) as usize).max(5);
        let start = (1usize << top) - threshold;
        let mut digits = [L::splat(false); DIGITS];
        for (k, digit) in digits[..top].iter_mut().enumerate() {
            *digit = L::splat(start >> k & 1 == 1);
        }
        Self {
            digits,
            top,
            open: L::splat(start >> top & 1 == 1),
        }
    }

    /// Where it opens with one of 16 rows of which `count` have a bit that is 1.
    #[inline(always)]
    fn opens(&self, count: &[L; 5]) -> L {
        let mut carry = L::splat(false);
        for (digit, count) in self.digits.iter().zip(count) {
            (_, carry) = carry.add(*digit, *count);
        }
        for digit in &self.digits[5..self.top] {
            carry = carry.and(*digit);
        }
        carry
    }

    /// Lets 16 rows pass of which `count` have a bit that is 1.
    #[inline(always)]
    fn pass(&mut self, count: &[L; 5]) {
        let mut carry = L::splat(false);
        for (digit, count) in self.digits.iter_mut().zip(count) {
            (*digit, carry) = carry.add(*digit, *count);
        }
        for digit in &mut self.digits[5..self.top] {
            let both = digit.and(carry);
            *digit = digit.xor(carry);
            carry = both;
        }
        self.open = self.open.or(carry);
    }

    /// Where it is open before each of 16 rows; it must not have let them pass yet.
    #[inline(always)]
    fn before_each(&self, bits: &[L; 16]) -> [L; 16] {
        let mut ready = L::splat(true);
        for digit in &self.digits[5..self.top] {
            ready = ready.and(*digit);
        }
        let (mut low, mut open) = ([self.digits[0]; 5], self.open);
        low.copy_from_slice(&self.digits[..5]);
        let mut before = [open; 16];
        for (before, bit) in before.iter_mut().zip(bits) {
            *before = open;
            let mut carry = *bit;
            for digit in &mut low {
                let both = digit.and(carry);
                *digit = digit.xor(carry);
                carry = both;
            }
            open = open.or(carry.and(ready));
        }
        before
    }
}

/// The two gates of a sign.
#[derive(Clone, Copy)]
struct Sign<L> {
    from: Gate<L>,
    to: Gate<L>,
}

impl<L: Lanes> Sign<L> {
    #[inline(always)]
    fn new(rule: Trim) -> Self {
        let Trim { rows, trim } = rule;
        Self {
            from: Gate::new(rows, trim),
            to: Gate::new(rows, rows - trim),
        }
    }

    /// Lets 16 rows pass; keeps the bits of kept rows, and returns where all would be kept and
    /// where none.
    #[inline(always)]
    fn pass(&mut self, bits: &mut [L; 16]) -> (L, L) {
        let count = count16(bits);
        let opens = self.from.opens(&count).or(self.to.opens(&count));
        if opens.is_zero() {
            self.from.pass(&count);
            self.to.pass(&count);
            let open = self.from.open.and_not(self.to.open);
            for bit in bits.iter_mut() {
                *bit = bit.and(open);
            }
            return (open, open.not());
        }
        let (from, to) = (self.from.before_each(bits), self.to.before_each(bits));
        self.from.pass(&count);
        self.to.pass(&count);
        for (bit, (from, to)) in bits.iter_mut().zip(from.iter().zip(&to)) {
            *bit = bit.and(from.and_not(*to));
        }
        (L::splat(false), L::splat(false))
    }
}

/// Lets all rows of a strip pass.
///
/// # Safety
/// That of [`Lanes`]: only from a function with the register's instructions.
#[inline(always)]
pub(super) unsafe fn pass<L: Lanes>(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) {
    // As many as a strip has registers: a gate has so many digits that unused ones would cost more.
    let mut signs = vec![[Sign::<L>::new(rule); 2]; STRIP / L::BYTES];
    let mut masks: Masks = [[Strip::ZERO; 16]; 2];
    for (rows, first) in strip.as_chunks::<16>().0.iter().zip((0..).step_by(16)) {
        let present = rule.rows - first;
        let (mut all, mut none) = (L::splat(true), L::splat(true));
        for (signs, at) in signs.iter_mut().zip((0..STRIP).step_by(L::BYTES)) {
            let mut bits = [[L::splat(false); 16]; 2];
            for (row, strip) in rows.iter().enumerate().take(present) {
                bits[0][row] = L::load(&strip[at..]);
                bits[1][row] = bits[0][row].not();
            }
            for ((sign, bits), masks) in signs.iter_mut().zip(&mut bits).zip(&mut masks) {
                let (open, shut) = sign.pass(bits);
                (all, none) = (all.and(open), none.and(shut));
                for (bit, mask) in bits.iter().zip(masks) {
                    bit.store(&mut mask[at..]);
                }
            }
            for mask in &mut masks[1] {
                L::load(&mask[at..]).not().store(&mut mask[at..]);
            }
        }
        kept.take(first, rows, group(all, none), &masks);
    }
}

#[inline(always)]
fn group<L: Lanes>(all: L, none: L) -> Group {
    if all.not().is_zero() {
        Group::Everything
    } else if none.not().is_zero() {
        Group::Nothing
    } else {
        Group::Some
    }
}
