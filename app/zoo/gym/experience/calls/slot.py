"""What names a call: its place in a run, and a key of all that the answer depends on."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from zoo.backends.sampling import Sampling

FRAME = 256
"""Tokens that a server's template may add to the messages."""

Phase: TypeAlias = Literal[
    "rollout", "teach", "probe", "kept", "gate", "base", "test", "prune", "infer", "label"
]
"""What a call is for: an answer of a group, a lesson, an answer with an edit in place, an answer to
a gate's task with the kept library or with the candidate, to a test's without or with the
library."""


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
        """Returns what an answer is found by: a hash of the model, the request and the slot."""
        how = self.sampling
        drawn = [how.max_new_tokens, how.temperature, how.top_p, how.top_k, *how.stop_strings]
        named = [model, list(self.messages), drawn, self.schema, list(self.slot)]
        text = json.dumps(named, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def prompt_bytes(self) -> int:
        """The most tokens that the messages can be: one a byte, and some for their frame."""
        sizes = (len(turn["content"].encode("utf-8", "replace")) for turn in self.messages)
        return sum(sizes) + 16 * len(self.messages) + FRAME
