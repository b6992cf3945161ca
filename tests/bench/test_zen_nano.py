"""The writer of models in their true geometry."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.zen_nano import LAYOUTS, specs, write_model, write_weights
from zoo.core import read_header
from zoo.models.folder import count_parameters
from zoo.models.registry import Entry, registry


def entry(alias: str) -> Entry:
    return next(entry for entry in registry() if entry.alias == alias)


def small(alias: str) -> Entry:
    """A model's way of being stored, in a small shape."""
    found = entry(alias)
    shape = replace(found.geometry, layers=2, vocab=64, hidden=32, ffn=48, head_dim=8)
    return replace(found, geometry=shape)


@pytest.mark.parametrize(
    ("alias", "parameters", "repeated"),
    # a repeated head is the embedding once more: 151,936 x 1,024
    [("zen-nano", 596_049_920, 151_936 * 1024), ("zen-eco", 4_022_468_096, 0)],
)
def test_every_weight_of_the_hubs_model_is_there(
    alias: str, parameters: int, repeated: int
) -> None:
    found = specs(entry(alias).geometry, repeated_head=LAYOUTS[alias][1])
    assert sum(spec.size_bytes for spec in found) == 2 * (parameters + repeated)


def test_shards_hold_what_their_index_says(tmp_path: Path) -> None:
    tensors = list(specs(small("zen-eco").geometry, repeated_head=False))
    write_weights(tmp_path, tensors, 3, seed=0)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    held = {
        name: file.name
        for file in tmp_path.glob("*.safetensors")
        for name in read_header(file).tensors
    }
    assert held == index["weight_map"]
    assert len(set(held.values())) == 3


@pytest.mark.parametrize("alias", sorted(LAYOUTS))
def test_a_written_model_loads_with_its_own_weights_alone(tmp_path: Path, alias: str) -> None:
    from zoo.backends import load_backend

    found = small(alias)
    folder = write_model(tmp_path, found, tokenizer=None, seed=0)
    assert count_parameters(folder) == found.geometry.parameters()
    assert load_backend("cpu").load(folder).parameter_count() == found.geometry.parameters()
