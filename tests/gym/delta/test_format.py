"""The file: its size, its bytes, and every way in which it can be wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.forge import forge
from zoo.gym.delta import create_delta, load_delta
from zoo.gym.errors import GymError, InputError

PICO_SHAPES = disk.qwen3_shapes(disk.PICO)
Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def pico(home: Path) -> Path:
    return disk.write_model(home / "pico", disk.random_arrays(PICO_SHAPES, 0))


def test_rank_16_at_pico_geometry_takes_42752_bytes_and_a_small_header(
    pico: Path, tmp_path: Path
) -> None:
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(PICO_SHAPES, 16, 1), 16)
    report = create_delta(source, base=pico, base_id="like-pico", out=tmp_path / "d.safetensors")
    assert report.form == "lowrank"
    assert report.payload_bytes == 42_752
    assert report.payload_bytes < report.file_bytes <= 42_752 + 40_000
    assert report.file_bytes == report.file.stat().st_size


@pytest.mark.slow
def test_dense_per_row_at_pico_geometry_takes_129696_bytes_and_a_small_header(
    pico: Path, tmp_path: Path
) -> None:
    arrays = disk.plus(disk.random_arrays(PICO_SHAPES, 0), disk.random_arrays(PICO_SHAPES, 1))
    source = disk.write_model(tmp_path / "tuned", arrays)
    report = create_delta(source, base=pico, base_id="like-pico", out=tmp_path / "d.safetensors")
    assert (report.form, report.payload_bytes) == ("dense", 129_696)
    assert report.file_bytes <= 129_696 + 40_000
    assert report.tensors == 28 + 1 + 17


@pytest.mark.parametrize("kind", ["tuned", "adapter"])
def test_the_same_input_gives_the_same_bytes(
    kind: str, base: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source: Path = request.getfixturevalue(kind)
    first, second = (
        create_delta(source, base=base, base_id="tiny", out=tmp_path / name).file.read_bytes()
        for name in ("one.safetensors", "two.safetensors")
    )
    assert first == second


def test_the_safetensors_library_reads_every_part_aligned(lowrank: Path) -> None:
    parts = load_file(lowrank)
    assert parts[f"{Q}.A.codes"].shape == (3, 4)
    assert parts[f"{Q}.B.scale"].dtype == np.float16
    for name, info in load_delta(lowrank).parts.items():
        assert info.start % parts[name].itemsize == 0, name


@pytest.mark.parametrize("kind", ["dense", "lowrank"])
@settings(deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused(
    kind: str, place: float, bit: int, request: pytest.FixtureRequest, home: Path
) -> None:
    content = bytearray(request.getfixturevalue(kind).read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    damaged = home / "flipped.safetensors"
    damaged.write_bytes(content)
    with pytest.raises(InputError):
        load_delta(damaged)


@pytest.mark.slow
def test_every_bit_of_the_digest_itself_counts(lowrank: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "d.safetensors"
    for place in range(35, 35 + 64):
        for bit in range(8):
            content = bytearray(lowrank.read_bytes())
            content[place] ^= 1 << bit
            damaged.write_bytes(content)
            with pytest.raises(InputError):
                load_delta(damaged)


@settings(deadline=None)
@given(data=st.data())
def test_a_truncated_file_is_refused(data: st.DataObject, lowrank: Path, home: Path) -> None:
    content = lowrank.read_bytes()
    cut = home / "cut.safetensors"
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(InputError):
        load_delta(cut)


def test_bytes_after_the_end_are_refused(lowrank: Path, tmp_path: Path) -> None:
    longer = tmp_path / "d.safetensors"
    longer.write_bytes(lowrank.read_bytes() + b"\0")
    with pytest.raises(InputError):
        load_delta(longer)


def test_a_model_is_no_delta(base: Path) -> None:
    with raises("delta.not_a_delta", "is not a delta: metadata format: expected"):
        load_delta(base / "model.safetensors")


def test_an_absent_file_is_not_available(tmp_path: Path) -> None:
    with raises("delta.no_such_file"):
        load_delta(tmp_path / "none.safetensors")


def _version(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    file["__metadata__"]["version"] = "3"


def _unknown_term(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["kind"] = "quaternary"


def _rank(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"][0]["rank"] = 4


def _unknown_field(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["accuracy"] = 1.0


def _typed_number(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["seed"] = "42"


def _large_number(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["seed"] = 2**63


def _forgotten_tensor(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    del header["tensors"][0]


def _twice(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"].insert(0, header["tensors"][0])


def _same_kind(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["tensors"][0]["terms"] *= 2


def _no_terms(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    for tensor in header["tensors"]:
        tensor["terms"] = []


def _other_form(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    header["form"] = "dense"


def _infinite_scale(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    start = file[f"{Q}.A.scale"]["data_offsets"][0]
    data[start : start + 2] = np.float16("inf").tobytes()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_version, "delta version: expected .1. or .2., got .3."),
        (_unknown_term, "header: tensors.0.terms.0"),
        (_rank, "expected U8 .4, 5. by its term, got U8 .3, 5."),
        (_unknown_field, "header: accuracy: extra inputs"),
        (_typed_number, "header: seed: input should be a valid integer"),
        (_large_number, "header: seed: input should be less than 9223372036854775808"),
        (_forgotten_tensor, "not in the header's terms"),
        (_twice, "each name once, in sorted order"),
        (_same_kind, "expected one term of a kind"),
        (_no_terms, "tensors: expected at least one term, got none"),
        (_other_form, "form: expected 'lowrank' for terms .'lowrank'., got 'dense'"),
        (_infinite_scale, r"A.scale' is not finite: .* got an infinity at \[0, 0\]"),
    ],
)
def test_a_rightly_sealed_contradiction_is_refused(
    edit: Any, message: str, lowrank: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit))


FIGURES: dict[str, Any] = {
    "rows": 2,
    "tokens": 9,
    "base": 2.0,
    "tuned": 1.0,
    "delta": 1.25,
    "recovered": 0.75,
    "kl": 0.1,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 2.0}, "recovered: expected 0.0 by the three losses, got 0.75"),
        ({"tuned": 2.5}, "recovered: expected none by the three losses, got 0.75"),
        ({"recovered": None}, "recovered: expected 0.75 by the three losses, got none"),
        ({"tuned": None, "recovered": None}, "kl: expected it only with the loss of a fine-tune"),
        ({"base": -1.0}, "quality.base: input should be greater"),
        ({"kl": -9.0}, "quality.kl: input should be greater"),
        ({"rows": 10**15}, "tokens: expected at least 1000000000000000, the rows, got 9"),
    ],
)
def test_figures_that_cannot_be_are_refused(
    change: dict[str, Any], message: str, lowrank: Path, tmp_path: Path
) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        header["quality"] = FIGURES | change

    with raises("delta.bad_header", message):
        load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit))


def test_figures_that_agree_within_rounding_are_read(lowrank: Path, tmp_path: Path) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        header["quality"] = FIGURES | {"recovered": 0.75 + 1e-7, "kl": -1e-6}

    assert load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit)).header.quality


@pytest.mark.parametrize("mark", ["\n", "\t", "\r\n", "\x1b[2J", "\u202e", "\u2028"])
@pytest.mark.parametrize("place", ["id", "revision", "tool"])
def test_a_name_that_steers_the_terminal_is_refused(
    mark: str, place: str, lowrank: Path, tmp_path: Path
) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        (header if place == "tool" else header["base"])[place] = f"x{mark}checked   ok"

    with raises("delta.bad_header", "expected text without control characters") as caught:
        load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit))
    assert mark not in caught.value.message


def test_an_unknown_field_writes_no_line_of_its_own(lowrank: Path, tmp_path: Path) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        header["x\nzoo-gym: all is well"] = 1

    with raises("delta.bad_header") as caught:
        load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit))
    assert "\n" not in caught.value.message


def test_an_unedited_forgery_loads(lowrank: Path, tmp_path: Path) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        pass

    forged = forge(lowrank, tmp_path / "forged.safetensors", edit)
    assert load_delta(forged).header == load_delta(lowrank).header


def _nan_in_raw(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    start = file["model.norm.weight.raw"]["data_offsets"][0] + 8
    data[start : start + 4] = np.float32("nan").tobytes()


def test_a_nan_in_a_raw_term_is_named(dense: Path, tmp_path: Path) -> None:
    forged = forge(dense, tmp_path / "forged.safetensors", _nan_in_raw)
    with pytest.raises(InputError, match=r"norm.weight.raw' is not finite: .* got NaN at \[2\]"):
        load_delta(forged)


@settings(deadline=None)
@given(content=st.binary(max_size=300))
def test_a_reader_survives_any_bytes(content: bytes, home: Path) -> None:
    path = home / "any.safetensors"
    path.write_bytes(content)
    with pytest.raises(GymError):
        load_delta(path)


def test_the_digest_lies_where_the_reference_says(dense: Path) -> None:
    content = dense.read_bytes()
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    assert content[35:99].decode() == metadata["digest"] == load_delta(dense).digest
