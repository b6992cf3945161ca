"""Scaled rotary positions: their effect, the result that keeps them, and models without them."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.conftest import write_tiny
from tests.backends.families import write_family
from tests.backends.objectives_for_tests import SFT
from tests.backends.reference import example_batch
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.backends.rope import ROPE_KINDS, RopeSpec
from zoo.core.errors import GymWarning
from zoo.models.folder import model_positions, rope_scaling

pytestmark = pytest.mark.filterwarnings("ignore:.*no delta can be made of the result")

TEXT = [3, 141, 59, 26, 5, 35, 89, 79, 32, 38] * 20
"""200 tokens, for a model that reads 64."""


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("short"), tied=True, max_position_embeddings=64)


def spec(kind: str, tokens: int = 200) -> LoadSpec:
    return LoadSpec(train="full", dtype="f32", rope=RopeSpec(kind, tokens))


def plain_logits(folder: Path, config: Any = None) -> np.ndarray[Any, Any]:
    """Logits of transformers alone."""
    import torch
    from transformers import AutoModelForCausalLM

    given = {} if config is None else {"config": config}
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **given)
    with torch.no_grad():
        found: np.ndarray[Any, Any] = model(torch.tensor([TEXT])).logits[0].numpy()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROPE_KINDS)
def test_scaled_positions_are_those_of_transformers_and_change_the_logits(
    short: Path, kind: str
) -> None:
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(short)
    by_kind: dict[str, dict[str, object]] = {
        "linear": {},
        "yarn": {"original_max_position_embeddings": 64},
        "llama3": {
            "original_max_position_embeddings": 64,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    }
    # 200 tokens are more than 3 times 64
    config.rope_parameters |= {"rope_type": kind, "factor": 4.0, **by_kind[kind]}
    config.max_position_embeddings = 256
    found = load_backend("cpu").load(short, spec(kind)).logits(TEXT)
    np.testing.assert_allclose(found, plain_logits(short, config), atol=1e-4)
    assert np.abs(found - plain_logits(short)).max() > 0.1


@pytest.mark.slow
def test_the_result_of_a_training_is_read_with_the_same_positions(
    short: Path, tmp_path: Path
) -> None:
    policy = load_backend("cpu").load(short, spec("yarn"))
    policy.accumulate(SFT, example_batch(), key=0)
    policy.optimizer_step(1e-3, 1.0)
    trained = policy.logits(TEXT)
    policy.save_result(tmp_path / "result", base="short")
    assert model_positions(tmp_path / "result") == 256
    assert rope_scaling(tmp_path / "result") == "yarn by 4"
    np.testing.assert_allclose(plain_logits(tmp_path / "result"), trained, atol=1e-4)
    policy.reopen(tmp_path / "result")
    np.testing.assert_allclose(policy.logits(TEXT), trained, atol=1e-4)


@pytest.mark.slow
def test_a_result_of_which_no_delta_can_be_made_is_announced(short: Path) -> None:
    with pytest.warns(GymWarning, match="rope_scaling: no delta can be made of the result"):
        load_backend("cpu").load(short, spec("yarn"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", GymWarning)
        load_backend("cpu").load(short, LoadSpec(dtype="f32", rope=RopeSpec("yarn", 200)))


def test_the_reference_reads_with_the_same_positions(short: Path) -> None:
    policy = load_backend("cpu").load(short, spec("linear"))
    with policy.reference() as reference:
        np.testing.assert_allclose(reference.logits(TEXT), policy.logits(TEXT), atol=1e-5)


def test_a_text_that_the_model_reads_anyway_needs_no_scaling(short: Path) -> None:
    with raises("torch.cutoff_too_short", r"above the 64 tokens.*got 64"):
        load_backend("cpu").load(short, spec("yarn", 64))


@pytest.mark.parametrize("family", ["gpt2", "mamba", "openai-gpt"])
def test_a_model_without_rotary_positions_is_refused(tmp_path: Path, family: str) -> None:
    with raises("torch.cannot_scale_rope", "no rotary positions"):
        load_backend("cpu").load(write_family(tmp_path / "model", family), spec("yarn"))


def test_a_model_with_scaled_positions_is_refused(short: Path, tmp_path: Path) -> None:
    policy = load_backend("cpu").load(short, spec("yarn"))
    policy.save_result(tmp_path / "result", base="short")
    with raises("torch.cannot_scale_rope", "expected unscaled positions, got those of kind 'yarn'"):
        load_backend("cpu").load(tmp_path / "result", spec("linear", 1000))


@pytest.mark.parametrize("kind", ["dynamic", "longrope", ""])
def test_other_kinds_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="expected linear or yarn or llama3"):
        RopeSpec(kind, 100)


def test_an_adapter_could_not_record_the_scaling() -> None:
    with pytest.raises(ValueError, match="rope: expected none for an adapter"):
        LoadSpec(train=LoraSpec(), rope=RopeSpec("yarn", 100))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "unscaled"),
        ({"rope_scaling": None, "rope_theta": 1e6}, "unscaled"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, "unscaled"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "linear by 2"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 1.5}}, "yarn by 1.5"),
        ({"rope_parameters": ["yarn"]}, "unscaled"),
    ],
)
def test_the_scaling_is_read_from_old_and_new_configs(
    tmp_path: Path, config: dict[str, object], text: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert rope_scaling(tmp_path) == text
