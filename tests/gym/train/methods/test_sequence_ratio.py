"""The ratio of an answer in GSPO, and that of a token, when a router decides otherwise later.

The router of a mixture of experts may send a token to other experts in the update than in the
rollout: the ratio of policy to old policy then is noise, which the mean over an answer averages out
(arXiv:2507.18071, section 5.3).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.breadth import families
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, Sampling, Stat
from zoo.gym.objectives.constants import WINDOW_ROWS, WINDOW_TOKENS
from zoo.gym.objectives.grpo import ADVANTAGES, OLD_LOGPROBS, GroupRelativeLoss

ANSWERS, LENGTH, NOISE = 16, 64, 0.1
GSPO = {"loss_type": "grpo", "level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4}


@contextmanager
def noisy_routers(model: Any) -> Iterator[None]:
    """Adds noise to what every router reads."""
    random = torch.Generator().manual_seed(0)

    def move(_: object, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        noise = torch.randn(given[0].shape, generator=random) * given[0].std()
        return (given[0] + NOISE * noise, *given[1:])

    gates = [part for name, part in model.named_modules() if name.endswith("mlp.gate")]
    hooks = [gate.register_forward_pre_hook(move) for gate in gates]
    assert hooks
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def rollouts(policy: Any) -> Batch:
    """Returns sampled answers to four prompts, four to each, with the log-probabilities of then."""
    random = np.random.default_rng(1)
    prompts = [random.integers(families.FIRST_ID, families.LAST_ID, 6).tolist() for _ in range(4)]
    asked = [prompt for prompt in prompts for _ in range(ANSWERS // 4)]
    sampling = Sampling(max_new_tokens=LENGTH, temperature=1.0)
    answers = policy.generate(asked, sampling, keys=range(ANSWERS))
    ids_BT = np.array([prompt + one.ids for prompt, one in zip(asked, answers, strict=True)])
    old_BT = np.array([[0.0] * 6 + one.logprobs for one in answers], np.float32)
    mask_BT = np.arange(6 + LENGTH)[None].repeat(ANSWERS, 0) >= 6
    return Batch(
        ids_BT,
        np.full(ANSWERS, 6 + LENGTH),
        mask_BT,
        {OLD_LOGPROBS: old_BT, ADVANTAGES: random.choice([-1.0, 1.0], ANSWERS).astype(np.float32)},
        constants={WINDOW_TOKENS: float(mask_BT.sum()), WINDOW_ROWS: float(ANSWERS)},
    )


@pytest.mark.slow
def test_the_ratio_of_an_answer_varies_less_than_that_of_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    families.build("qwen3_moe", tmp_path / "base")
    policy: Any = load_backend("cpu").load(tmp_path / "base", LoadSpec(train="full", dtype="f32"))
    batch, needs = rollouts(policy), frozenset({Stat.LOGPROBS})
    same_BT = policy.score(batch, needs)[Stat.LOGPROBS] - batch.extras[OLD_LOGPROBS]
    assert np.abs(same_BT).max() < 1e-3  # without noise it is the old policy
    with noisy_routers(policy.module.model):
        apart_BT = policy.score(batch, needs)[Stat.LOGPROBS] - batch.extras[OLD_LOGPROBS]
        token = policy.accumulate(GroupRelativeLoss(), batch, key=0)
        sequence = policy.accumulate(GroupRelativeLoss(**GSPO), batch, key=0)  # type: ignore[arg-type]
    apart_BT = apart_BT[:, 6:]
    of_tokens, of_answers = np.exp(apart_BT), np.exp(apart_BT.mean(1))
    with capsys.disabled():
        print(
            f"\nvariance of the ratio: token {of_tokens.var():.2e}, answer {of_answers.var():.2e}, "
            f"share {of_answers.var() / of_tokens.var():.3f}; clipped: token, epsilon 0.2: "
            f"{token['clip_low'] + token['clip_high']:.3f}, answer, epsilon 3e-4 and 4e-4: "
            f"{sequence['clip_low'] + sequence['clip_high']:.3f}"
        )
    assert of_tokens.var() > 1e-3
    assert of_answers.var() <= 0.1 * of_tokens.var()
