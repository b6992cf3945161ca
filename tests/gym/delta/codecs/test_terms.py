"""Every term: what it keeps, how it is refused, and that its file reads as a stranger reads it."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.forge import forge
from tests.gym.delta.golden.make import DENSE, LOWRANK, SHAPES, values
from tests.gym.delta.reference_reader import read_differences
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import create_delta, difference, load_delta, random_signs
from zoo.gym.delta.codecs.lowrank import code_factor
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.sparse import places_of, steps_to, within
from zoo.gym.delta.codecs.tensor import Encoded, apply_rows, decode_rows, encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.terms import (
    LowRankTerm,
    Scale,
    SignTerm,
    SparseTerm,
    TensorTerms,
    rows_and_columns,
)
from zoo.gym.errors import InputError

SCALES: tuple[Scale, ...] = get_args(Scale)
GOLDEN = Path(__file__).parents[1] / "golden"
CODINGS = [
    *(Dense(zero=zero, scale=scale) for zero in ("minus", "mask") for scale in SCALES),
    *(Dense(zero="mask", planes=3), Dense(planes=2, zero="minus", scale="column")),
    *(Dense("int", bits) for bits in (2, 4, 8)),
    *(Dense("ternary"), Dense("sparse")),
]
SIXTEENTHS = st.integers(-100, 100).map(lambda number: number / 16)
matrices = array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=9).flatmap(
    lambda shape: st.tuples(*(arrays(np.float32, shape, elements=SIXTEENTHS) for _ in range(2)))
)
Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


def coded(pair: Pair, coding: Dense) -> Encoded | None:
    return encode_tensor("w", Values(pair[0], "f32", "b"), Values(pair[1], "f32", "t"), coding)


def whole(encoded: Encoded, base: NDArray[np.float32]) -> NDArray[np.float32]:
    rows, columns = rows_and_columns(base.shape)
    return decode_rows(encoded.tensor, encoded.arrays, slice(0, rows), base.reshape(rows, columns))


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS, ids=str)
@settings(deadline=None, max_examples=30)
@given(pair=matrices, cut=st.floats(0, 1))
def test_rows_decode_alone_as_they_do_together(coding: Dense, pair: Pair, cut: float) -> None:
    encoded = coded(pair, coding)
    if encoded is None:
        return
    rows, columns = rows_and_columns(pair[0].shape)
    base, split = pair[0].reshape(rows, columns), round(cut * rows)
    parts = [
        decode_rows(encoded.tensor, encoded.arrays, rows, base[rows])
        for rows in (slice(0, split), slice(split, rows))
    ]
    assert np.concatenate(parts).tobytes() == whole(encoded, pair[0]).tobytes()


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(pair=matrices)
def test_a_mask_leaves_alone_what_did_not_change(pair: Pair) -> None:
    encoded = coded(pair, Dense(zero="mask", planes=2))
    if encoded is not None:
        d = (pair[1] - pair[0]).reshape(rows_and_columns(pair[0].shape))
        assert not whole(encoded, pair[0])[d == 0].any()


@settings(deadline=None, max_examples=50)
@given(pair=matrices, scale=st.sampled_from(SCALES))
@pytest.mark.slow
def test_a_masked_scale_is_the_mean_over_what_changed(pair: Pair, scale: Any) -> None:
    encoded = coded(pair, Dense(zero="mask", scale=scale))
    if encoded is None:
        return
    d = np.ma.masked_equal((pair[1] - pair[0]).reshape(rows_and_columns(pair[0].shape)), 0)
    axis = {"row": 1, "group": 1, "column": 0, "matrix": None}[scale]  # at most 81 columns
    means = np.ma.abs(d).astype(np.float64).mean(axis=axis)
    expected = np.ma.filled(means, 0) if axis is not None else means
    found = encoded.arrays["scale"].reshape(np.shape(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(pair=matrices)
def test_another_plane_never_makes_it_worse(pair: Pair) -> None:
    d = (pair[1] - pair[0]).reshape(rows_and_columns(pair[0].shape))
    errors = []
    for planes in (1, 2, 4):
        encoded = coded(pair, Dense(zero="minus", planes=planes))
        found = whole(encoded, pair[0]) if encoded else np.zeros_like(d)
        errors.append(float(((found - d).astype(np.float64) ** 2).sum()))
    assert errors[1] <= errors[0] * 1.0001 + 1e-9
    assert errors[2] <= errors[1] * 1.0001 + 1e-9


def bits16(seed: int, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    return np.random.default_rng(seed).integers(0, 0x7F80, shape, np.uint16)


@pytest.mark.parametrize("density", [1.0, 0.3, 0.002])
def test_a_sparse_delta_gives_bfloat16_back_to_the_bit(density: float) -> None:
    base, other = bits16(0, (90, 70)), bits16(1, (90, 70))
    changed = np.random.default_rng(2).random(base.shape) < density
    tuned = np.where(changed, other, base)
    tuned[0, 0] = 0x8000  # -0.0
    encoded = encode_tensor(
        "w", Values(base, "bf16", "b"), Values(tuned, "bf16", "t"), Dense("sparse")
    )
    assert encoded is not None
    rebuilt = (base.astype(np.uint32) << 16).view(np.float32)
    apply_rows(encoded.tensor, encoded.arrays, slice(0, 90), rebuilt)
    assert (rebuilt.view(np.uint32) >> 16).astype(np.uint16).tobytes() == tuned.tobytes()


@settings(deadline=None)
@given(gaps=st.lists(st.sampled_from([1, 2, 254, 255, 256, 510, 511, 65535, 65536, 200_000])))
def test_steps_lead_back_to_their_places(gaps: list[int]) -> None:
    places = np.cumsum(np.array(gaps, np.int64)) - 1
    for cut in (0, len(gaps) // 2):
        steps = steps_to(iter((places[:cut], places[cut:])))
        found = [place for piece in places_of(steps.index) for place in piece]
        assert found == places.tolist()
        if gaps:
            which, inside = within(steps.index, int(places[cut]), int(places[-1]) + 1)
            assert (which.start, len(inside)) == (cut, len(gaps) - cut)


def test_few_changes_take_steps_of_two_bytes() -> None:
    assert steps_to(iter((np.arange(0, 90_000, 30_000),))).kind == "U16"
    assert steps_to(iter((np.arange(0, 900, 300),))).kind == "U8"


@pytest.mark.parametrize("kind", [*(kind for kind in DENSE if kind != "sparse"), *LOWRANK])
def test_a_control_keeps_sizes_and_draws_directions(kind: str, tmp_path: Path) -> None:
    path = GOLDEN / f"{kind}.safetensors"
    control = random_signs(path, tmp_path / "c.safetensors", 7)
    again = random_signs(path, tmp_path / "d.safetensors", 7)
    assert control.path.read_bytes() == again.path.read_bytes()
    base = {name: values(shape, 1) for name, shape in SHAPES.items()}
    mine, theirs = (read_differences(file, base) for file in (path, control.path))
    name = "layers.0.down.weight"
    assert np.linalg.norm(theirs[name]) == pytest.approx(np.linalg.norm(mine[name]), rel=0.35)
    cosine = np.vdot(mine[name], theirs[name]) / np.vdot(mine[name], mine[name])
    assert abs(cosine) < 0.35  # 390 fair coins, and a product of two factors has fewer


def test_a_sparse_delta_has_no_control(tmp_path: Path) -> None:
    with raises("delta.no_control", "expected coded differences, got the fine-tune's own"):
        random_signs(GOLDEN / "sparse.safetensors", tmp_path / "c.safetensors", 7)
    assert not any(tmp_path.iterdir())


def _ternary_byte(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    data[file["layers.0.up.weight.ternary.codes"]["data_offsets"][0]] = 243


def _int_scale(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    start = file["layers.0.up.weight.int.scale"]["data_offsets"][0]
    data[start : start + 2] = np.float16("nan").tobytes()


def _int_bits(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["bits"] = 3


def _other_bits(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["bits"] = 8


def _group(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["group"] = 64


def _no_group(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    del header["tensors"][0]["terms"][0]["group"]


def _planes(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["planes"] = 4


def _no_mask(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["zero"] = "minus"


def _outside_the_mask(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    mask = file["layers.0.down.weight.mask"]["data_offsets"]
    data[mask[0] : mask[1]] = bytes(mask[1] - mask[0])


def _steps_beyond(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    data[file["layers.0.up.weight.sparse.index"]["data_offsets"][0]] = 200


def _step_without_value(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    data[file["layers.0.up.weight.sparse.index"]["data_offsets"][0]] = 255


def _sparse_and_raw(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"].append({"kind": "raw"})


def _one_factor(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    del header["tensors"][0]["terms"][0]["A"]


def _bits_and_factors(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["bits"] = 2


def _factor(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["A"] = "int3"


def _bf16(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    start = file["layers.0.up.weight.B.values"]["data_offsets"][0]
    data[start : start + 2] = b"\x80\x7f"


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("ternary", _ternary_byte, "up.weight.ternary.codes': expected bytes of at most 242"),
        ("int4", _int_scale, r"up.weight.int.scale' is not finite: .* got NaN at \[0, 0\]"),
        ("int4", _int_bits, "header: tensors.0.terms.0.int.bits: input should be 2, 4 or 8"),
        ("int4", _other_bits, "down.weight.int.codes': expected U8 .3, 130. by its term"),
        ("ternary", _group, "header: tensors.0.terms.0.ternary.group: input should be 128"),
        ("group", _no_group, "group: expected 128 with a scale per group only"),
        ("planes", _planes, "part 'layers.0.down.weight.scale.4': not in the file"),
        ("mask", _no_mask, "part 'layers.0.down.weight.mask': not in the header's terms"),
        ("planes", _outside_the_mask, "down.weight.sign': expected 0 where the mask is 0, got 1"),
        ("sparse", _steps_beyond, "up.weight.sparse.index': expected places below 55, got"),
        ("sparse", _step_without_value, "up.weight.sparse.index': expected .* places, got"),
        ("sparse", _sparse_and_raw, "expected a sparse term to be the only one"),
        ("lowrank-int4", _one_factor, "bits: expected 2 or two factor codecs"),
        ("lowrank-int4", _bits_and_factors, "bits: expected 2 and no factor codecs"),
        ("lowrank-int4", _factor, "lowrank.A: input should be 'codes2', 'sign'"),
        ("lowrank-bf16", _bf16, r"up.weight.B.values' is not finite: .* got an infinity"),
    ],
)
def test_a_rightly_sealed_contradiction_is_refused(
    name: str, edit: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        load_delta(forge(GOLDEN / f"{name}.safetensors", tmp_path / "forged.safetensors", edit))


def test_values_that_are_not_finite_have_one_code_wherever_they_are_seen() -> None:
    base, tuned = np.zeros(2, np.float32), np.array([0, np.inf], np.float32)
    with raises("delta.not_finite", "tensor 'w': ") as of_vector:
        coded((base, tuned), Dense())
    large = np.full((1, 2), 1e6, np.float32)  # float16 ends at 65504
    with raises("delta.not_finite", "tensor 'w': factors: ") as of_factor:
        code_factor("w", "A", large, "f16")
    assert of_vector.value.code == of_factor.value.code == "delta.not_finite"


def test_a_tensor_without_terms_stays_the_base_to_the_bit() -> None:
    tensor = TensorTerms(name="w", shape=(1, 3), terms=())
    values = np.array([[-0.0, 1.0, -0.0]], np.float32)
    before = values.tobytes()
    apply_rows(tensor, {}, slice(0, 1), values)
    assert values.tobytes() == before


def test_a_sparse_difference_asks_for_the_base() -> None:
    delta = load_delta(GOLDEN / "sparse.safetensors")
    with pytest.raises(ValueError, match="a sparse term needs the base's values, got none"):
        difference(delta, delta.header.tensors[0])


def test_terms_that_no_tensor_can_have_are_refused() -> None:
    sparse = SparseTerm(count=1, index="U8", steps=1, values="F32")
    with pytest.raises(ValidationError, match="expected a sparse term to be the only one"):
        TensorTerms(name="w", shape=(2, 2), terms=(sparse, SignTerm()))
    with pytest.raises(ValidationError, match="expected two dimensions"):
        TensorTerms(name="w", shape=(2, 2, 2), terms=(LowRankTerm(rank=1),))


@pytest.mark.parametrize(("share", "zero"), [(0.02, "minus"), (0.3, "mask")])
def test_auto_masks_where_many_differences_are_zero(share: float, zero: str) -> None:
    random = np.random.default_rng(0)
    base = random.standard_normal((80, 100), np.float32)
    change = np.where(random.random(base.shape) < share, np.float32(0), np.float32(0.5))
    encoded = coded((base, base + change), Dense())
    assert encoded is not None
    (term,) = encoded.tensor.terms
    assert isinstance(term, SignTerm)
    assert term.zero == zero


def test_a_light_bfloat16_tune_is_told_how_much_did_not_change(tmp_path: Path) -> None:
    shapes = {"w": (64, 64)}
    arrays_ = disk.random_arrays(shapes, 0)
    change = np.zeros((64, 64), np.float32)
    change[:16] = 0.5
    before = disk.write_model(tmp_path / "base", arrays_)
    after = disk.write_model(tmp_path / "tuned", {"w": arrays_["w"] + change})
    out = tmp_path / "d.safetensors"
    report = create_delta(after, base=before, base_id="b", out=out, config=DeltaConfig())
    assert report.masked is not None
    assert (report.masked.tensors, report.masked.changed) == (1, 0.25)
