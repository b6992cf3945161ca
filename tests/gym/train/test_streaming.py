"""Runs whose base stays in its files give the weights of any other run."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.codes import raises
from zoo.gym import TrainConfig, run_training


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    chats = [{"prompt": f"{n} + 1", "completion": f"{n + 1}."} for n in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in chats))
    return path


def config(rows: Path, **settings: object) -> TrainConfig:
    given: dict[str, object] = {"dtype": "bf16-widened", "max_steps": 2, **settings}
    return TrainConfig(model_name_or_path="zen-pico", dataset=(str(rows),), **given)


@pytest.mark.slow
def test_a_run_with_streamed_layers_learns_the_same_weights(rows: Path) -> None:
    results = [
        run_training(config(rows, stream_layers=streams, gradient_checkpointing=True))
        for streams in (True, False)
    ]
    streamed, plain = (load_file(r.model / "adapter_model.safetensors") for r in results)
    assert streamed.keys() == plain.keys()
    for name, weight in streamed.items():  # a layer in memory is one operation with its adapter
        np.testing.assert_allclose(weight, plain[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_activations_are_recomputed_unless_that_is_refused(rows: Path) -> None:
    with raises("config.invalid", "expected true with stream_layers: activations would"):
        config(rows, stream_layers=True, gradient_checkpointing=False)


def test_what_changes_the_base_in_memory_is_refused(rows: Path) -> None:
    with raises("config.invalid", "quantization_bit: cannot be with stream_layers"):
        config(rows, stream_layers=True, quantization_bit=4)


@pytest.mark.parametrize("kind", ["full", "freeze"])
def test_a_base_that_changes_is_refused(rows: Path, kind: str) -> None:
    message = f"stream_layers: expected an adapter, whose base does not change, got {kind}"
    with raises("config.invalid", message):
        config(rows, stream_layers=True, finetuning_type=kind, dtype="auto")
