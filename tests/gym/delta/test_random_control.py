"""Random signs: the delta's sizes without its knowledge."""

from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import create_delta, difference, load_delta, random_signs
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import open_weights

Q = "model.layers.0.self_attn.q_proj.weight"


def test_scales_stay_and_signs_fall_by_chance(dense: Path, tmp_path: Path) -> None:
    control = random_signs(dense, tmp_path / "c.safetensors", 7)
    signs = []
    for tensor in (tensor for tensor in control.header.tensors if tensor.terms):
        kept, drawn = difference(load_delta(dense), tensor), difference(control, tensor)
        np.testing.assert_array_equal(np.abs(kept), np.abs(drawn))
        signs.append((np.sign(kept) == np.sign(drawn)).ravel())
    agreement = np.concatenate(signs)
    # 4,600 fair coins: five standard deviations are 0.04
    assert len(agreement) > 4000
    assert abs(agreement.mean() - 0.5) < 0.04


def test_raw_terms_are_left_out(dense: Path, tmp_path: Path) -> None:
    control = random_signs(dense, tmp_path / "c.safetensors", 7)
    for tensor in control.header.tensors:
        kinds = [term.kind for term in tensor.terms]
        assert kinds == ([] if tensor.name.endswith("norm.weight") else ["sign"])
    assert not any(name.endswith(".raw") for name in control.parts)


def test_factors_keep_their_size_and_lose_their_direction(lowrank: Path, tmp_path: Path) -> None:
    control = random_signs(lowrank, tmp_path / "c.safetensors", 7)
    delta = load_delta(lowrank)
    assert control.payload_bytes == delta.payload_bytes
    kept, drawn = (
        np.concatenate([difference(file, tensor).ravel() for tensor in file.header.tensors])
        for file in (delta, control)
    )
    assert np.linalg.norm(drawn) / np.linalg.norm(kept) == pytest.approx(1, abs=0.25)
    assert abs(np.vdot(kept, drawn)) < 0.2 * np.vdot(kept, kept)


@pytest.mark.parametrize("kind", ["dense", "lowrank"])
def test_a_seed_gives_one_file_and_another_seed_another(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    files = [tmp_path / name for name in "abc"]
    for file, seed in zip(files, (7, 7, 8), strict=True):
        control = random_signs(path, file, seed)
    payload = slice(-control.payload_bytes, None)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes()[payload] != files[2].read_bytes()[payload]


def test_the_control_names_what_it_controls(dense: Path, tmp_path: Path) -> None:
    control = random_signs(dense, tmp_path / "c.safetensors", 7)
    recipe = control.header.recipe
    assert (recipe["control"], recipe["of"]) == ("random-signs", load_delta(dense).digest)
    assert (control.header.seed, control.header.quality) == (7, None)
    assert control.header.base == load_delta(dense).header.base


def test_the_control_fits_the_same_base(dense: Path, base: Path, tmp_path: Path) -> None:
    control = random_signs(dense, tmp_path / "c.safetensors", 7)
    verify_base(control, open_weights(base))


def test_bits_past_the_end_of_a_row_stay_zero(tmp_path: Path) -> None:
    shapes = {"w": (5, 11)}
    base = disk.write_model(tmp_path / "base", disk.random_arrays(shapes, 0))
    tuned = disk.write_model(tmp_path / "tuned", disk.random_arrays(shapes, 1))
    made = create_delta(tuned, base=base, base_id="b", out=tmp_path / "d.safetensors").file
    control = random_signs(made, tmp_path / "c.safetensors", 7)
    info = control.parts["w.sign"]
    plane = np.frombuffer(control.path.read_bytes()[info.start : info.stop], np.uint8)
    assert not (plane.reshape(5, 2)[:, 1] >> 3).any()


def test_a_delta_of_vectors_alone_has_no_control(base: Path, tmp_path: Path) -> None:
    arrays = disk.random_arrays(disk.qwen3_shapes(), 0)
    plain = disk.write_model(tmp_path / "base", arrays)
    name = "model.norm.weight"
    tuned = disk.write_model(tmp_path / "tuned", {**arrays, name: arrays[name] + 1})
    made = create_delta(tuned, base=plain, base_id="b", out=tmp_path / "d.safetensors").file
    with raises("delta.no_control", "got only raw terms"):
        random_signs(made, tmp_path / "c.safetensors", 7)
