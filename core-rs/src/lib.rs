//! Packed bits, deltas and strict file readers.
//!
//! Slices in, slices out; only `python` knows Python. Each kernel has one scalar definition that
//! handles one block, and the functions around it hand out blocks to threads: the bytes of a result
//! depend neither on the number of threads nor on how the work is cut.

pub mod aggregate;
pub mod codes;
pub mod delta;
pub mod digest;
pub mod error;
pub mod gguf;
pub mod identity;
pub mod isa;
pub mod limits;
pub mod product;
#[cfg(feature = "python")]
mod python;
pub mod safetensors;
pub mod signs;
pub mod weights;
