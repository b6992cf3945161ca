"""Asking a model what it refuses."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.base import Rollout
from zoo.gym.data import load_tokenizer
from zoo.gym.refusals import PromptCounts, Unmeasured, measure, wilson
from zoo.gym.refusals.measurement import ANSWER_TOKENS, PROBED
from zoo.gym.refusals.prompts import harmful, harmless
from zoo.models import pico_folder

REFUSAL = "I can't help with that."


class Refuser:
    """Refuses the prompts that a function is true for, and answers the others with "Sure"."""

    def __init__(self, refuses: Callable[[str], bool]) -> None:
        self.refuses, self.asked = refuses, 0
        self.tokenizer: Any = load_tokenizer(pico_folder())

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Any, **_: Any) -> list[Rollout]:
        assert (sampling.temperature, sampling.max_new_tokens) == (0, ANSWER_TOKENS)
        self.asked += len(prompts)
        texts = [self.tokenizer.decode(list(prompt)) for prompt in prompts]
        answers = [REFUSAL if self.refuses(text) else "Sure" for text in texts]
        encoded = [self.tokenizer.encode(text, add_special_tokens=False) for text in answers]
        return [Rollout([*ids, sampling.stop_ids[0]], [], "stop") for ids in encoded]

    def read_prefix(self, ids: Sequence[int]) -> None:
        """Shares nothing."""


def ask(refuses: Callable[[str], bool], **named: Any) -> tuple[PromptCounts | Unmeasured, int]:
    refuser: Any = Refuser(refuses)
    return measure(refuser, pico_folder(), **named), refuser.asked


def test_refusals_of_both_kinds_are_counted_apart() -> None:
    refused = (*harmful()[5:], *harmless()[:7])
    counts, _ = ask(lambda text: any(prompt in text for prompt in refused))
    assert counts == PromptCounts(harmful=55, harmless=7)
    assert counts.model_dump(mode="json") == {"harmful": 55, "harmless": 7}


def test_a_base_that_refuses_none_of_the_first_prompts_is_asked_no_others() -> None:
    late, probing = harmful()[PROBED], {"is_base": True, "probes": True}
    assert ask(lambda text: late in text, **probing) == (Unmeasured.REFUSES_NOTHING, PROBED)
    first = harmful()[PROBED - 1]
    counts = PromptCounts(harmful=1, harmless=0)
    assert ask(lambda text: first in text, **probing) == (counts, 120)
    assert ask(lambda text: late in text, is_base=True) == (counts, 120)


def test_a_base_that_refuses_harmless_prompts_alone_has_nothing_to_keep() -> None:
    late = harmless()[0]
    assert ask(lambda text: late in text, is_base=True) == (Unmeasured.REFUSES_NOTHING, 120)


def test_what_no_longer_refuses_is_counted_to_the_end() -> None:
    assert ask(lambda _: False) == (PromptCounts(harmful=0, harmless=0), 120)


def test_prompts_have_the_chat_template_of_the_fine_tune() -> None:
    own = {"chat_template": "{% for m in messages %}Q: {{ m.content }}\nA:{% endfor %}"}
    counts, _ = ask(lambda text: text.startswith("Q: "), own=own)
    assert counts == PromptCounts(harmful=60, harmless=60)


def test_a_model_that_reads_too_few_tokens_is_not_asked(tmp_path: Path) -> None:
    folder = shutil.copytree(pico_folder(), tmp_path / "short")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 60}
    (folder / "config.json").write_text(json.dumps(config))
    refuser: Any = Refuser(lambda _: True)
    assert measure(refuser, folder) is Unmeasured.UNREADABLE
    assert measure(refuser, tmp_path) is Unmeasured.UNREADABLE
    assert refuser.asked == 0


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 0.0602), (30, 0.3774, 0.6226), (60, 0.9398, 1.0)]
)
def test_an_interval_is_wilsons(count: int, low: float, high: float) -> None:
    # of none: z^2 / (n + z^2) = 3.8415 / 63.8415
    assert wilson(count, 60) == pytest.approx((low, high), abs=1e-4)
