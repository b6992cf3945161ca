"""`kill -9` in a run of each kind: optimizers with all weights, and adapters.

The resume ends in the bytes of a plain run, and its result opens in plain libraries.
"""

import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.optimizers import Settings, kinds
from tests.gym.jobs.real_runs import Place
from tests.gym.jobs.warm import server
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.models.resolve import pico_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")

OFTEN: Mapping[str, Settings] = {
    "galore": {"galore_update_interval": 3},
    "apollo": {"apollo_update_interval": 3},
    "apollo_mini": {"apollo_update_interval": 3},
    "badam": {"badam_switch_interval": 2, "badam_switch_mode": "random"},
    "pissa": {"lora_dropout": 0.1},
    "freeze": {"freeze_extra_modules": "norm"},
}
"""What is projected, chosen or drawn anew both before the kill and after it."""

SOONER = ("galore",)
"""The kind with the most state; the others have their turn at night."""

OPEN = [
    pytest.param(kind, marks=pytest.mark.slow if kind in SOONER else pytest.mark.nightly)
    for kind in kinds()
]

FOR_CODES = ("loftq",)
"""The kinds whose results are for a quantised base, not for the plain one."""

IDS = [1, 5, 9, 40, 7]


@pytest.fixture(scope="module")
def shared() -> ForkServerContext:
    return server()


def run(folder: Path, shared: ForkServerContext, kind: str, entry: str | None) -> Place:
    place = Place(folder, shared, "sft")
    settings = {**kinds()[kind], **OFTEN.get(kind, {}), "weight_decay": 0.1}
    place.words = [*place.words, *(f"{key}={value}" for key, value in settings.items())]
    place.train(entry)
    place.await_death()
    return place


@pytest.mark.parametrize("kind", OPEN)
def test_a_killed_run_resumes_to_the_bytes_of_a_plain_one_and_opens_elsewhere(
    kind: str, shared: ForkServerContext, tmp_path: Path
) -> None:
    whole = run(tmp_path / "whole", shared, kind, None)
    killed = run(tmp_path / "killed", shared, kind, "in_update_8_3")
    found = killed.outcome()
    assert (found.listed, found.killed_at, found.torn) == ("interrupted", 7, [])
    assert (found.state, found.weights) == ("done", whole.weights())
    if kind not in FOR_CODES:
        plain, ours = plain_logits(killed.run.result), our_logits(killed.run.result)
        np.testing.assert_allclose(plain, ours, atol=1e-5)


def plain_logits(result: Path) -> Any:
    """The logits of a result in plain transformers, or peft."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from zoo.backends.torch.quiet import quiet

    adapted = (result / "adapter_config.json").exists()
    base = pico_folder() if adapted else result
    with quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        if adapted:
            model = PeftModel.from_pretrained(model, str(result))
    with torch.no_grad():
        return model.eval()(torch.tensor([IDS])).logits[0].numpy()


def our_logits(result: Path) -> Any:
    adapted = (result / "adapter_config.json").exists()
    spec = LoadSpec(adapter=result if adapted else None, dtype="f32")
    return load_backend("cpu").load(pico_folder() if adapted else result, spec).logits(IDS)
