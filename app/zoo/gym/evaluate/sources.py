"""Finds what is measured: a run, a fine-tune, a model, a GGUF file, or a model on a server."""

import warnings
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.chat.answer_lines import digest_of
from zoo.gym.chat.gguf import check_gguf, is_gguf_file
from zoo.gym.errors import GymWarning, InputError, NotAvailableError
from zoo.gym.experience.providers.names import Hosted, hosted
from zoo.gym.jobs import Run
from zoo.gym.paths import given_path
from zoo.gym.tuned.base import resolve_base
from zoo.gym.tuned.record import Record
from zoo.gym.tuned.source import Source, resolve_tuned
from zoo.gym.variants.store import find
from zoo.models import registry, resolve


@dataclass(frozen=True)
class Contender:
    """A model that is measured.

    Attributes:
        name: what a report calls it.
        base: the folder or the GGUF file that is loaded; None for a model on a server.
        base_name: what its base is called.
        tuned: the fine-tune; None for a model alone.
        lora: a LoRA adapter in GGUF.
        server: the model on a server.
        system: the system prompt of rows without one of their own.
        joint: what ends a prompt of a model without a chat template; None is as its files say.
    """

    name: str
    base: Path | None = None
    base_name: str = ""
    tuned: Source | None = None
    lora: Path | None = None
    server: Hosted | None = None
    system: str = ""
    joint: str | None = None

    @property
    def adapter(self) -> Path | None:
        """The adapter that is loaded on the base."""
        return self._of("adapter") or self.lora

    @property
    def delta(self) -> Path | None:
        """The delta that is loaded on the base."""
        return self._of("delta")

    @property
    def run(self) -> Run | None:
        """The run that trained it."""
        return None if self.tuned is None else self.tuned.run

    @property
    def parts(self) -> dict[str, Path | None]:
        """The files and folders that are loaded."""
        return {"base": self.base, "adapter": self.adapter, "delta": self.delta}

    @property
    def digests(self) -> dict[str, object]:
        """What its answers depend on, by the SHA-256 of the files."""
        digests: dict[str, object] = {
            part: None if path is None else digest_of(path) for part, path in self.parts.items()
        }
        if self.server is not None:
            digests["server"] = [self.server.provider.url, self.server.model]
        return digests | {"system": self.system, "joint": self.joint}

    def _of(self, artifact: str) -> Path | None:
        tuned = self.tuned
        return tuned.path if tuned is not None and tuned.artifact == artifact else None


def resolve_contender(word: str, base: str | None) -> Contender:
    """Returns what a word names; nothing is downloaded.

    A path that exists counts first, then a run, a variant (`BASE:NAME`), a model on a server, and
    the name of a model.

    Args:
        word: see above.
        base: the base of a fine-tune that records none, or another one.

    Raises:
        InputError: it is data, or a base is given that nothing uses.
        NotAvailableError: there is no such thing here.
    """
    path = given_path(word)
    if path.exists() and is_gguf_file(path):
        return _gguf(word, path, base)
    source = _fine_tune(word, path)
    if source is None or source.artifact == "model":
        if base is not None:
            raise InputError(
                f"--base: has no effect on {word!r}, a whole model", code="evaluate.no_effect"
            )
        return _whole(word, source)
    model = resolve_base(base, source.base, "--base", source.check)
    return Contender(_name(word, source), model.folder, model.id, source, system=_system(source))


def base_of(contender: Contender) -> Contender | None:
    """Returns the base of a fine-tune, which is asked as that is; None for a model alone.

    Of a run that trained whole weights it is what the run began with; None if that is absent.
    """
    tuned = contender.tuned
    if contender.lora is not None:
        return Contender(contender.base_name, contender.base)
    if tuned is None:
        return None
    base = contender.base
    if tuned.artifact == "model":
        try:
            base = None if tuned.base is None else resolve(tuned.base, offline=True).folder
        except (InputError, NotAvailableError):
            base = None
    if base is None:
        return None
    joint = Record(tuned).joint
    return Contender(contender.base_name, base, system=contender.system, joint=joint)


def _fine_tune(word: str, path: Path) -> Source | None:
    """Returns the fine-tune of a word; None for a name, which is a model's or a server's."""
    if path.exists():
        return resolve_tuned(word)
    if ":" in word and "://" not in word:
        try:
            return Source("delta", find(word).file)
        except (InputError, NotAvailableError):
            return None
    try:
        return resolve_tuned(word)
    except NotAvailableError as error:
        if error.code != "tuned.no_such_source":
            raise
        return None


def _whole(word: str, source: Source | None) -> Contender:
    if source is not None:
        system = _system(source)
        if source.run is None:  # a model, whatever it was trained from
            return Contender(word, source.path, word, system=system)
        name = _name(word, source)
        return Contender(name, source.path, source.base or "", source, system=system)
    if (server := hosted(word)) is not None:
        return Contender(word, server=server)
    try:
        return Contender(word, resolve(word, offline=True).folder, word)
    except NotAvailableError as error:
        if "/" in word or any(word.startswith(entry.alias) for entry in registry()):
            raise
        raise NotAvailableError(
            f"{word}: expected a run, a fine-tune, or a model, got none of these: {error.message}",
            hint="zoo-gym runs list, zoo-gym models list",
            code="evaluate.no_such_source",
        ) from None


def _gguf(word: str, path: Path, base: str | None) -> Contender:
    """Returns a file of llama.cpp: a model, or with a base an adapter on it."""
    if base is None:
        check_gguf(path)
        return Contender(word, path, word)
    model = given_path(base)
    check_gguf(model)
    return Contender(word, model, base, lora=path)


def _system(source: Source) -> str:
    """Returns the system prompt of a training, or none.

    Warns:
        GymWarning: there was one, and its text is not on this machine.
    """
    system = Record(source).system
    if system is None:
        warnings.warn(
            f"{source.path}: it was trained with a system prompt that is not on this machine: it "
            "is asked without",
            GymWarning,
            stacklevel=3,
        )
    return system or ""


def _name(word: str, source: Source) -> str:
    if source.run is not None and not given_path(word).exists():
        return source.run.id
    return word


def short(name: str) -> str:
    """Returns a name as a report shows it: a long path by its end."""
    return name if len(name) <= 40 else f"...{name[-37:]}"
