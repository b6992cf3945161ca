"""A base is the same only with its config and with the tensors that a delta leaves as they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.forge import forge
from zoo.core import digest
from zoo.gym.delta import (
    apply_delta,
    as_text,
    check_delta,
    create_delta,
    delta_model,
    load_delta,
    random_signs,
)
from zoo.gym.delta.file.header import WHOLE_BASE_KEY
from zoo.gym.errors import GymWarning, InputError

SHAPES = disk.qwen3_shapes()
EMBEDDING, NORM, Q = (
    "model.embed_tokens.weight",
    "model.norm.weight",
    "model.layers.0.self_attn.q_proj.weight",
)


def base_with(folder: Path, scales: dict[str, float], **config: object) -> Path:
    """Writes the base with some tensors scaled and some settings replaced."""
    arrays = disk.random_arrays(SHAPES, 0)
    scaled = {name: np.float32(factor) * arrays[name] for name, factor in scales.items()}
    return disk.write_model(folder, arrays | scaled, "bfloat16", **config)


OTHER_TENSORS = {"embedding": {EMBEDDING: 0.3}, "norm": {NORM: 2.0}}
OTHER_SETTINGS: dict[str, dict[str, object]] = {
    "rope_parameters.rope_theta": {"rope_theta": 1e6},
    "rope_parameters.factor": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "norm_eps": {"rms_norm_eps": 1e-3},
    "num_attention_heads": {"num_attention_heads": 1},
    "tie_word_embeddings": {"tie_word_embeddings": False},
    "hidden_act": {"hidden_act": "gelu"},
    "sliding_window": {"sliding_window": 4},
}


@pytest.mark.parametrize("name", OTHER_TENSORS)
def test_a_base_with_another_unlisted_tensor_is_refused(
    name: str, lowrank: Path, tmp_path: Path
) -> None:
    other = base_with(tmp_path / "other", OTHER_TENSORS[name])
    with raises("delta.wrong_base", r"got 'other', whose tensors .* differ: expected"):
        apply_delta(lowrank, base=other, out=tmp_path / "out")


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_a_base_with_another_setting_is_refused_by_its_name(
    name: str, lowrank: Path, tmp_path: Path
) -> None:
    other = base_with(tmp_path / "other", {}, **OTHER_SETTINGS[name])
    with raises("delta.wrong_base", f"whose config differs: .*'{name}': expected"):
        apply_delta(lowrank, base=other, out=tmp_path / "out")


@pytest.mark.parametrize("kind", ["lowrank", "dense"])
def test_check_and_chat_refuse_it_as_apply_does(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file: Path = request.getfixturevalue(kind)
    other = base_with(tmp_path / "other", {}, rope_theta=1e6)
    check = check_delta(file, base=other)[-1]
    assert (check.name, check.ok) == ("identity", False)
    with (
        pytest.raises(InputError, match=r"rope_theta': expected 10000\.0, got 1000000\.0"),
        delta_model(load_delta(file), other),
    ):
        pass


def test_force_accepts_it_and_the_report_says_so(lowrank: Path, base: Path, tmp_path: Path) -> None:
    other = base_with(tmp_path / "other", OTHER_TENSORS["norm"])
    report = apply_delta(lowrank, base=other, out=tmp_path / "out", force=True)
    said = report.as_json()["other_base"]
    assert said == report.other_base
    assert "tensors that the delta leaves as they are differ" in said
    right = apply_delta(lowrank, base=base, out=tmp_path / "right", force=True)
    assert right.as_json()["other_base"] is None


def test_force_does_not_accept_another_listed_tensor(lowrank: Path, tmp_path: Path) -> None:
    other = base_with(tmp_path / "other", {Q: 2.0})
    with raises("delta.wrong_base", "belongs to another base"):
        apply_delta(lowrank, base=other, out=tmp_path / "out", force=True)


def _with_other_names(folder: Path) -> None:
    base_with(folder, {}, transformers_version="4.1", torch_dtype="float16", _name_or_path="x")


def _with_a_stored_head(folder: Path) -> None:
    arrays = disk.random_arrays(SHAPES, 0)
    disk.write_model(folder, arrays | {"lm_head.weight": arrays[EMBEDDING]}, "bfloat16")


def _with_a_constant(folder: Path) -> None:
    arrays = disk.random_arrays(SHAPES, 0)
    constant = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    disk.write_model(folder, arrays | constant, "bfloat16")


def _in_shards(folder: Path) -> None:
    disk.write_shards(folder, disk.random_arrays(SHAPES, 0), ("bfloat16", "bfloat16"))


def _with_defaults_written_out(folder: Path) -> None:
    base_with(folder, {}, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


@pytest.mark.parametrize(
    "write",
    [
        *(_with_other_names, _with_a_stored_head, _with_a_constant, _in_shards),
        _with_defaults_written_out,
    ],
)
def test_the_same_base_in_another_folder_is_accepted(
    write: Callable[[Path], None], lowrank: Path, tmp_path: Path
) -> None:
    write(tmp_path / "same")
    check = check_delta(lowrank, base=tmp_path / "same")[4]
    assert (check.name, check.ok) == ("identity", True)
    assert "its config and all tensors" in check.detail


def test_a_tie_that_the_config_leaves_open_is_that_of_the_files(
    adapter: Path, tmp_path: Path
) -> None:
    """Without a stored head, the embedding is the head: transformers may write that out."""
    base = base_with(tmp_path / "open", {}, tie_word_embeddings=None)
    out = tmp_path / "d.safetensors"
    create_delta(adapter, base=base, base_id="open", out=out)
    assert check_delta(out, base=base_with(tmp_path / "tied", {}))[4].ok


def _forget(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    del header["recipe"][WHOLE_BASE_KEY]


def test_an_older_delta_is_accepted_with_a_warning(lowrank: Path, tmp_path: Path) -> None:
    older = forge(lowrank, tmp_path / "older.safetensors", _forget)
    other = base_with(tmp_path / "other", OTHER_TENSORS["norm"])
    with pytest.warns(GymWarning, match="does not record the config") as caught:
        check = check_delta(older, base=other)[4]
    assert len(caught) == 1
    assert (check.name, check.ok) == ("identity", True)
    assert "only the tensors that it lists" in check.detail


def test_a_result_of_a_round_has_no_record_and_no_warning(
    lowrank: Path, base: Path, tmp_path: Path
) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        _forget(file, header, data)
        header["tool"] = "zoo-gym round 1"

    result = forge(lowrank, tmp_path / "result.safetensors", edit)
    assert check_delta(result, base=base)[4].ok


@pytest.mark.parametrize("record", [{}, {"untouched": "x", "settings": {}}, "x"])
def test_a_malformed_record_is_refused(record: object, lowrank: Path, tmp_path: Path) -> None:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        header["recipe"][WHOLE_BASE_KEY] = record

    with raises("delta.bad_header", "header: "):
        load_delta(forge(lowrank, tmp_path / "forged.safetensors", edit))


def test_a_delta_that_lists_every_tensor_records_the_hash_of_nothing(dense: Path) -> None:
    whole = load_delta(dense).header.whole_base
    assert whole is not None
    assert whole.untouched == digest(b"")


def test_the_record_is_no_setting_and_needs_no_newer_version(lowrank: Path) -> None:
    delta = load_delta(lowrank)
    assert delta.header.version == "1"
    assert "recipe    0 settings" in as_text(delta)
    assert json.loads(json.dumps(delta.header.content()))["recipe"].keys() == {WHOLE_BASE_KEY}


def test_a_control_belongs_to_the_same_base(lowrank: Path, tmp_path: Path) -> None:
    control = random_signs(lowrank, tmp_path / "c.safetensors", 7)
    assert control.header.whole_base == load_delta(lowrank).header.whole_base
