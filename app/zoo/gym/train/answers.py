"""Answers to prompts of the data, before training and now: what a loss does not show.

The prompts are chosen before training, never by result: of the held-out rows, which were drawn by
seed, and of the learned ones, evenly spaced. Answers are greedy, of up to `ANSWER_TOKENS`.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data import Record
from zoo.gym.data.rows import Encoder, as_chat, encode_row, with_answer
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.humanize import counted
from zoo.gym.measure.rows import spread
from zoo.gym.retention.answer import Asker
from zoo.models.head_rows import tokens_like

if TYPE_CHECKING:
    from zoo.backends.base import Policy

FILE = "answers.json"

ANSWER_TOKENS = 24

ASKING_SHARE = 0.05
"""Of the time between two evaluations that ask again, spent on asking."""

SHOWN = 3
"""Held-out prompts whose answers are shown; without held-out rows, prompts of learned ones."""

ASKED = 10
"""Prompts of learned rows, and of held-out ones, that are answered before the end."""

MOST_PROMPT_TOKENS = 1024
"""Longer prompts are not asked: their answers would take longer than a step."""

FEW = 10
"""Answers from which on a share of them is a reason for a warning."""

EMPTY_SHARE, SAME_SHARE = 0.2, 0.5


@dataclass(frozen=True)
class Probe:
    """A prompt of the data.

    Attributes:
        ids: its tokens, as a chat feeds them.
        prompt: what its last turn says.
        expected: how the data answers, up to `ANSWER_TOKENS`; empty if it does not.
        ends: whether that answer ends within these tokens.
        held_out: whether the row is held out.
    """

    ids: tuple[int, ...]
    prompt: str
    expected: str
    ends: bool
    held_out: bool


@dataclass(frozen=True)
class Answered:
    """The answer to a prompt, and whether the model ended it by itself."""

    probe: Probe
    text: str
    ended: bool

    @property
    def is_learned(self) -> bool:
        """Whether it is word for word what the data says."""
        return bool(self.text) and self.text.split() == self.probe.expected.split()


def draw_probes(
    records: Sequence[Record], encoder: Encoder, *, held_out: bool
) -> tuple[Probe, ...]:
    """Returns at most `ASKED` different prompts of the rows; texts have none.

    Args:
        records: learned rows, or held-out ones.
        encoder: encodes them as for training.
        held_out: which of the two they are.
    """
    probes: dict[tuple[int, ...], Probe] = {}
    for record in spread(records, 2 * ASKED):
        probe = _probe(record, encoder, held_out=held_out)
        if probe is not None and len(probes) < ASKED:
            probes.setdefault(probe.ids, probe)
    return tuple(probes.values())


def _probe(record: Record, encoder: Encoder, *, held_out: bool) -> Probe | None:
    answered = with_answer(record) if record.kind == "prompt" else record
    row = record if answered is None else answered
    row = row.sides[0] if row.sides else row
    if row.kind == "text":
        return None
    try:
        encoded = encode_row(encoder, row)
    except InputError:  # reported as a row that cannot be used
        return None
    first = encoded.learned.index(True) if True in encoded.learned else len(encoded.ids)
    if answered is None or record.good is False:
        end = first
    else:
        end = (*encoded.learned, False).index(False, first)
    room = min(MOST_PROMPT_TOKENS, encoder.options.cutoff_len - ANSWER_TOKENS)
    if not 1 < first <= room:
        return None
    answer = encoded.ids[first:end]
    expected = encoder.tokenizer.decode(_without_specials(answer[:ANSWER_TOKENS], encoder)).strip()
    ends = 0 < len(answer) <= ANSWER_TOKENS
    return Probe(tuple(encoded.ids[:first]), _question(row), expected, ends, held_out)


def _without_specials(ids: Sequence[int], encoder: Encoder) -> list[int]:
    return [token for token in ids if token not in encoder.special_ids]


def _question(row: Record) -> str:
    """Returns the turn before the first answer that is learned."""
    asked = ""
    for turn in as_chat(row):
        if turn.role != "assistant":
            asked = turn.content
        elif turn.learned:
            break
    return asked


class Answers:
    """Asks a model the prompts of its data.

    Args:
        policy: the model before training.
        base: the folder of its base, with tokenizer and chat template.
        probes: the prompts; those that the model cannot read with an answer are left out.
        run: the run folder, which has the answers before training.
        own: how the run's tokenizer differs from the base's.
    """

    def __init__(
        self,
        policy: "Policy",
        base: Path,
        probes: Sequence[Probe],
        run: Path,
        tokens: Mapping[str, object],
    ) -> None:
        self._asker = Asker(policy, base, tokens)
        self._probes = [each for each in probes if self._asker.fits(each.ids, ANSWER_TOKENS)]
        held_out = [each for each in self._probes if each.held_out][:SHOWN]
        learned = [each for each in self._probes if not each.held_out]
        self._shown = [*held_out, *learned[: SHOWN - 1 if held_out else SHOWN]]
        self._before = self._stored(run / FILE)
        self._next_s = time.monotonic()

    def __bool__(self) -> bool:
        """Whether there are prompts."""
        return bool(self._probes)

    def _stored(self, path: Path) -> list[str]:
        """Returns the answers before training, asked once in a run. Collective."""
        if not self:
            return []
        ranks = self._asker.policy.ranks
        if ranks.share(path.is_file() if ranks.is_first else None):
            texts = (read_json_object(path) or {}).get("before")
            if isinstance(texts, list) and len(texts) == len(self._shown):
                return [str(text) for text in texts]
            raise InputError(
                f"{path}: expected the answers before training, got a damaged file",
                hint="remove it: the model is asked again",
                code="train.damaged_file",
            )
        texts = [each.text for each in self._ask(self._shown)]
        if ranks.is_first:
            write_beside(path, json.dumps({"before": texts}) + "\n")
        ranks.meet()
        return texts

    def _ask(self, probes: Sequence[Probe]) -> list[Answered]:
        rollouts = self._asker.answers([each.ids for each in probes], ANSWER_TOKENS)
        return [
            Answered(probe, self._asker.text(rollout), ended=rollout.finish == "stop")
            for probe, rollout in zip(probes, rollouts, strict=True)
        ]

    def end_like_others(self, head: Path) -> str:
        """Returns why an adapter cannot make an answer end: its token's row is that of others.

        Args:
            head: the folder of the base.
        """
        stops = sorted(self._asker.stop_ids)
        if not stops or not (alike := min(tokens_like(head, stop) for stop in stops)):
            return ""
        names = self._asker.tokenizer.decode(stops)
        return (
            f": {counted(alike, 'other token')} have the row of {names!r} in the base's head, so "
            "that an adapter cannot make it likelier than those: train the head, too, with "
            "additional_target=lm_head, or embed_tokens where it is tied"
        )

    def is_due(self) -> bool:
        """Returns whether the last answers are old: the first process decides. Collective."""
        ranks = self._asker.policy.ranks
        old = time.monotonic() >= self._next_s
        return bool(ranks.share(old if ranks.is_first else None))

    def shown(self) -> "list[dict[str, object]]":
        """Asks the shown prompts, and returns the answers as an event has them. Collective."""
        before = time.monotonic()
        entries = self._entries(self._ask(self._shown))
        after = time.monotonic()
        self._next_s = after + (after - before) / ASKING_SHARE
        return entries

    def asked(self) -> "tuple[list[dict[str, object]], list[Answered]]":
        """Asks all prompts: returns the shown answers, and all. Collective."""
        answers = self._ask(self._probes)
        of_probe = {each.probe: each for each in answers}
        return self._entries([of_probe[probe] for probe in self._shown]), answers

    def _entries(self, answers: Sequence[Answered]) -> "list[dict[str, object]]":
        return [
            {
                "prompt": each.probe.prompt,
                "held_out": each.probe.held_out,
                "expected": each.probe.expected,
                "before": previous,
                "now": each.text,
            }
            for each, previous in zip(answers, self._before, strict=True)
        ]


def alarms_of(answers: Sequence[Answered], end: str = "") -> Iterator[str]:
    """Yields a warning for each way in which answers are none, whatever the loss says.

    Args:
        answers: those to prompts of the data.
        end: why the model may be unable to end answers.
    """
    count = len(answers)
    if count < FEW:
        return
    if (empty := sum(not each.text for each in answers)) >= EMPTY_SHARE * count:
        yield f"{empty} of {count} answers to prompts of the data are empty"
    texts = Counter(each.text for each in answers if each.text)
    expected = Counter(each.probe.expected for each in answers)
    for text, times in texts.most_common(1):
        if times >= SAME_SHARE * count and expected[text] < times / 2:
            yield f"{times} of {count} different prompts of the data get the same answer: {text!r}"
    short = [each for each in answers if each.probe.ends]
    if len(short) >= FEW and not any(each.ended for each in short):
        yield (
            f"none of {len(short)} answers ends by itself within {ANSWER_TOKENS} tokens, as those "
            f"of the data do{end}"
        )


def learned_sentence(answers: Sequence[Answered]) -> str:
    """Returns how many answers are those of the data: of learned prompts, and of held-out ones."""
    parts: list[str] = []
    for held_out, name in ((False, "learned prompt"), (True, "held-out prompt")):
        mine = [each for each in answers if each.probe.held_out is held_out]
        asked = [each for each in mine if each.probe.expected]
        if asked:
            right = sum(each.is_learned for each in asked)
            parts.append(f"{right} of {counted(len(asked), name)}")
    if not parts:
        return "answers are not compared with the data"
    return f"answered word for word as in the data: {', '.join(parts)}"
