"""A prefix that is read once: the same logits and answers, fewer tokens, one copy of its keys."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.breadth import families
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Sampling
from zoo.backends.torch.generation.decoding import Decoding
from zoo.backends.torch.generation.prefix import prefix_refusal
from zoo.models import pico_folder

SHARED = [(7 * place + 3) % 250 for place in range(40)]
RESTS = [[5, 6, 7], [9], [9], [11, 12, 13, 14, 15]]
PROMPTS = [SHARED + rest for rest in RESTS]
SAMPLING = Sampling(12, temperature=1.0)


@pytest.fixture(scope="module")
def policy() -> Any:
    return load_backend("cpu").load(pico_folder(), LoadSpec(dtype="f32"))


def read_tokens(policy: Any, work: Any) -> int:
    """Returns how many tokens the model reads in a call."""
    seen: list[int] = []
    embedding = policy.module.model.get_input_embeddings()
    hook = embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0].numel()))
    try:
        work()
    finally:
        hook.remove()
    return sum(seen)


def test_answers_after_a_kept_prefix_are_those_of_whole_prompts(policy: Any) -> None:
    kept = policy.read_prefix(SHARED)
    ours = policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    whole = policy.generate(PROMPTS, SAMPLING, keys=range(4))
    assert [one.ids for one in ours] == [one.ids for one in whole]
    again = policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    assert again == ours  # a batch leaves the prefix as it was


def test_logits_after_a_kept_prefix_differ_by_rounding_alone(policy: Any) -> None:
    kept = policy.read_prefix(SHARED)
    ours, whole = Decoding(policy.module, RESTS, kept.layers), Decoding(policy.module, PROMPTS)
    ids_B = torch.tensor([20, 21, 22, 23])
    with torch.no_grad():
        found = torch.cat([ours.read_prompts(), ours.read(ids_B), ours.read(ids_B)])
        expected = torch.cat([whole.read_prompts(), whole.read(ids_B), whole.read(ids_B)])
    assert float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


def test_the_prefix_is_read_once_for_all_rows_and_calls(policy: Any) -> None:
    one = Sampling(1)
    policy.read_prefix(SHARED)  # tests the model's abilities
    assert read_tokens(policy, lambda: policy.read_prefix(SHARED)) == 40
    kept = policy.read_prefix(SHARED)
    # padded to five tokens, and equal prompts once: 3 x 5
    read = read_tokens(policy, lambda: policy.generate(PROMPTS, one, keys=range(4), prefix=kept))
    assert read == 15
    config = policy.module.model.config
    a_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    assert kept.kept_bytes == 40 * a_token


def test_a_prefix_of_other_weights_or_prompts_is_refused(policy: Any) -> None:
    trained: Any = load_backend("cpu").load(pico_folder(), LoadSpec(train=LoraSpec(rank=2)))
    kept = trained.read_prefix(SHARED)
    with pytest.raises(ValueError, match="what this model has read"):
        policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    with pytest.raises(ValueError, match="prompts that begin with it"):
        trained.generate([SHARED, [1, *SHARED]], SAMPLING, keys=range(2), prefix=kept)
    trained.load_trained({name: value + 0.01 for name, value in trained.trained()})
    with pytest.raises(ValueError, match="the same weights"):
        trained.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)


@pytest.mark.parametrize("name", ["mamba2", "gemma2"])
def test_what_keeps_another_state_reads_prompts_in_full(name: str, tmp_path: Path) -> None:
    families.build(name, tmp_path)
    policy: Any = load_backend("cpu").load(tmp_path)
    assert policy.read_prefix(SHARED[:8]) is None
    assert prefix_refusal(policy.module)
