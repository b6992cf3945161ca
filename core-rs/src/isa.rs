//! The instruction sets that kernels are written for, and which of them this machine has.
//!
//! A kernel is a folder: `scalar.rs` says what it computes, and beside it lies one file for each
//! instruction set, which must give the same bytes. [`dispatch!`] calls the one that an [`Isa`] names.

use std::fmt;

/// Shows that the processor was asked. Only this file can make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust: the definition.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and POPCNT (2013 and later).
    #[cfg(target_arch = "x86_64")]
    Avx2(Proof),
    /// x86-64 with AVX-512 F, BW, DQ, VL, VBMI, VPOPCNTDQ, VNNI and BF16 (Zen 4, Sapphire Rapids and
    /// later).
    #[cfg(target_arch = "x86_64")]
    Avx512(Proof),
    /// 64-bit ARM, which always has NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(Proof),
}

impl Isa {
    /// The names of all instruction sets that a kernel may be written for, the widest first.
    pub const NAMES: [&str; 4] = ["avx512", "avx2", "neon", "scalar"];

    /// What this machine has, the fastest first and [`Isa::Scalar`] last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx512() {
                found.push(Self::Avx512(Proof(())));
            }
            if has_avx2() {
                found.push(Self::Avx2(Proof(())));
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Self::Neon(Proof(())));
        found.push(Self::Scalar);
        found
    }

    /// The fastest one of this machine.
    #[must_use]
    pub fn best() -> Self {
        Self::available()[0]
    }

    /// The one of this name, where this machine has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name)
    }

    /// Its name, one of [`Isa::NAMES`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512bf16")
}

/// Calls a kernel of the modules `scalar`, `avx2`, `avx512` and `neon` in scope, by instruction set.
macro_rules! dispatch {
    ($isa:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $isa {
            $crate::isa::Isa::Scalar => scalar::$kernel($($argument),*),
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            // SAFETY: this Isa holds a proof that the processor has the kernel's instructions.
            $crate::isa::Isa::Avx2(_) => unsafe { avx2::$kernel($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            // SAFETY: as above.
            $crate::isa::Isa::Avx512(_) => unsafe { avx512::$kernel($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            #[allow(unsafe_code)]
            // SAFETY: as above.
            $crate::isa::Isa::Neon(_) => unsafe { neon::$kernel($($argument),*) },
        }
    };
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_always_there_and_comes_last() {
        assert_eq!(Isa::available().last(), Some(&Isa::Scalar));
    }

    #[test]
    fn each_available_one_is_found_by_its_name() {
        for isa in Isa::available() {
            assert_eq!(Isa::named(isa.name()), Some(isa));
        }
    }

    #[test]
    fn an_unknown_name_is_none() {
        assert_eq!(Isa::named("avx9000"), None);
    }
}
