"""Answers of families that pad, remember or count positions in ways of their own."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.breadth import families
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Sampling

PROMPTS = [[9, 21, 33, 45], [50, 61, 72, 83, 94, 15, 26, 37, 48], [100, 11, 22, 33, 44, 55]]
GREEDY = Sampling(max_new_tokens=5)


@pytest.fixture(scope="module", params=["blenderbot", "git", "mamba2", "openai-gpt", "rwkv"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Positions counted from the padding; a mask of its own; a state; no cache; one of its own."""
    made: Path = tmp_path_factory.mktemp(request.param)
    families.build(request.param, made)
    return made


def greedy(model: Any, prompt: list[int]) -> list[int]:
    """Reads everything again for each token, as the definition says."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(GREEDY.max_new_tokens):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.slow
def test_prompts_of_different_lengths_are_answered_as_alone(folder: Path) -> None:
    policy: Any = load_backend("cpu").load(folder)
    found = policy.generate(PROMPTS, GREEDY, keys=[0, 1, 2])
    assert [one.ids for one in found] == [greedy(policy.module.model, p) for p in PROMPTS]


def test_a_model_that_transformers_cannot_run_with_a_cache_is_refused(tmp_path: Path) -> None:
    families.build("xlstm", tmp_path)
    policy = load_backend("cpu").load(tmp_path)
    with raises("models.library_refused", "xLSTMForCausalLM cannot be sampled: matC_old"):
        policy.generate(PROMPTS[:1], GREEDY, keys=[0])


@pytest.mark.slow
def test_equal_lengths_are_answered_together_as_alone(folder: Path) -> None:
    policy: Any = load_backend("cpu").load(folder)
    prompts = [prompt[:4] for prompt in PROMPTS]
    found = policy.generate(prompts, GREEDY, keys=[0, 1, 2])
    assert [one.ids for one in found] == [greedy(policy.module.model, p) for p in prompts]
