//! Every instruction set and number of threads gives the bytes of the definition on one thread.

use super::*;

/// What a matrix packs to, and what becomes of a third one under it.
type Results = (Vec<u8>, Vec<u8>, Vec<u32>, Vec<u32>, Vec<u32>);

/// Any number of a type, among them zeros of both signs, subnormals and the largest.
fn numbers(cols: usize, rows: usize) -> impl Strategy<Value = Vec<f32>> {
    let special = [
        0.0, -0.0, 1e-45, -1e-45, 1e-39, -1e-40, 6e-8, 65504.0, -65504.0,
    ];
    let value = prop_oneof![
        6 => -1.0f32..1.0,
        1 => prop::sample::select(special.to_vec()),
        1 => (-40.0f32..4.0).prop_map(|power| 10f32.powf(power)),
    ];
    prop::collection::vec(value, rows * cols)
}

fn matrices() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>)> {
    let width = prop_oneof![1usize..70, 4090usize..4110, Just(8200)];
    (width, 1usize..4)
        .prop_flat_map(|(cols, rows)| (Just(cols), numbers(cols, rows), numbers(cols, rows)))
}

fn axes() -> impl Strategy<Value = Axis> {
    let group = prop::sample::select(vec![8, 24, 128, 8192]);
    prop_oneof![
        Just(Axis::Matrix),
        Just(Axis::Row),
        Just(Axis::Column),
        group.prop_map(Axis::Group),
    ]
}

/// Weights of a type that is told by a number.
enum Stored {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Stored {
    fn new(kind: usize, values: &[f32]) -> Self {
        match kind {
            0 => Self::F32(values.to_vec()),
            1 => Self::F16(values.iter().copied().map(f16::from_f32).collect()),
            _ => Self::Bf16(values.iter().copied().map(bf16::from_f32).collect()),
        }
    }

    fn weights(&self) -> Weights<'_> {
        match self {
            Self::F32(values) => Weights::F32(values),
            Self::F16(values) => Weights::F16(values),
            Self::Bf16(values) => Weights::Bf16(values),
        }
    }

    fn weights_mut(&mut self) -> WeightsMut<'_> {
        match self {
            Self::F32(values) => WeightsMut::F32(values),
            Self::F16(values) => WeightsMut::F16(values),
            Self::Bf16(values) => WeightsMut::Bf16(values),
        }
    }

    fn bits(&self) -> Vec<u32> {
        match self {
            Self::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
            Self::F16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
            Self::Bf16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Way {
    kinds: (usize, usize),
    axis: Axis,
    masked: bool,
}

fn results(way: Way, cols: usize, base: &[f32], tuned: &[f32], isa: Isa) -> Results {
    let (mut base, tuned) = (
        Stored::new(way.kinds.0, base),
        Stored::new(way.kinds.1, tuned),
    );
    let rows = base.weights().len() / cols;
    let (mut bits, mut mask) = (
        vec![0xAA; rows * row_bytes(cols)],
        vec![0x55; rows * row_bytes(cols)],
    );
    let mut scales = vec![0.0; way.axis.scales(rows, cols)];
    let planes = PlanesMut {
        bits: &mut bits,
        mask: way.masked.then_some(&mut mask),
    };
    pack_signs(
        base.weights(),
        tuned.weights(),
        cols,
        way.axis,
        planes,
        &mut scales,
        isa,
    )
    .unwrap();
    let planes = Planes {
        bits: &bits,
        mask: way.masked.then_some(&mask),
    };
    let mut signs = vec![9.0; rows * cols];
    unpack_signs(planes, cols, &mut signs, isa).unwrap();
    apply_signs(base.weights_mut(), cols, way.axis, planes, &scales, isa).unwrap();
    let scales = scales.iter().map(|scale| scale.to_bits()).collect();
    let signs = signs.iter().map(|sign| sign.to_bits()).collect();
    (bits, mask, scales, signs, base.bits())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    #[cfg_attr(miri, ignore = "has the definition alone")]
    fn every_instruction_set_gives_the_bytes_of_the_definition(
        (cols, base, tuned) in matrices(),
        axis in axes(),
        kinds in (0usize..3, 0usize..3),
        masked in any::<bool>(),
    ) {
        let way = Way { kinds, axis, masked };
        let expected = results(way, cols, &base, &tuned, Isa::Scalar);
        for isa in Isa::available() {
            prop_assert_eq!(&results(way, cols, &base, &tuned, isa), &expected, "{}", isa);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes hours interpreted")]
fn the_number_of_threads_makes_no_difference_to_any_axis() {
    let cols = 777;
    let counted = (0u16..1009).cycle().map(|i| f32::from(i) - 500.0);
    let tuned: Vec<f32> = counted.take(401 * cols).collect();
    let base: Vec<f32> = tuned.iter().rev().copied().collect();
    let axes = [Axis::Matrix, Axis::Row, Axis::Column, Axis::Group(128)];
    for (axis, masked) in axes
        .into_iter()
        .flat_map(|axis| [(axis, true), (axis, false)])
    {
        let way = Way {
            kinds: (2, 2),
            axis,
            masked,
        };
        let on = |threads: usize| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| results(way, cols, &base, &tuned, Isa::best()))
        };
        assert!(on(1) == on(3) && on(1) == on(8), "{axis:?} {masked}");
    }
}

/// Scales that meet every rounding: ties, subnormal sums, overflow, cancellation.
const SCALES: [f32; 9] = [0.0, -0.0, 0.5, 0.001_953_125, 1e-40, 1e-45, 3e38, -0.3, 1.0];

#[test]
#[cfg_attr(miri, ignore = "takes hours interpreted")]
fn every_bfloat16_is_applied_as_the_half_crate_rounds() {
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for isa in Isa::available() {
        for (scale, plus) in SCALES
            .into_iter()
            .flat_map(|scale| [(scale, true), (scale, false)])
        {
            let mut weights = all.clone();
            let bits = vec![if plus { 0xFF } else { 0 }; all.len() / 8];
            let planes = Planes {
                bits: &bits,
                mask: None,
            };
            let weights_mut = WeightsMut::Bf16(&mut weights);
            apply_signs(weights_mut, all.len(), Axis::Row, planes, &[scale], isa).unwrap();
            let signed = if plus { scale } else { -scale };
            for (new, old) in weights.iter().zip(&all) {
                let expected = bf16::from_f32(old.to_f32() + signed).to_bits();
                assert_eq!(new.to_bits(), expected, "{isa} {old:?} {signed}");
            }
        }
    }
}
