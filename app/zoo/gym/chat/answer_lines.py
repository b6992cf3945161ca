"""Answers to a data file as lines of JSON, and what they depend on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.chat.rows import Reply
from zoo.gym.data.reading.dataset import fingerprint
from zoo.gym.data.records import Message
from zoo.gym.data.templates import template_text
from zoo.gym.terminal import plain_json
from zoo.models.gguf.parts import is_gguf, open_gguf


def line_of(reply: Reply) -> dict[str, object]:
    """Returns a reply as a line has it: a row's number, prompt, answer and figures, or an error."""
    question, answered = reply.question, reply.answered
    line: dict[str, object] = {"row": question.row}
    if question.turns:
        line["prompt"] = _prompt(question.turns)
    if question.reference is not None:
        line["reference"] = question.reference
    if answered is None:
        return line | {"error": reply.problem}
    return line | {
        "answer": answered.text,
        "finish": answered.finish,
        "prompt_tokens": answered.prompt_tokens,
        "completion_tokens": answered.completion_tokens,
    }


def text_of(line: dict[str, object]) -> str:
    """Returns a line as it is written."""
    return plain_json(line)


def _prompt(turns: Sequence[Message]) -> object:
    """Returns the text of a single question, and the turns of a conversation as OpenAI has them."""
    if [turn.role for turn in turns] == ["user"]:
        return turns[0].content
    return [_turn(turn) for turn in turns]


def _turn(turn: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.reasoning:
        fields["reasoning"] = turn.reasoning
    if turn.calls:
        fields["tool_calls"] = [
            {"name": call.name, "arguments": dict(call.arguments)} for call in turn.calls
        ]
    return fields


@dataclass
class Totals:
    """Counts of lines.

    Attributes:
        rows: lines, answered or not.
        errors: those without an answer.
        cut: answers that reached the maximum length.
    """

    rows: int = 0
    errors: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, line: dict[str, Any]) -> None:
        """Counts a line."""
        self.rows += 1
        self.errors += "error" in line
        self.cut += line.get("finish") == "length"
        self.prompt_tokens += line.get("prompt_tokens", 0)
        self.completion_tokens += line.get("completion_tokens", 0)


def settings_of(
    file: Path,
    base: Path,
    adapter: Path | None,
    delta: Path | None,
    template: str | None,
    sampling: dict[str, object],
) -> dict[str, object]:
    """Returns what answers depend on; files are named by the SHA-256 of their bytes.

    Args:
        file: the questions.
        base: the model.
        adapter: an adapter on it.
        delta: a delta on it.
        template: the chat template, by name or a file.
        sampling: the other settings.
    """
    text = None if template is None else template_text(template)
    return {
        "file": fingerprint([file]),
        "model": digest_of(base),
        "adapter": None if adapter is None else digest_of(adapter),
        "delta": None if delta is None else digest_of(delta),
        "template": None if text is None else hashlib.sha256(text.encode()).hexdigest(),
        **sampling,
    }


def digest_of(path: Path) -> str:
    """Returns 64 hex digits that identify a file, or the files of a model or adapter in a folder.

    A part of a split GGUF file stands for all parts. Hidden files and texts about the model (`.md`)
    do not count.
    """
    if path.is_file() and is_gguf(path):
        return open_gguf(path).sha256()
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for part in sorted(path.iterdir()):
        if part.is_file() and not part.name.startswith(".") and part.suffix != ".md":
            digest.update(f"{part.name}\0{digest_of(part)}\0".encode())
    return digest.hexdigest()
