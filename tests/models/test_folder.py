"""What a model folder says of itself."""

import json
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.models import pico_folder
from zoo.models.folder import count_parameters, model_positions


def write_model(folder: Path, config: str) -> None:
    """Writes a model of an embedding and the same head again, 2 x 3 each."""
    info = {
        name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [start, start + 24]}
        for name, start in (("lm_head.weight", 0), ("model.embed_tokens.weight", 24))
    }
    header = json.dumps(info).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(48)
    (folder / "model.safetensors").write_bytes(content)
    (folder / "config.json").write_text(config)


@pytest.mark.parametrize(("tied", "parameters"), [(True, 6), (False, 12)])
def test_a_tied_head_that_is_stored_again_counts_once(
    tmp_path: Path, *, tied: bool, parameters: int
) -> None:
    write_model(tmp_path, json.dumps({"tie_word_embeddings": tied}))
    assert count_parameters(tmp_path) == parameters


def test_zen_pico_is_counted_from_its_files() -> None:
    assert (count_parameters(pico_folder()), model_positions(pico_folder())) == (821_632, 512)


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        ({"max_position_embeddings": 64}, 64),
        ({"text_config": {"max_position_embeddings": 32}}, 32),
        ({"max_position_embeddings": 0}, None),
        ({}, None),
    ],
)
def test_the_longest_row_is_in_the_config(
    tmp_path: Path, config: dict[str, object], positions: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert model_positions(tmp_path) == positions


@pytest.mark.parametrize("config", ["", "[]", "{", "[" * 9_999])
def test_a_broken_config_is_our_error(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with raises("models.bad_json", r"config\.json: expected a JSON object, got a"):
        model_positions(tmp_path)
