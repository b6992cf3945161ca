"""Warnings about data, the same in inspection and training."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zoo.gym.data.records import Record
from zoo.gym.data.rendering.special import special_tokens
from zoo.gym.data.rows import Encoder, as_chat, end_of, tools_of
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.data.units import Example

_UNSEEN = ("<image>", "<video>", "<audio>")
"""How data files mark the position of images, audio or video."""

_MOST_SYSTEMS = 1000


@dataclass
class Survey:
    """What the notes are about, counted row by row.

    Attributes:
        chats: those that are not texts.
        empty: rows with an empty answer.
        unseen: rows with media that the model does not see.
        special: rows with the text of special tokens.
        ended: texts after which the end-of-text token is learned.
        systems: how many rows begin with each system prompt; rare ones may be missing.
        joints: how many rows have each text between prompt and completion.
    """

    encoder: Encoder
    rows: int = 0
    chats: int = 0
    empty: int = 0
    unseen: int = 0
    special: int = 0
    first_special: str = ""
    ended: int = 0
    systems: Counter[str] = field(default_factory=Counter[str])
    joints: Counter[str] = field(default_factory=Counter[str])

    def add(self, record: Record) -> None:
        """Counts a row."""
        self.rows += 1
        texts = _texts(record)
        self.unseen += any(mark in text for text in texts for mark in _UNSEEN)
        specials = special_tokens(self.encoder.tokenizer).pattern
        matches = filter(None, map(specials.search, texts))
        if match := next(matches, None):
            self.special += 1
            self.first_special = self.first_special or match[0]
        self.ended += bool(end_of(self.encoder, record))
        if record.kind != "text":
            self.chats += 1
            self.empty += any(
                turn.role == "assistant" and not turn.content.strip() and not turn.calls
                for turn in as_chat(record)
            )
        answered = record.sides[0] if record.sides else record
        if answered.kind == "completion":
            self.joints[answered.joint] += 1
        if record.messages and record.messages[0].role == "system":
            self.systems[record.messages[0].content] += 1
        if len(self.systems) > _MOST_SYSTEMS:  # one that half of the rows have stays
            self.systems = Counter({text: n for text, n in self.systems.items() if n > 1})

    @property
    def common_system(self) -> str:
        """The system prompt that at least half of the chats begin with; empty for none."""
        most = self.systems.most_common(1)
        return most[0][0] if most and 2 * most[0][1] >= self.chats else ""

    @property
    def common_joint(self) -> str:
        """What ends most prompts, for a model without a chat template; empty for others.

        Rows without an answer do not say: their prompts end as those that their adapter learned.
        """
        if self.encoder.template is not None:
            return ""
        most = self.joints.most_common(1)
        return most[0][0] if most else self.encoder.options.joint


def survey(records: Iterable[Record], encoder: Encoder) -> Survey:
    """Reads all rows once."""
    result = Survey(encoder)
    for record in records:
        result.add(record)
    return result


@dataclass(frozen=True, slots=True)
class Figures:
    """What encoding and splitting found.

    Attributes:
        truncated: number of rows longer than `cutoff_len`.
        unlearned: number of rows without a learned token within `cutoff_len`.
        duplicates: number of rows with the same content as an earlier one.
        same_prompt: number of other pairs with the prompt of an earlier one.
        sampled: the number of rows that `truncated` and `unlearned` are estimated from; 0 if they
            were counted.
        also_learned: number of held-out rows with the content or the prompt of a learned one.
        lost: learned tokens beyond `cutoff_len` in truncated rows.
    """

    truncated: int
    unlearned: int
    duplicates: int
    same_prompt: int = 0
    sampled: int = 0
    also_learned: int = 0
    lost: int = 0


def notes_of(surveyed: Survey, figures: Figures) -> tuple[str, ...]:
    """Returns one warning per kind of problem in the data, most harmful first."""
    return (*_of_rows(surveyed), *_of_lengths(surveyed, figures))


def _of_rows(surveyed: Survey) -> Iterator[str]:
    total = surveyed.rows
    if surveyed.encoder.template is None and len(surveyed.joints) > 1:
        spaced = surveyed.joints.total() - surveyed.joints[""]
        yield (
            f"{spaced} of {total} rows have a blank line between prompt and answer, the others "
            f"none: chat asks {'with' if surveyed.common_joint else 'without'} one"
        )
    if surveyed.empty:
        yield (
            f"{surveyed.empty} of {total} rows with an empty answer: "
            "the model learns to say nothing there"
        )
    if surveyed.unseen:
        media = "images, audio or video"
        yield f"{surveyed.unseen} of {total} rows with {media} that the model does not see"
    if surveyed.special:
        reading = "read as plain text"
        if not surveyed.encoder.options.split_special_tokens:
            reading = "read as special tokens, which can forge a turn (split_special_tokens=false)"
        text = f"text like {surveyed.first_special!r}"
        yield f"{surveyed.special} of {total} rows with {text}: {reading}"
    if surveyed.ended:
        end = surveyed.encoder.tokenizer.decode([surveyed.encoder.tokenizer.eos_token_id or 0])
        yield (
            f"{counted(surveyed.ended, 'text')} with the end-of-text token {end!r} learned at the "
            "end (append_eos=false: without)"
        )


def _of_lengths(surveyed: Survey, figures: Figures) -> Iterator[str]:
    total, cutoff = surveyed.rows, surveyed.encoder.options.cutoff_len
    approximate = "about " if figures.sampled else ""
    if figures.sampled:
        yield (
            f"{total:,} rows are encoded when they are used: their lengths are estimated from "
            f"{figures.sampled:,} of them"
        )
    if unlearned := figures.unlearned:
        dropped = counted(unlearned, "row")
        yield f"{approximate}{dropped} dropped: nothing to learn within cutoff_len {cutoff}"
    if (cut := figures.truncated - figures.unlearned) > 0:
        lost = f": {approximate}{figures.lost:,} learned tokens are lost" if figures.lost else ""
        yield f"{approximate}{cut} of {total} rows truncated at cutoff_len {cutoff}{lost}"
    if figures.also_learned:
        both = counted(figures.also_learned, "held-out row")
        yield f"{both} equal to a learned one, or with its prompt: held-out figures are too good"
    if figures.duplicates:
        equal = counted(figures.duplicates, "duplicate row")
        yield f"{equal}: duplicates stay on one side of the split"
    if figures.same_prompt:
        same = counted(figures.same_prompt, "row")
        yield f"{same} with the prompt of another: one prompt stays on one side of the split"


def _texts(record: Record) -> list[str]:
    if record.kind == "text":
        return [record.text]
    turns, tools = as_chat(record), list(tools_of(record))
    texts = [part for turn in turns for part in (turn.content, turn.reasoning, turn.tool) if part]
    calls = [[call.name, call.arguments] for turn in turns for call in turn.calls]
    return [*texts, *(json.dumps(part, ensure_ascii=False) for part in (calls, tools) if part)]


def require_words(examples: "Sequence[Example]", encoder: Encoder) -> None:
    """Refuses examples in which only markers and whitespace would be learned.

    Raises:
        InputError: that is the case.
    """
    for example in examples:
        ids = [int(token) for token in example.ids[example.mask]]
        words = [token for token in ids if token not in encoder.special_ids]
        text = encoder.tokenizer.decode(words).replace("<think>", "").replace("</think>", "")
        if text.strip():
            return
    if examples:
        raise InputError(
            "every answer is empty: expected text to learn, got only markers and whitespace",
            hint="zoo-gym data inspect FILE shows what is learned",
            code="data.nothing_to_learn",
        )
