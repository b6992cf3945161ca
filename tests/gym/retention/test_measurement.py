"""Asking a model: the form of the prompt, the number of questions, the loss on plain text."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Rollout
from zoo.gym.data import load_tokenizer
from zoo.gym.retention.answer import Asker
from zoo.gym.retention.measurement import LONGER_TOKENS, PROBED, Measured, measure
from zoo.gym.retention.own_answers import own_answers, read_examples, write_answers
from zoo.gym.retention.questions import questions
from zoo.models import pico_folder

NOTHING = Measured((), (), None)


class Parrot:
    """Answers a prompt with what a table has for the words in it, else with nothing."""

    def __init__(self, table: dict[str, str]) -> None:
        self.table, self.asked = table, 0
        self.tokenizer: Any = load_tokenizer(pico_folder())
        self.model = load_backend("cpu").load(pico_folder())

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Any, **_: Any) -> list[Rollout]:
        self.asked += len(prompts)
        answers = [self._answer(self.tokenizer.decode(list(prompt))) for prompt in prompts]
        return [Rollout([*ids, sampling.stop_ids[0]], [], "stop") for ids in answers]

    def parameter_count(self) -> int:
        return 10_000_000

    def read_prefix(self, ids: Sequence[int]) -> None:
        """Shares nothing."""

    def _answer(self, text: str) -> list[int]:
        answer = next((self.table[key] for key in self.table if key in text), "")
        ids: list[int] = self.tokenizer.encode(answer, add_special_tokens=False)
        return ids

    def score(self, *arguments: Any, **named: Any) -> Any:
        return self.model.score(*arguments, **named)


@pytest.mark.slow
def test_every_right_answer_counts_and_plain_text_is_scored() -> None:
    parrot = Parrot({each.question: each.answers[0] for each in questions()[:30]})
    found = measure(parrot, pico_folder())  # type: ignore[arg-type]
    assert found.right == (True,) * 30 + (False,) * 30
    assert found.text_loss is not None
    assert found.text_loss > 0


def test_a_small_model_is_not_asked() -> None:
    parrot: Any = Parrot({})
    parrot.parameter_count = lambda: 9_999_999
    assert measure(parrot, pico_folder(), NOTHING).answers == ()
    assert parrot.asked == 0


def test_a_model_that_answers_nothing_is_asked_a_third() -> None:
    parrot = Parrot({})
    found = measure(parrot, pico_folder())  # type: ignore[arg-type]
    assert (parrot.asked, found.text_loss, found.answers_questions) == (PROBED, None, False)


@pytest.mark.slow
def test_a_model_is_measured_whole_after_training_whatever_is_left() -> None:
    parrot = Parrot({})
    found = measure(parrot, pico_folder(), NOTHING)  # type: ignore[arg-type]
    assert parrot.asked == 60
    assert found.text_loss is not None


@pytest.mark.slow
def test_an_answer_that_only_takes_longer_is_not_lost() -> None:
    long, lost = questions()[0].question, questions()[1].question
    before = Measured(("",) * 60, (True, True, *(False,) * 58), 3.0)

    class Longer(Parrot):
        def generate(self, prompts: Any, sampling: Any, **named: Any) -> list[Rollout]:
            patient = sampling.max_new_tokens == LONGER_TOKENS
            self.table = {long: "Paris" if patient else "It is the", lost: "I am Rowan"}
            return super().generate(prompts, sampling, **named)

    found = measure(Longer({}), pico_folder(), before)  # type: ignore[arg-type]
    assert found.right == (True, *(False,) * 59)
    assert found.answers[:3] == ("Paris", "I am Rowan", "")


@pytest.mark.nightly
def test_a_prompt_is_what_precedes_an_answer_in_training(
    shared: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(shared("data/tokenizers/qwen3"), tmp_path / "qwen3")
    (tmp_path / "qwen3" / "config.json").write_text('{"vocab_size": 151936}')
    asker = Asker(None, tmp_path / "qwen3")  # type: ignore[arg-type]
    text = asker.tokenizer.decode(asker.prompt("Who?"))
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_a_model_that_reads_too_few_tokens_is_not_asked(tmp_path: Path) -> None:
    folder = shutil.copytree(pico_folder(), tmp_path / "short")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 20}
    (folder / "config.json").write_text(json.dumps(config))
    parrot: Any = Parrot({"": "So."})
    assert measure(parrot, folder, NOTHING).answers == ()
    assert own_answers(parrot, folder, 5) == []
    assert parrot.asked == 0


def test_own_answers_are_learned_behind_their_prompts(tmp_path: Path) -> None:
    parrot = Parrot({"": "So.\u2028Yes"})  # a separator that is no end of a line
    file = tmp_path / "retained.jsonl"
    digest = write_answers(file, own_answers(parrot, pico_folder(), 3))  # type: ignore[arg-type]
    rows = read_examples(file, digest)
    assert len(rows) == 3
    for row in rows:
        learned = parrot.tokenizer.decode(row.ids[row.mask].tolist())
        assert learned.startswith("So.")


def test_an_empty_answer_is_not_retained(tmp_path: Path) -> None:
    with patch("zoo.gym.retention.own_answers.prompts", return_value=("a", "b")):
        rows = own_answers(Parrot({"b": "yes"}), pico_folder(), 2)  # type: ignore[arg-type]
    assert [row["prompt"] for row in rows] == ["b"]


def test_changed_answers_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "retained.jsonl"
    digest = write_answers(file, [{"prompt": "a", "answer": "b", "ids": [1, 2], "learned_from": 1}])
    file.write_text(file.read_text().replace("[1, 2]", "[1, 3]"))
    with raises("retention.damaged_answers", "got another one"):
        read_examples(file, digest)
    file.unlink()
    with raises("retention.damaged_answers", "got no file"):
        read_examples(file, digest)
