"""The calls of a run, and its journal: requests before they are sent, answers before they are used.

One JSON object a line, in order of arrival; everything that a run learns from has the key of a
call, so that a killed run continues and a finished one can be repeated without its servers. Answers
are synced to the disk. The first line has the format of the file and the method of its calls:
another method makes other calls, so a replay by it differs.
"""

import errno
import hashlib
import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import add, sub
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from zoo.backends.openai.reply import Reply
from zoo.backends.openai.usage import Usage
from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError
from zoo.gym.files import storage_errors
from zoo.gym.rewards.reward import Score

FORMAT = 1
"""The format of the lines; older files have no first line with it, and are format 0."""

METHOD = 2
"""How calls are made: raised when prompts, their order or decisions change; a test checks that."""


_FRAME = 256
"""Tokens that a server's template may add to the messages."""

Phase: TypeAlias = Literal[
    "rollout", "teach", "probe", "kept", "gate", "base", "test", "prune", "infer", "label"
]
"""The purpose of a call: an answer of a group, a lesson, an answer with an edit, an answer to a
gate's task with the current library or with the candidate, to a test's task without or with the
library, to a task without a lesson, to a query, or for a label."""


class Slot(NamedTuple):
    """The place of a call in a run.

    Attributes:
        phase: what it is for.
        step: the step, from 0.
        look: the look of a gate, the edit of a probe, or what a distillation measures, from 0.
        task: the task's place in its split.
        draw: which of the answers to the same messages.
    """

    phase: Phase
    step: int
    look: int
    task: int
    draw: int

    def __str__(self) -> str:
        return f"{self.phase} step {self.step} look {self.look} task {self.task} draw {self.draw}"

    @property
    def seed(self) -> int:
        """A number for servers that can draw the same answer again; never relied on."""
        return int.from_bytes(hashlib.sha256(str(self).encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True)
class Ask:
    """One call.

    Attributes:
        slot: its place.
        messages: the turns.
        sampling: how the answer is drawn.
        schema: a JSON schema of the answer, None for text.
    """

    slot: Slot
    messages: Sequence[Mapping[str, str]]
    sampling: Sampling
    schema: Mapping[str, object] | None = None

    def key(self, model: str) -> str:
        """Returns the key of the answer: a hash of the model, the request and the slot."""
        s = self.sampling
        sampling = [s.max_new_tokens, s.temperature, s.top_p, s.top_k, *s.stop_strings]
        named = [model, list(self.messages), sampling, self.schema, list(self.slot)]
        text = json.dumps(named, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def prompt_bytes(self) -> int:
        """The most tokens that the messages can be: one a byte, and some for their frame."""
        sizes = (len(turn["content"].encode("utf-8", "replace")) for turn in self.messages)
        return sum(sizes) + 16 * len(self.messages) + _FRAME


@dataclass(frozen=True)
class Spent:
    """The cost of calls.

    Attributes:
        calls: how many were made; one that was killed on the way counts.
        prompt_tokens: the tokens of their messages.
        cached_tokens: those of them that were in a server's cache.
        completion_tokens: the tokens of the answers.
        usd: their price.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Spent") -> "Spent":
        """Returns the cost of both."""
        return Spent(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: "Spent") -> "Spent":
        """Returns the cost without that of other calls."""
        return Spent(*map(sub, astuple(self), astuple(other)))


class Journal:
    """The answers of a run by key. Thread-safe.

    Args:
        path: the file; None keeps everything in memory.
        is_kept: whether the file stays as it is, to the byte: new entries are only in memory.

    Attributes:
        replies: the answers by key.
        scores: the rewards of answers by key.
        slots: the key of the answered call in each slot.
        method: the method by which its calls were made; 0 for one before they had numbers.

    Raises:
        InputError: the file is damaged before its last line, or of a later version.
        StorageError: it cannot be read.
    """

    def __init__(self, path: Path | None = None, *, is_kept: bool = False) -> None:
        self.path = path
        self.spent = Spent()
        self.method = METHOD
        self.replies: dict[str, Reply] = {}
        self.scores: dict[str, Score] = {}
        self._open: dict[str, Spent] = {}
        self.slots: dict[str, str] = {}
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._is_torn = False
        if path is not None:
            with storage_errors(path):
                if not is_kept:
                    self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                self._load(path)

    @property
    def other_method(self) -> str:
        """How a journal of another method differs, in words; empty for the current one."""
        if self.method == METHOD:
            return ""
        return (
            f"the journal was written by another version of zoo-gym (method {self.method}, here "
            f"{METHOD}), which asked otherwise"
        )

    def close(self) -> None:
        """Closes the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def answers(self) -> list[tuple[str, str, Score]]:
        """Returns the slot, text and reward of each answer that has one, in order of arrival."""
        return [
            (slot, self.replies[key].text, self.scores[key])
            for slot, key in self.slots.items()
            if key in self.scores
        ]

    def sent(self, key: str, ask: Ask, model: str, attempt: int, worst: Spent) -> None:
        """Stores a request before it is sent, with the most that it may cost."""
        entry = {
            "sent": key,
            "slot": str(ask.slot),
            "attempt": attempt,
            "model": model,
            "messages": list(ask.messages),
            "worst": asdict(worst),
        }
        self._write(entry)

    def got(self, key: str, slot: str, reply: Reply, bill: Spent) -> None:
        """Stores an answer before it is used."""
        self._write({"got": key, "slot": slot, "reply": asdict(reply), "bill": asdict(bill)})

    def lost(self, key: str, why: str, bill: Spent) -> None:
        """Stores that an attempt failed, and what it may have cost."""
        self._write({"lost": key, "why": why, "bill": asdict(bill)})

    def scored(self, scores: Mapping[str, Score]) -> None:
        """Stores rewards by the keys of their answers."""
        values = {key: None if score.failed else score.value for key, score in scores.items()}
        self._write(
            *({"scored": k, "value": values[k], "reason": s.reason} for k, s in scores.items())
        )

    def _write(self, *entries: dict[str, Any]) -> None:
        with self._lock:
            if self._handle is not None:
                lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
                assert self.path is not None
                with storage_errors(self.path):
                    self._append(lines.encode())
            for entry in entries:
                self._take(entry)

    def _append(self, data: bytes) -> None:
        """Writes whole lines or nothing: a part of one would damage the next."""
        handle = self._handle
        assert handle is not None
        if self._is_torn:
            raise OSError(errno.EIO, "a line that was cut could not be taken back")
        size = os.fstat(handle).st_size
        try:
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except OSError:
            self._is_torn = True
            os.ftruncate(handle, size)
            self._is_torn = False
            raise

    def _take(self, entry: Mapping[str, Any]) -> None:
        if "format" in entry:
            self.method = int(entry["method"])
        elif (key := entry.get("sent")) is not None:
            self._open[key] = Spent(**entry["worst"])
            self.spent += self._open[key]
        elif (key := entry.get("got", entry.get("lost"))) is not None:
            self.spent -= self._open.pop(key, Spent())
            self.spent += Spent(**entry["bill"])
            if "got" in entry:
                fields = dict(entry["reply"])
                usage = fields.pop("usage")
                self.replies[key] = Reply(**fields, usage=usage and Usage(**usage))
                self.slots[entry["slot"]] = key
        else:
            value = math.nan if entry["value"] is None else float(entry["value"])
            self.scores[entry["scored"]] = Score(value, entry["reason"])

    def _load(self, path: Path) -> None:
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content) and self._handle is not None:  # a line that a kill cut
            os.ftruncate(self._handle, end)
        if not end:
            self._write({"format": FORMAT, "method": METHOD})
            return
        self.method = 0
        for number, line in enumerate(content[:end].split(b"\n")[:-1], 1):
            try:
                entry = cast("Mapping[str, Any]", json.loads(line))
                if (version := entry.get("format", FORMAT)) != FORMAT:
                    raise InputError(
                        f"{path}: expected a journal of format {FORMAT} or before, got format "
                        f"{version}",
                        hint="a later version of zoo-gym wrote it: use that one",
                        code="experience.newer_journal",
                    )
                self._take(entry)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise InputError(
                    f"{path}:{number}: damaged: expected a request, an answer or a reward",
                    hint="restore the file: it has the answers that were paid for",
                    code="experience.damaged_journal",
                ) from None
