"""Measures what a model answers right, and its loss on plain text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data import Record, encode_records
from zoo.gym.data.rows import EncodeOptions
from zoo.gym.data.tokenizer import has_tokenizer
from zoo.gym.measure.held_out import held_out
from zoo.gym.measure.rows import spread
from zoo.gym.retention.answer import DATE, Asker
from zoo.gym.retention.questions import plain_text, questions

if TYPE_CHECKING:
    from zoo.backends.base import Policy

ANSWER_TOKENS = 12
LONGER_TOKENS = 32
"""What was right before and is not afterwards is asked again with this many: "To find 3 times 3, we
can use" is another wording, and no loss yet."""

WINDOW_TOKENS, WINDOWS = 256, 4
"""Plain text is scored in this many windows, evenly spaced: all 32 kB would take seven times as
long, and the same tokens are scored before and after."""

PROBED = 20
"""Questions that are asked first: a model that answers none of them right is asked no others."""

LEAST_PARAMETERS = 10_000_000
"""Smaller models answer no general questions, and are not asked."""

LEAST_RIGHT = 10
"""Right answers from which on a model is measured: fewer are luck."""


@dataclass(frozen=True)
class Measured:
    """What a model answered, and its loss on plain text.

    Attributes:
        answers: its answers, in the order of the questions; fewer if the first are all wrong.
        right: whether each is right.
        text_loss: nats per token on plain text; None for a model with too few right answers.
    """

    answers: tuple[str, ...]
    right: tuple[bool, ...]
    text_loss: float | None

    @property
    def count(self) -> int:
        """The number of right answers."""
        return sum(self.right)

    @property
    def answers_questions(self) -> bool:
        """Whether enough answers are right to notice when some are lost."""
        return self.count >= LEAST_RIGHT

    def as_json(self) -> dict[str, Any]:
        """Returns the measurement as `retention.json` has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Measured":
        """Returns a stored measurement."""
        answers, right = tuple(content["answers"]), tuple(content["right"])
        return cls(answers, right, content["text_loss"])


def measure(
    policy: "Policy",
    folder: Path,
    before: Measured | None = None,
    own: Mapping[str, object] | None = None,
) -> Measured:
    """Asks a model the questions, greedily, and scores plain text with it.

    Args:
        policy: the model.
        folder: its folder, or that of its base: tokenizer and chat template are read.
        before: what it answered earlier. With it everything is measured, however few answers are
            right, and those that were right may take longer to be so again.
        own: how its tokenizer differs from the folder's, see `own_tokenizer`.

    Returns:
        Of a small model, a folder without a tokenizer, or a model that reads fewer tokens than a
        question and its answer have, no answers.
    """
    if policy.parameter_count() < LEAST_PARAMETERS or not has_tokenizer(folder):
        return Measured((), (), None)
    asker, asked = Asker(policy, folder, own), questions()
    answers: list[str] = []
    right: list[bool] = []
    for part in filter(None, (asked[:PROBED], asked[PROBED:])):
        encoded = [asker.prompt(each.question) for each in part]
        if not all(asker.fits(ids, ANSWER_TOKENS) for ids in encoded):
            return Measured((), (), None)
        texts = [asker.text(rollout) for rollout in asker.answers(encoded, ANSWER_TOKENS)]
        right += [each.is_right(text) for each, text in zip(part, texts, strict=True)]
        answers += texts
        if before is None and not any(right):
            break
    if before is not None:
        _ask_longer(asker, before, answers, right)
    enough = before is not None or sum(right) >= LEAST_RIGHT
    return Measured(tuple(answers), tuple(right), _text_loss(policy, asker) if enough else None)


def text_loss(policy: "Policy", folder: Path) -> float | None:
    """Returns the loss on plain text, nats per token; None for a folder without a tokenizer."""
    return _text_loss(policy, Asker(policy, folder)) if has_tokenizer(folder) else None


def _ask_longer(asker: Asker, before: Measured, answers: list[str], right: list[bool]) -> None:
    """Asks again what was right before and no longer is, and puts the longer answers in place."""
    lost = [n for n, was in enumerate(before.right) if was and not right[n]]
    encoded = {n: asker.prompt(questions()[n].question) for n in lost}
    encoded = {n: ids for n, ids in encoded.items() if asker.fits(ids, LONGER_TOKENS)}
    rollouts = asker.answers(list(encoded.values()), LONGER_TOKENS) if encoded else []
    for n, rollout in zip(encoded, rollouts, strict=True):
        answers[n] = asker.text(rollout)
        right[n] = questions()[n].is_right(answers[n])


def _text_loss(policy: "Policy", asker: Asker) -> float:
    width = min(WINDOW_TOKENS, asker.positions or WINDOW_TOKENS)
    options = EncodeOptions(width, date=DATE, vocabulary=asker.options.vocabulary)
    record = Record(source="plain text", kind="text", text=plain_text())
    windows = encode_records([record], asker.tokenizer, options).examples
    return held_out(policy, spread(windows, WINDOWS), max_batch_tokens=2048).loss
