"""Chooses what of a fine-tune is uploaded, and what is left out, with the reason.

Files are sent by a list of names: a file that no loader of the model reads stays here. Settings
lose the paths of this machine; other text with a path, a token or the system prompt is refused.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from zoo.gym.delta.origin.record import ORIGIN_FILE
from zoo.gym.delta.origin.usage import licence_head
from zoo.gym.errors import GymError, InputError
from zoo.gym.files import read_errors
from zoo.gym.push.card import delta_card, model_card
from zoo.gym.push.traces import paths_in, public_base, traces_in, without_paths
from zoo.gym.tuned.record import Record
from zoo.gym.tuned.source import Source
from zoo.models import resolve
from zoo.models.checkpoint_files import checkpoint_files

CARD = "README.md"
_VOCABULARIES = {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model"}
_SETTINGS = {
    *("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "adapter_config.json", ORIGIN_FILE),
}
_TEXTS = {CARD, "chat_template.jinja", "model.safetensors.index.json"}
_LEGAL = ("LICENSE", "LICENCE", "NOTICE", "USE_POLICY")
_WEIGHTS = {"adapter_model.safetensors"}
_HEADER_BYTES = 100_000_000
_REASONS = (
    (r"optimizer.*|.*\.(optim|opt)|trainer_state\.json|rng_state.*|step-\d+", "training state"),
    (r"events\.jsonl|worker\..*|samples\.jsonl|training_log\.json|answers\.json", "log of a run"),
    (r"config\.yaml|env\.json|split\.json|retention\.json", "settings of a run"),
    (r".*\.(jsonl|csv|parquet|txt|tsv)", "may be rows of data"),
    (r".*\.(bin|pt|pth|ckpt|pkl|pickle|npy|npz)", "may run code when it is loaded"),
    (r".*\.(py|sh|so|dll)", "code"),
)


@dataclass(frozen=True)
class Upload:
    """A file of an upload: its name in the repository, and a file here or its content."""

    name: str
    source: Path | bytes

    @property
    def size_bytes(self) -> int:
        """The bytes that are sent."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size


@dataclass(frozen=True)
class Contents:
    """What is sent, and what is not.

    Attributes:
        files: sorted by name.
        left_out: names of files in the same folder that stay here, with the reason.
        changed: what was changed in files before they are sent, in words.
        base: the base's name, without a path.
        licence: that of the card or of the base; None if it is not known.
    """

    files: tuple[Upload, ...]
    left_out: tuple[tuple[str, str], ...]
    changed: tuple[str, ...]
    base: str | None
    licence: str | None

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size_bytes for file in self.files)


def contents_of(source: Source) -> Contents:
    """Returns what an upload of a fine-tune consists of.

    Raises:
        InputError: it is damaged or no folder; a file is a link, or contains a path of this
            machine, a token or the system prompt of its run.
        NotAvailableError: it is missing.
        StorageError: a file cannot be read.
    """
    if source.artifact == "delta":
        return _delta_contents(source)
    if not source.folder.is_dir() or (source.artifact == "model" and not source.path.is_dir()):
        raise InputError(
            f"{source.path}: expected a folder of a model or an adapter, or a delta",
            code="push.not_a_folder",
        )
    sent = _weights_of(source) | {name for name in _names(source.folder) if _is_kept(name)}
    base = public_base(source.base) if source.base else _stated(source.folder, "base_model")
    system, changed, files = Record(source).system or "", list[str](), list[Upload]()
    for name in sorted(sent):
        file, changes = _cleaned(source.folder / name, name, system)
        files.append(file)
        changed += changes
    licence = _licence(source, base)
    if CARD not in sent:
        card = model_card(base, licence, adapter=source.artifact == "adapter")
        files.append(Upload(CARD, card.encode()))
    left_out = tuple((name, _reason(name)) for name in _names(source.folder) if name not in sent)
    in_order = tuple(sorted(files, key=lambda file: file.name))
    return Contents(in_order, left_out, tuple(changed), base, licence)


