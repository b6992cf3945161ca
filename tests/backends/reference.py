"""The oracle: full logits and ordinary autograd, on the CPU, in float32."""

from typing import Any

import numpy as np
import torch

from zoo.backends.base import Batch, Objective, Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.backends.torch.policy import TorchPolicy


def example_batch(rows: int = 6, width: int = 24, seed: int = 0) -> Batch:
    """Rows of different lengths, one of them with nothing to learn."""
    random = np.random.default_rng(seed)
    lengths = random.integers(8, width + 1, rows)
    places = np.arange(width)[None]
    mask = (places >= 5) & (places < lengths[:, None]) & (random.random((rows, width)) < 0.8)
    mask[rows - 2] = False
    ref, returns = random.standard_normal((2, rows, width)).astype(np.float32)
    return Batch(
        ids_BT=random.integers(3, 500, (rows, width)),
        lengths_B=lengths,
        loss_mask_BT=mask,
        extras={
            "ref": ref * 0.3 - 6,
            "returns": returns,
            "advantages": random.standard_normal(rows).astype(np.float32),
        },
        constants={"window_tokens": float(mask.sum()), "window_rows": rows / 2},
    )


def full_logits(policy: TorchPolicy, ids: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Log-probabilities of every next token, by the model's own forward."""
    logits = policy.module.model(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.log_softmax(logits.float() / temperature, -1)


def statistics(
    policy: TorchPolicy, needs: frozenset[Stat], batch: Batch, teacher: TorchPolicy | None = None
) -> dict[Stat, torch.Tensor]:
    """Every statistic from its definition, `[B, T]`, zero where nothing is learned."""
    ids, mask = torch.from_numpy(batch.ids_BT), torch.from_numpy(batch.loss_mask_BT)
    lp = full_logits(policy, ids, batch.temperature)
    out: dict[Stat, torch.Tensor] = {
        Stat.LOGPROBS: lp.gather(-1, ids[:, 1:, None])[..., 0],
        Stat.ENTROPY: -(lp.exp() * lp).sum(-1),
        Stat.LOG_SUM_SQ_PROBS: (2 * lp).exp().sum(-1).log(),
    }
    if policy.module.value_head is not None:
        hidden = policy.module.model.get_decoder()(ids).last_hidden_state[:, :-1]  # type: ignore[operator]
        out[Stat.VALUES] = policy.module.value_head(hidden.float())[..., 0]
    if teacher is not None:
        with torch.no_grad():
            other = full_logits(teacher, ids, batch.temperature)
        out[Stat.FORWARD_KL] = (other.exp() * (other - lp)).sum(-1)
        out[Stat.REVERSE_KL] = (lp.exp() * (lp - other)).sum(-1)
        out[Stat.TOP1] = (lp.argmax(-1) == other.argmax(-1)).float()
    padded = {stat: torch.nn.functional.pad(out[stat], (1, 0)) for stat in needs}
    return {stat: torch.where(mask, value, 0.0) for stat, value in padded.items()}


def loss_and_gradients(
    policy: TorchPolicy, objective: Objective, batch: Batch, teacher: TorchPolicy | None = None
) -> tuple[float, dict[str, np.ndarray[Any, Any]]]:
    """The loss of the whole batch at once and its gradient by parameter name."""
    stats = statistics(policy, objective.needs, batch, teacher)
    arrays: dict[str, Any] = {k: torch.from_numpy(v) for k, v in batch.extras.items()}
    arrays |= {"mask": torch.from_numpy(batch.loss_mask_BT).float(), **batch.constants}
    loss, _ = objective(TorchNamespace(), stats, arrays)
    loss.backward()
    gradients = dict(policy.gradients())
    policy.optimizer.clear()
    return float(loss.detach()), gradients


def relative_error(
    got: dict[str, np.ndarray[Any, Any]], expected: dict[str, np.ndarray[Any, Any]]
) -> float:
    """|got - expected| / |expected| over all parameters together."""
    assert got.keys() == expected.keys()
    a = np.concatenate([got[k].ravel() for k in sorted(got)])
    b = np.concatenate([expected[k].ravel() for k in sorted(expected)])
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))
