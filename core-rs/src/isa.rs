//! The instruction sets of the kernels, and which of them this machine supports.
//!
//! A kernel is a folder: `scalar.rs` defines what it computes, next to one file for each instruction set,
//! which must give the same bytes; where the compiler's auto-vectorisation is good enough,
//! [`compiled!`] generates that module from the definition. [`dispatch!`] calls the one of an [`Isa`].

use std::fmt;

/// Proof that the processor was checked. Only this file can create one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

/// An instruction set that this machine supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust: the definition.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and POPCNT (2013 and later).
    #[cfg(target_arch = "x86_64")]
    Avx2(Proof),
    /// x86-64 with all of the above and AVX-512 F, BW, DQ, VL, VBMI, VPOPCNTDQ and VNNI (Ice Lake, Zen 4
    /// and later).
    #[cfg(target_arch = "x86_64")]
    Avx512(Proof),
    /// 64-bit ARM, which always has NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(Proof),
}

impl Isa {
    /// The names of all instruction sets that a kernel may be written for, the widest first.
    pub const NAMES: [&str; 4] = ["avx512", "avx2", "neon", "scalar"];

    /// Those of this machine, the fastest first and [`Isa::Scalar`] last.
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

    /// The one with this name, if this machine supports it.
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
}

/// Calls a kernel of the modules `scalar`, `avx2`, `avx512` and `neon` in scope, by instruction set.
macro_rules! dispatch {
    ($isa:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $isa {
            $crate::isa::Isa::Scalar => scalar::$kernel($($argument),*),
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            // SAFETY: this Isa contains a proof that the processor has the kernel's instructions.
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

/// Writes a kernel's modules for the instruction sets that it lists: each function is another one, an
/// `#[inline(always)]` one, compiled with the instructions of that set.
///
/// `compiled! { avx2, neon: fn add(a: &[f32], sum: &mut f32) = scalar::add; }` makes `avx2::add` and
/// `neon::add`. With `scalar, avx2 over lanes:` the function may be generic over `Register`, which is
/// `lanes::scalar::Register`, `lanes::avx2::Register` and so on.
macro_rules! compiled {
    (@module $isa:ident [$($lanes:ident)?] [$attribute:meta] {
        $(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) = $kernel:expr;)+
    }) => {
        #[allow(unsafe_code)]
        mod $isa {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;
            $(use super::$lanes::$isa::Register;)?

            $(
                #[$attribute]
                pub(super) fn $name($($argument: $kind),*) {
                    #[allow(unused_unsafe)]
                    // SAFETY: this function has the instructions of its module's register.
                    unsafe { $kernel($($argument),*) }
                }
            )+
        }
    };
    (@one scalar $lanes:tt $functions:tt) => {
        $crate::isa::compiled!(@module scalar $lanes [inline] $functions);
    };
    (@one avx2 $lanes:tt $functions:tt) => {
        #[cfg(target_arch = "x86_64")]
        $crate::isa::compiled!(@module avx2 $lanes [
            target_feature(enable = "avx2,fma,f16c,popcnt")
        ] $functions);
    };
    (@one avx512 $lanes:tt $functions:tt) => {
        #[cfg(target_arch = "x86_64")]
        $crate::isa::compiled!(@module avx512 $lanes [
            target_feature(enable = "avx2,fma,f16c,popcnt,avx512f,avx512bw,avx512dq,avx512vl")
        ] $functions);
    };
    (@one neon $lanes:tt $functions:tt) => {
        #[cfg(target_arch = "aarch64")]
        $crate::isa::compiled!(@module neon $lanes [target_feature(enable = "neon")] $functions);
    };
    (@each [$($isa:ident),+] $lanes:tt $functions:tt) => {
        $($crate::isa::compiled!(@one $isa $lanes $functions);)+
    };
    ($($isa:ident),+ $(over $lanes:ident)?: $($functions:tt)+) => {
        $crate::isa::compiled!(@each [$($isa),+] [$($lanes)?] { $($functions)+ });
    };
}
pub(crate) use compiled;

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

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

    #[test]
    fn a_processor_is_asked_for_what_kernels_enable_and_for_nothing_else() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut enabled, mut asked) = (BTreeSet::new(), BTreeSet::new());
        read_features(&source, &mut enabled, &mut asked);
        assert!(asked.len() > 5);
        assert_eq!(asked, enabled);
    }

    /// What the files below a folder name in `target_feature`, and in `is_x86_feature_detected`.
    fn read_features(folder: &Path, enabled: &mut BTreeSet<String>, asked: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read_features(&path, enabled, asked);
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            let names = |start| {
                text.split(start)
                    .skip(1)
                    .map(|rest: &str| rest.split('"').next())
            };
            let lists = names(concat!("(enable =", " \""))
                .flatten()
                .flat_map(|list| list.split(','));
            let lists = lists.filter(|name| *name != "neon");
            enabled.extend(lists.map(str::to_owned));
            let detected = names(concat!("feature_detected!", "(\"")).flatten();
            asked.extend(detected.map(str::to_owned));
        }
    }

    /// Printed past the test harness, which would swallow it: a run on another processor covers others.
    #[test]
    fn the_instruction_sets_that_a_run_covers_are_printed() {
        let here: Vec<_> = Isa::available().into_iter().map(Isa::name).collect();
        let absent = Isa::NAMES.iter().filter(|name| !here.contains(name));
        let absent: Vec<_> = absent.copied().collect();
        let (here, absent) = (here.join(", "), absent.join(", "));
        let line = format!("instruction sets covered: {here}; not on this machine: {absent}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    }
}
