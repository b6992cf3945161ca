//! Which contributors agree: Gram matrices that anybody recomputes to the bit, and the rules on them.
//!
//! A scalar product of two contributions is an integer number of 2^-80, whose parts are added exactly:
//! the parts of [`floats`] are blocks of columns, those of [`signs`] whole tensors, those of [`lowrank`]
//! products of factors. [`whole`] rounds a matrix of them to 64 bits, so that [`mixing`] and
//! [`selection`] are exact, too. So no result depends on the instruction set, the number of threads,
//! the division into shards or, but for ties, the order of the contributors.

// What is written over registers of any width must become part of the kernel that enables them.
#![allow(clippy::inline_always)]

pub mod exact;
pub mod floats;
pub mod lowrank;
pub mod mixing;
pub mod selection;
pub mod signs;
pub mod whole;

#[cfg(test)]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
mod tests;
