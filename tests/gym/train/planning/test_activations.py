"""Whether activations are kept: where they fit, unless the setting was given."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gym.train.planning.needs import LORA
from zoo.backends.memory import MemoryNeed, estimate_memory
from zoo.gym.config import TrainConfig
from zoo.gym.train.plan import Facts, Plan, make_plan
from zoo.gym.train.planning.activations import MOST_BYTES, keep_activations

FACTS = Facts(
    parameters=135_000_000,
    rows=10,
    tokens=300,
    longest_tokens=60,
    held_out_rows=0,
    held_out_tokens=0,
)
KEPT = replace(LORA, checkpointing=False)


class Engine:
    """Estimates as every engine does, with this much free memory."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def free_bytes(self) -> int:
        return self._free_bytes

    def estimate_memory(self, need: MemoryNeed) -> Any:
        return estimate_memory(need)


def planned(
    free_bytes: int, need: MemoryNeed | None = LORA, **given: Any
) -> tuple[Plan, MemoryNeed | None]:
    config = TrainConfig(model_name_or_path="model", dataset="rows", **given)
    engine: Any = Engine(free_bytes)
    return keep_activations(make_plan(config, FACTS), need, engine)


def test_activations_are_kept_in_half_of_the_free_memory() -> None:
    total = estimate_memory(KEPT).total
    plan, need = planned(2 * total)
    assert (plan.config.gradient_checkpointing, need) == (False, KEPT)
    [choice] = [one for one in plan.choices if one.key == "gradient_checkpointing"]
    assert not choice.value
    assert "fit in memory" in choice.reason
    assert planned(2 * total - 1)[0].config.gradient_checkpointing is True


def test_activations_above_the_limit_are_recomputed() -> None:
    a_token = estimate_memory(replace(KEPT, tokens=1)).activations
    most = MOST_BYTES // a_token
    for tokens, recomputes in ((most, False), (most + 1, True)):
        plan, need = planned(10**12, replace(LORA, tokens=tokens))
        assert plan.config.gradient_checkpointing is recomputes
        assert need is not None
        assert need.checkpointing is recomputes


@pytest.mark.parametrize(
    "given",
    [
        {"gradient_checkpointing": True},
        {"stream_layers": True},
        {"activation_offloading": True},
        {"num_processes": 2},
    ],
)
def test_what_requires_recomputing_or_was_given_stays(given: dict[str, object]) -> None:
    plan, need = planned(10**12, LORA, **given)
    assert (plan.config.gradient_checkpointing, need) == (True, LORA)


def test_a_model_of_unknown_shape_recomputes() -> None:
    assert planned(10**12, None)[0].config.gradient_checkpointing is True
