//! Packed bits, deltas and strict file readers.
//!
//! Functions take slices and write into slices; only `python` depends on Python. Each kernel has one
//! scalar definition that handles one block, and the functions around it distribute blocks over the
//! threads of the caller's rayon pool, if any (see [`threads`]): the bytes of a result depend neither
//! on the number of threads nor on how the work is divided. Without the feature `kernels` only the file
//! readers are built.

#[cfg(feature = "kernels")]
pub mod aggregate;
#[cfg(feature = "kernels")]
pub mod codes;
pub mod delta;
pub mod digest;
pub mod error;
pub mod files;
pub mod gguf;
#[cfg(feature = "kernels")]
pub mod gram;
pub mod identity;
#[cfg(feature = "kernels")]
pub mod isa;
#[cfg(feature = "kernels")]
pub mod limits;
#[cfg(feature = "kernels")]
pub mod noise;
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
