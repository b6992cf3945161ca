"""What is exported: a fine-tune on its base with its tokenizer, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.data import EncodeOptions, chat_stops
from zoo.gym.data.own_tokenizer import Own, own_tokenizer
from zoo.gym.data.rendering.template import chat_template
from zoo.gym.data.tokenizer import Tokenizer
from zoo.gym.jobs.remove import size_bytes
from zoo.gym.tuned.opened import Tuned
from zoo.gym.tuned.record import Record
from zoo.models.folder import model_positions, vocabulary_size

if TYPE_CHECKING:
    from zoo.models import Resolved

DATE = "2024-07-26"
"""The date in a rendered prompt that is compared."""


@dataclass(frozen=True)
class Options:
    """What the user chose.

    Attributes:
        quantization: the type of the weights in a GGUF file.
        dtype: that in a model folder: `f32`, `bf16`, `f16`, or None for the base's.
        strict: whether a tensor that cannot have the chosen type is an error.
        check: whether another implementation opens what was written.
        force: whether an existing file or folder is replaced.
        name: the model's name, where a format has one.
        template: a chat template in place of the model's own, by name or a file.
    """

    quantization: str | None = None
    dtype: str | None = None
    strict: bool = False
    check: bool = True
    force: bool = False
    name: str | None = None
    template: str | None = None


@dataclass(frozen=True)
class Job:
    """An export.

    Attributes:
        tuned: the fine-tune, or whole weights.
        base: its base, as the user knows it.
        label: the name of the source, for files and cards.
        options: what the user chose.
        say: reports a note.
        compared: the fine-tune as it was given, if `tuned` are its merged weights.
    """

    tuned: Tuned
    base: "Resolved"
    label: str
    options: Options
    say: Callable[[str], None] = field(default=lambda _: None)
    compared: Tuned | None = None

    @property
    def given(self) -> Tuned:
        """The fine-tune as it was given."""
        return self.compared or self.tuned

    @property
    def record(self) -> Record:
        """How it was trained."""
        return self.given.record

    @property
    def folder(self) -> Path:
        """The folder with the config, and the tokenizer unless the fine-tune has its own."""
        is_model = self.tuned.source.artifact == "model"
        return self.tuned.source.folder if is_model else self.base.folder

    @cached_property
    def own(self) -> Own:
        """The tokenizer, with the chat template and the end-of-text token of the fine-tune."""
        source = self.given.source
        if source.artifact == "model":
            return own_tokenizer(source.folder, None, self.options.template)
        stored = self.record.tokenizer if source.artifact == "delta" else None
        return own_tokenizer(self.base.folder, source.path, self.options.template, stored)

    @property
    def tokenizer(self) -> Tokenizer:
        """See `own`."""
        return self.own.tokenizer

    def ids(self, text: str, *, bare: bool = False) -> list[int]:
        """Returns the tokens of a text, with what the tokenizer adds around it unless `bare`."""
        tokenizer = cast("Any", self.tokenizer)
        ids: list[int] = tokenizer(text, add_special_tokens=not bare)["input_ids"]
        return ids

    @cached_property
    def encoding(self) -> EncodeOptions:
        """How prompts become tokens."""
        return EncodeOptions(
            cutoff_len=model_positions(self.folder) or 1 << 30,
            date=DATE,
            vocabulary=vocabulary_size(self.folder),
            joint=self.record.joint,
        )

    @cached_property
    def template(self) -> str | None:
        """The chat template, or None for a model without."""
        chat = chat_template(self.tokenizer, DATE)
        return None if chat is None else chat.source

    @cached_property
    def stops(self) -> tuple[int, ...]:
        """The tokens that end an answer, that of the tokenizer first."""
        stops = chat_stops(self.folder, self.tokenizer, self.encoding)
        first = self.tokenizer.eos_token_id
        return tuple(sorted(stops, key=lambda token: (token != first, token)))


@dataclass(frozen=True)
class Preview:
    """What will be written.

    Attributes:
        size_bytes: of all files, about.
        facts: what the format reports.
        tag: what the default name says about the weights.
    """

    size_bytes: int
    facts: Mapping[str, Any]
    tag: str = ""


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        path: the file or the folder.
        format: its format.
        facts: what the format reports: types, bits per weight ...
        check: the measured figures by name; None if nothing was checked.
        notes: what the user should know.
        next: a command that uses it.
    """

    path: Path
    format: str
    facts: Mapping[str, Any]
    check: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()
    next: str | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of the file, or of all files in the folder."""
        return size_bytes(self.path)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as the command prints it."""
        return {
            "path": str(self.path),
            "format": self.format,
            "bytes": self.size_bytes,
            **self.facts,
            "check": self.check,
            "notes": list(self.notes),
            "next": self.next,
        }
