"""Makes ppo.json: figures of the PPO trainer in TRL 1.10.0, which later versions removed.

usage: pip download trl==1.10.0 --no-deps
       python -m tests.gym.objectives.golden.make_ppo trl-1.10.0-py3-none-any.whl

The statements between two of its comments are run as they are, on random numbers. All answers have
the full length, because for a shorter one that trainer also learns the value after its end.
"""

import json
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

FILE = "trl/experimental/ppo/ppo_trainer.py"
ROWS, WIDTH = 3, 11
"""33 values: it divides 33 by 32 in float32, which is exact."""

CASES: list[dict[str, Any]] = [
    {"kl_estimator": "k1", "whiten_rewards": False},
    {"kl_estimator": "k3", "whiten_rewards": False},
    {"kl_estimator": "k1", "whiten_rewards": True},
]


def between(source: str, start: str, stop: str) -> str:
    """Returns the statements from a line to the one before another, without indentation."""
    lines = source.splitlines()
    first = next(i for i, line in enumerate(lines) if start in line)
    last = next(i for i, line in enumerate(lines[first:], first) if stop in line)
    return textwrap.dedent("\n".join(lines[first:last]))


def functions(source: str) -> dict[str, Callable[..., Any]]:
    """Returns its masked mean, variance and whitening."""
    found: dict[str, Any] = {"torch": torch}
    for name in ("masked_mean", "masked_var", "masked_whiten"):
        after = source.index(f"def {name}")
        exec(source[after : source.index("\n\n\n", after)], found)
    return found


def case(source: str, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng(seed)

    def normal(*size: int) -> torch.Tensor:
        return torch.from_numpy(random.normal(size=size))

    logprobs, values = normal(ROWS, WIDTH) - 2, normal(ROWS, WIDTH)
    given = {
        "logprobs": logprobs,
        "ref_logprobs": logprobs + 0.3 * normal(ROWS, WIDTH),
        "values": values,
        "scores": normal(ROWS),
        "new_logprobs": (logprobs + 0.3 * normal(ROWS, WIDTH)).requires_grad_(),
        "vpred": (values + 0.3 * normal(ROWS, WIDTH)).requires_grad_(),
    }
    nothing = torch.zeros(ROWS, WIDTH, dtype=torch.bool)
    args = SimpleNamespace(
        kl_coef=0.05, gamma=0.9, lam=0.8, cliprange=0.2, cliprange_value=0.2, vf_coef=0.1, **options
    )
    names: dict[str, Any] = {
        **functions(source),
        **given,
        "args": args,
        "responses": nothing,
        "padding_mask": nothing,
        "padding_mask_p1": nothing,
        "sequence_lengths": torch.full((ROWS,), WIDTH - 1),
        "sequence_lengths_p1": torch.full((ROWS,), WIDTH),
        "empty_cache": lambda: None,
        "micro_batch_inds": slice(None),
        "mb_values": values,
        "mb_logprobs": logprobs,
    }
    exec(between(source, "# 4. compute rewards", "# Do multiple epochs of PPO"), names)
    names |= {"mb_advantage": names["advantages"], "mb_return": names["returns"]}
    exec(between(source, "vpredclipped = torch.clamp(", "accelerator.backward(loss)"), names)
    names["loss"].backward()
    wanted = {key: names[key] for key in ("advantages", "returns", "loss", "vf_loss")}
    wanted |= {f"d_{key}": given[key].grad for key in ("new_logprobs", "vpred")}
    return {
        "options": options,
        "given": {key: value.tolist() for key, value in given.items()},
        "wanted": {key: value.tolist() for key, value in wanted.items()},
    }


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as opened:
        source = opened.read(FILE).decode()
    found = [case(source, seed, options) for seed, options in enumerate(CASES)]
    (Path(__file__).parent / "ppo.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
