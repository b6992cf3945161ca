"""A prefix that is read once: the same logits and answers, fewer tokens, one copy of its keys."""

import json
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


@pytest.fixture
def policy(engine: str) -> Any:
    return load_backend(engine).load(pico_folder(), LoadSpec(dtype="f32"))


def read_tokens(policy: Any, work: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many tokens the model reads in a call."""
    seen: list[int] = []
    if hasattr(policy, "language"):
        hidden = policy.language.hidden

        def counted(ids_BT: Any, cache: Any = None) -> Any:
            seen.append(ids_BT.size)
            return hidden(ids_BT, cache)

        with monkeypatch.context() as patched:
            patched.setattr(policy.language, "hidden", counted)
            work()
        return sum(seen)

    def count(_: object, given: Any) -> None:
        seen.append(given[0].numel())

    hook = policy.module.model.get_input_embeddings().register_forward_pre_hook(count)
    try:
        work()
    finally:
        hook.remove()
    return sum(seen)


@pytest.mark.slow
def test_answers_after_a_kept_prefix_are_those_of_whole_prompts(policy: Any) -> None:
    kept = policy.read_prefix(SHARED)
    assert kept is not None
    ours = policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    whole = policy.generate(PROMPTS, SAMPLING, keys=range(4))
    assert [one.ids for one in ours] == [one.ids for one in whole]
    again = policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    assert again == ours  # a batch leaves the prefix as it was


@pytest.mark.slow
@pytest.mark.mlx
def test_a_long_rest_is_read_in_parts_on_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx_lm", reason="MLX is not installed")
    from zoo.backends.mlx.generation import generate

    policy: Any = load_backend("mlx").load(pico_folder(), LoadSpec(dtype="f32"))
    whole = policy.generate(PROMPTS, SAMPLING, keys=range(4))
    monkeypatch.setattr(generate, "PREFILL_TOKENS", 2)  # rests of 3, 1, 1 and 5 tokens
    kept = policy.read_prefix(SHARED)
    ours = policy.generate(PROMPTS, SAMPLING, keys=range(4), prefix=kept)
    assert [one.ids for one in ours] == [one.ids for one in whole]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cpu"])
def test_logits_after_a_kept_prefix_differ_by_rounding_alone(policy: Any) -> None:
    kept = policy.read_prefix(SHARED)
    ours, whole = Decoding(policy.module, RESTS, kept.layers), Decoding(policy.module, PROMPTS)
    ids_B = torch.tensor([20, 21, 22, 23])
    with torch.no_grad():
        found = torch.cat([ours.read_prompts(), ours.read(ids_B), ours.read(ids_B)])
        expected = torch.cat([whole.read_prompts(), whole.read(ids_B), whole.read(ids_B)])
    assert float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


@pytest.mark.slow
def test_the_prefix_is_read_once_for_all_rows_and_calls(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Sampling(1)
    policy.generate(PROMPTS, one, keys=range(4))  # tests the model's abilities
    policy.read_prefix(SHARED)
    assert read_tokens(policy, lambda: policy.read_prefix(SHARED), monkeypatch) == 40
    kept = policy.read_prefix(SHARED)

    def answer() -> None:
        policy.generate(PROMPTS, one, keys=range(4), prefix=kept)

    # padded to five tokens, and equal prompts once: 3 x 5
    assert read_tokens(policy, answer, monkeypatch) == 15
    config = json.loads((pico_folder() / "config.json").read_text())
    a_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    assert kept.kept_bytes == 40 * a_token * 4


@pytest.mark.slow
def test_a_prefix_of_other_weights_or_prompts_is_refused(policy: Any, engine: str) -> None:
    trained: Any = load_backend(engine).load(pico_folder(), LoadSpec(train=LoraSpec(rank=2)))
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
