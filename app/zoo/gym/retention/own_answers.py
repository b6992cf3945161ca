"""The model's own answers to general prompts, as rows that keep it as it is.

A run that stays close to the model's own distribution on them forgets less, see
`zoo.gym.objectives.retention`. They are greedy, of at most `ANSWER_TOKENS`; one that is cut has no
end.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.units import Example
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.gym.retention.answer import Asker
from zoo.gym.retention.questions import prompts

if TYPE_CHECKING:
    from zoo.backends.base import Policy

ANSWER_TOKENS = 6
"""The beginning of an answer decides what it becomes; twice as many tokens kept no more."""

FILE = "retained.jsonl"
"""In a run folder: the prompts, the answers, and their tokens."""


def own_answers(
    policy: "Policy", folder: Path, count: int, own: Mapping[str, object] | None = None
) -> list[dict[str, Any]]:
    """Returns the model's answers to the first `count` prompts, as `retained.jsonl` has them.

    Each has `prompt`, `answer`, `ids` and `learned_from`, the place of the answer's first token.
    An empty answer is left out, and a prompt that the model cannot read with an answer.
    """
    asker = Asker(policy, folder, own)
    encoded = {text: asker.prompt(text) for text in prompts()[:count]}
    encoded = {text: ids for text, ids in encoded.items() if asker.fits(ids, ANSWER_TOKENS)}
    rollouts = asker.answers(list(encoded.values()), ANSWER_TOKENS) if encoded else []
    return [
        {
            "prompt": text,
            "answer": asker.text(rollout),
            "ids": [*ids, *rollout.ids],
            "learned_from": len(ids),
        }
        for (text, ids), rollout in zip(encoded.items(), rollouts, strict=True)
        if asker.text(rollout)
    ]


def write_answers(path: Path, answers: list[dict[str, Any]]) -> str:
    """Writes answers, and returns the SHA-256 of the file."""
    content = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    write_beside(path, content)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def read_examples(path: Path, digest: str) -> list[Example]:
    """Returns the rows of a file of answers.

    Raises:
        InputError: it is missing, or not the file with this digest.
    """
    import numpy as np

    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != digest:
        got = "another one" if content else "no file"
        raise InputError(
            f"{path}: expected the answers that the run wrote at its start, got {got}",
            hint="put the file back, or start a new run",
            code="retention.damaged_answers",
        )
    if not content:
        return []
    examples: list[Example] = []
    # `splitlines` would also split at separators inside an answer, such as U+2028
    for number, line in enumerate(content.decode("utf-8").rstrip("\n").split("\n"), 1):
        row = json.loads(line)
        ids = np.array(row["ids"], dtype=np.int64)
        mask = np.arange(len(ids)) >= row["learned_from"]
        examples.append(Example(ids, mask, f"{path.name}:{number}", truncated=False))
    return examples
