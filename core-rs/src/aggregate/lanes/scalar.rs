//! 64 columns in an integer.
#![allow(unsafe_code)]

use super::Lanes;

/// What kernels are generic over.
pub(in super::super) type Register = u64;

// SAFETY: plain integers, which every processor has.
unsafe impl Lanes for u64 {
    const BYTES: usize = 8;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[..8]);
        Self::from_le_bytes(word)
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.to_le_bytes());
    }

    #[inline(always)]
    fn splat(bit: bool) -> Self {
        if bit { Self::MAX } else { 0 }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
}
