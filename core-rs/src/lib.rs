//! Packed bits, deltas and strict file readers.
//!
//! Slices in, slices out; only `python` knows Python. Each kernel has one scalar definition that
//! handles one block, and the functions around it hand out blocks to the threads of the rayon pool that
//! the caller is in, if any (see [`threads`]): the bytes of a result depend neither on the number of
//! threads nor on how the work is cut. Without the feature `kernels`
//! only the readers of files are built.

#[cfg(feature = "kernels")]
pub mod aggregate;
#[cfg(feature = "kernels")]
pub mod codes;
pub mod delta;
pub mod digest;
pub mod error;
pub mod files;
pub mod gguf;
pub mod identity;
#[cfg(feature = "kernels")]
pub mod isa;
#[cfg(feature = "kernels")]
pub mod limits;
#[cfg(feature = "kernels")]
mod prefetch;
#[cfg(feature = "kernels")]
pub mod product;
#[cfg(feature = "python")]
mod python;
pub mod safetensors;
#[cfg(feature = "kernels")]
pub mod signs;
pub mod threads;
#[cfg(feature = "kernels")]
pub mod weights;