def _delta_contents(source: Source) -> Contents:
    header, system = source.delta.header, Record(source).system or ""
    _refuse_traces(source.path.name, header.model_dump_json(), system)
    _refuse_paths(source.path.name, header.content())
    licence = _licence(source, header.base.id)
    card = delta_card(header, source.path.name, licence)
    _refuse_traces(CARD, card, system)
    files = (Upload(CARD, card.encode()), Upload(source.path.name, source.path))
    return Contents(files, (), (), header.base.id, licence)


def _weights_of(source: Source) -> set[str]:
    if source.artifact == "adapter":
        return {name for name in _names(source.folder) if name in _WEIGHTS}
    return {path.name for path in checkpoint_files(source.folder)}


def _names(folder: Path) -> list[str]:
    with read_errors(folder):
        return sorted(path.name for path in folder.iterdir())


def _is_kept(name: str) -> bool:
    return name in _SETTINGS | _TEXTS | _VOCABULARIES or name.startswith(_LEGAL)


def _reason(name: str) -> str:
    reasons = (reason for pattern, reason in _REASONS if re.fullmatch(pattern, name))
    return next(reasons, "no file that a model is loaded from")


def _cleaned(path: Path, name: str, system: str) -> tuple[Upload, Iterator[str]]:
    """Returns a file as it is sent, and what was changed in it.

    Raises:
        InputError: see `contents_of`.
    """
    if path.is_symlink() or not path.is_file():
        raise InputError(
            f"{path}: expected a file, got a link or a folder",
            hint="copy the folder with its files (cp -rL), and push the copy",
            code="push.link",
        )
    with read_errors(path):
        if path.suffix == ".safetensors":
            _refuse_traces(name, _metadata(path), system)
            return Upload(name, path), iter(())
        content = path.read_bytes()
    text = content.decode("utf-8", "replace")
    changed: list[str] = []
    if name in _SETTINGS:
        settings, changed = without_paths(_settings(path, text))
        _refuse_paths(name, settings)
        text = json.dumps(settings, indent=2) + "\n" if changed else text
    if name == CARD:
        _refuse_paths(name, _head(text))
    _refuse_traces(name, text, system, paths=name not in _VOCABULARIES)
    upload = Upload(name, text.encode() if changed else content)
    return upload, (f"{name}: the path in {key}" for key in changed)


def _settings(path: Path, text: str) -> dict[str, object]:
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise InputError(f"{path}: expected a JSON object", code="push.bad_settings")
    return settings


def _metadata(path: Path) -> str:
    """Returns the header of a safetensors file, which may have text of its writer."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return file.read(min(size, _HEADER_BYTES)).decode("utf-8", "replace")


def _refuse_traces(name: str, text: str, system: str, *, paths: bool = True) -> None:
    if traces := list(traces_in(text, system, paths=paths)):
        raise InputError(
            f"{name}: expected nothing private, got {' and '.join(traces)}",
            hint="remove it from a copy of the folder, and push that",
            code="push.private",
        )


def _refuse_paths(name: str, settings: object) -> None:
    if keys := list(paths_in(settings)):
        raise InputError(
            f"{name}: expected no path of this machine, got one in {keys[0]}",
            hint="remove it from a copy of the folder, and push that",
            code="push.private",
        )


def _licence(source: Source, base: str | None) -> str | None:
    """Returns the licence by the cards of the fine-tune and of its base, or by our list."""
    if source.artifact != "delta" and (stated := _stated(source.folder, "license")):
        return stated
    if base is None or source.base is None:
        return None
    if listed := licence_head(base).get("license"):
        return listed
    try:
        return _stated(resolve(source.base, offline=True).folder, "license")
    except GymError:  # the base need not be here
        return None


def _stated(folder: Path, key: str) -> str | None:
    """Returns a text in the front matter of a card."""
    path = folder / CARD
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    value = _head(text).get(key)
    return value if isinstance(value, str) and value.strip() else None


def _head(card: str) -> dict[str, object]:
    """Returns the front matter of a card; nothing if it has none that can be read."""
    match = re.match(r"---\n(.*?)\n---\n", card, re.DOTALL)
    try:
        head = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError:
        return {}
    return head if isinstance(head, dict) else {}
