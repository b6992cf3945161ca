"""Deltas of families whose files name, tie or fill their tensors in ways of their own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.breadth import families
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Stat
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.apply import apply_delta
from zoo.gym.delta.changes import encode_weight
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.create import create_delta
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.loadable import delta_model
from zoo.gym.delta.reading.weights import is_tied, open_weights


def scores(folder: Path, adapter: Path | None = None) -> Any:
    ids = np.arange(8, 20)[None]
    mask = np.ones_like(ids, bool)
    mask[:, 0] = False
    batch = Batch(ids, np.array([12]), mask)
    policy = load_backend("cpu").load(folder, LoadSpec(adapter=adapter))
    return policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


def changed_adapter(base: Path, folder: Path) -> Path:
    """Saves an adapter that changes every layer."""
    policy = load_backend("cpu").load(base, LoadSpec(train=LoraSpec(rank=2)))
    random = np.random.default_rng(0)
    policy.load_trained(
        {name: random.normal(0, 0.1, v.shape).astype("f4") for name, v in policy.trained()}
    )
    policy.save_result(folder, base="tiny")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "axk2", "mixtral"])
def test_an_adapter_of_renamed_layers_becomes_a_delta_and_back(name: str, tmp_path: Path) -> None:
    """The text part of a model for images; experts that the files hold one by one."""
    base, out = tmp_path / "base", tmp_path / "applied"
    families.build(name, base)
    adapter = changed_adapter(base, tmp_path / "lora")
    file = tmp_path / "delta.safetensors"
    create_delta(adapter, base=base, base_id="tiny", out=file, config=DeltaConfig(codec="f32"))
    apply_delta(file, base=base, out=out)
    with delta_model(load_delta(file), base) as rebuilt:
        chatted = scores(rebuilt.folder, rebuilt.adapter)
    expected = scores(base, adapter)
    assert np.abs(expected - scores(base)).max() > 0.01
    assert np.abs(chatted - expected).max() < 1e-4
    assert np.abs(scores(out) - expected).max() < 1e-4


def test_a_head_unlike_the_embedding_is_not_tied_whatever_the_config_says(tmp_path: Path) -> None:
    families.build("bigbird_pegasus", tmp_path)
    assert '"tie_word_embeddings": true' in (tmp_path / "config.json").read_text()
    assert not is_tied(open_weights(tmp_path))


def test_an_infinite_constant_that_stays_is_no_change(tmp_path: Path) -> None:
    for name in ("base", "tuned"):
        save_file({"limit": np.array([np.inf], "f4")}, tmp_path / f"{name}.safetensors")
    base, tuned = (open_weights(tmp_path / f"{name}.safetensors") for name in ("base", "tuned"))
    assert encode_weight(base, tuned, "limit", Dense()) is None
