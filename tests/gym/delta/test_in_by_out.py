"""Deltas of models that store their layers as [in, out], with and without the part's name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from tests.backends.families import write_family
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy, Stat
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import apply_delta, create_delta, delta_model, load_delta

IDS = np.arange(10, 30)[None]


def logprobs(policy: Policy) -> NDArray[np.float32]:
    batch = Batch(IDS, np.array([20]), np.arange(20)[None] > 0)
    return policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


@pytest.fixture(params=["transformer.", ""])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A GPT-2 as transformers writes it, and as the hub has it."""
    folder = write_family(tmp_path / "base", "gpt2")
    tensors: dict[str, Any] = load_file(folder / "model.safetensors")
    named = {request.param + name.removeprefix("transformer."): t for name, t in tensors.items()}
    named["h.0.attn.bias"] = torch.ones(1, 1, 64, 64).tril()  # a mask, as old files hold
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.slow
def test_an_adapter_becomes_a_delta_and_the_same_model_again(base: Path, tmp_path: Path) -> None:
    policy = load_backend("cpu").load(base, LoadSpec(train=LoraSpec(rank=4, alpha=8.0)))
    random = np.random.default_rng(0)
    policy.load_trained(
        {n: random.normal(0, 0.2, v.shape).astype(np.float32) for n, v in policy.trained()}
    )
    policy.save_result(tmp_path / "lora", base="b")
    out, exact = tmp_path / "d.safetensors", DeltaConfig(codec="f32")
    create_delta(tmp_path / "lora", base=base, base_id="b", out=out, config=exact)
    expected = logprobs(policy)
    assert np.abs(expected - logprobs(load_backend("cpu").load(base))).max() > 0.1
    folder = apply_delta(out, base=base, out=tmp_path / "model").folder
    np.testing.assert_allclose(logprobs(load_backend("cpu").load(folder)), expected, atol=1e-4)
    with delta_model(load_delta(out), base) as model:
        served = load_backend("cpu").load(model.folder, LoadSpec(adapter=model.adapter))
    np.testing.assert_allclose(logprobs(served), expected, atol=1e-4)


@pytest.mark.slow
def test_a_full_fine_tune_becomes_a_delta_of_the_base_as_its_files_name_it(
    base: Path, tmp_path: Path
) -> None:
    policy = load_backend("cpu").load(base, LoadSpec(train="full"))
    policy.load_trained({name: value * np.float32(1.1) for name, value in policy.trained()})
    policy.save_result(tmp_path / "full", base="b")
    out, exact = tmp_path / "d.safetensors", DeltaConfig(codec="sparse")
    create_delta(tmp_path / "full", base=base, base_id="b", out=out, config=exact)
    folder = apply_delta(out, base=base, out=tmp_path / "model").folder
    np.testing.assert_array_equal(logprobs(load_backend("cpu").load(folder)), logprobs(policy))
