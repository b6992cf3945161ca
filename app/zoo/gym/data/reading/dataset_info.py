"""Reads `dataset_info.json` of LLaMA-Factory: names of data sets, their files, columns and roles.

An entry applies to its file wherever that file is given, so a run needs to store only the path.
Entries of data sets on a hub, and of scripts, are refused by name: data is read from files.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from zoo.gym.data.reading.columns import PUBLISHED, Layout, suggestion
from zoo.gym.data.reading.turns.values import described, type_name, wrong_type
from zoo.gym.errors import InputError

INFO_FILE = "dataset_info.json"

Fields = dict[str, object]

_ELSEWHERE = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name")
_KEYS = ("file_name", "formatting", "ranking", "split", "num_samples", "columns", "tags")
_TURNS = ("messages", "conversations", "chosen", "rejected")
_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}

_OF_DATASETS = {"builder_name", "citation", "download_checksums", "features", "splits"}
"""Keys of the file of the same name that the library `datasets` writes; it describes no columns."""

_ROLES = {
    **{tag: tag.removesuffix("_tag") for tag in ("user_tag", "assistant_tag", "observation_tag")},
    "function_tag": "function_call",
    "system_tag": "system",
}


@dataclass(frozen=True)
class Entry:
    """The description of one file.

    Attributes:
        where: `dataset_info.json: 'name'`, for messages.
        columns: column of the file -> our key; empty to detect the format of each row.
        tags: the names of the keys and roles of turns; empty to detect them.
        num_samples: use only the first so many rows; None for all.
    """

    where: str
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    num_samples: int | None = None

    @property
    def content(self) -> str:
        """What it changes, as JSON; the same for entries with the same effect."""
        return json.dumps([self.columns, self.tags, self.num_samples], sort_keys=True)

    def applied(self, fields: Fields) -> tuple[Fields, frozenset[str]]:
        """Returns a row under our keys, and the keys of the row that the entry does not list.

        Raises:
            InputError: a turn has an unknown role.
        """
        ours = fields
        if self.columns:
            ours = {self.columns[key]: part for key, part in fields.items() if key in self.columns}
        if self.tags:
            ours = ours | {key: self._turns(ours[key]) for key in _TURNS if key in ours}
        return ours, frozenset(fields.keys() - self.columns if self.columns else ())

    def _turns(self, value: object) -> object:
        """Returns a turn, or a list of turns, with our keys and roles."""
        if isinstance(value, list):
            return [self._turn(turn) for turn in cast("list[object]", value)]
        return self._turn(value)

    def _turn(self, value: object) -> object:
        if not isinstance(value, dict):
            return value
        turn = dict(cast("Fields", value))
        role, text = (turn.pop(self.tags[tag], None) for tag in ("role_tag", "content_tag"))
        roles = {self.tags[tag]: ours for tag, ours in _ROLES.items()}
        if not isinstance(role, str) or role not in roles:
            raise InputError(
                f"unknown role {described(role)}: expected one of {', '.join(roles)} "
                f"({self.where})",
                code="data.unknown_role",
            )
        return {**turn, "role": roles[role], "content": text}


def description_of(path: Path, layout: Layout) -> Entry | None:
    """Returns how the settings describe a file, else how a `dataset_info.json` does, or None.

    Raises:
        InputError: see `entry_of`.
    """
    entry = entry_of(path)
    return replace(entry or Entry("columns"), columns=layout.keys) if layout.columns else entry


def entry_of(path: Path) -> Entry | None:
    """Returns the entry for a data file in a `dataset_info.json` beside or above it, or None.

    Of a link, the folders above what it points to are searched, too.

    Raises:
        InputError: a file near the data is not valid, the entry has unknown keys, or two entries
            differ.
    """
    above = list(path.absolute().parents)
    for folder in dict.fromkeys((*above, *path.resolve().parents)):
        info = folder / INFO_FILE
        if not info.is_file():
            continue
        try:
            named = _read(info)
        except InputError:
            if folder in above[:2]:
                raise
            continue  # of something else
        entries = [
            _entry(info, name, fields)
            for name, fields in named.items()
            if _describes(folder, fields, path)
        ]
        if len({entry.content for entry in entries}) > 1:
            names = " and ".join(entry.where.rpartition(": ")[2] for entry in entries)
            raise InputError(
                f"{info}: {path.name}: expected one description of the file, got {names}",
                hint="remove the others, or describe a copy of the file",
                code="data.two_entries",
            )
        if entries:
            return entries[0]
    return None


def far_entry(path: Path) -> Entry | None:
    """Returns the entry of a file if it is farther than beside the file or a folder above."""
    entry = entry_of(path)
    near = [f"{folder / INFO_FILE}: " for folder in list(path.absolute().parents)[:2]]
    return None if entry is None or entry.where.startswith(tuple(near)) else entry


def named_files(name: str, folder: Path | None) -> list[Path] | None:
    """Returns the files of a data set named in a `dataset_info.json`, or None if there is no such.

    Args:
        folder: the folder with the file; None for the working folder or `data` in it.

    Raises:
        InputError: the file has no such entry, or one of a data set elsewhere.
    """
    folders = [folder] if folder is not None else [Path(), Path("data")]  # as LLaMA-Factory does
    infos = [parent / INFO_FILE for parent in folders if (parent / INFO_FILE).is_file()]
    for info in infos:
        entries = _read(info)
        if name not in entries:
            continue
        entry = _entry(info, name, entries[name])
        file = info.parent / str(entries[name]["file_name"])
        # a run stores the path alone
        if (entry_of(file) or Entry("")).content != entry.content:
            raise InputError(
                f"{entry.where}: expected the file in this folder or below it, got {file}",
                hint=f"move the entry to a {INFO_FILE} beside the file",
                code="data.far_file",
            )
        return [file]
    if infos and not Path(name).suffix:
        mean = suggestion(name, _read(infos[0]))
        raise InputError(
            f"dataset: {name}: no such file, and no such entry in {infos[0]}{mean}",
            code="data.unknown_data_set",
        )
    return None


def _describes(folder: Path, fields: Fields, path: Path) -> bool:
    name = fields.get("file_name")
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    described_path, file = (folder / name).resolve(), path.resolve()
    return described_path == file or described_path in file.parents


def _read(info: Path) -> dict[str, Fields]:
    try:
        content: object = json.loads(info.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{info}: not valid JSON: {error}", code="data.bad_json") from None
    entries = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    if _OF_DATASETS & entries.keys():
        return {}
    if not entries or not all(isinstance(fields, dict) for fields in entries.values()):
        raise InputError(
            f"{info}: expected an object with an object for each data set", code="data.bad_entry"
        )
    return cast("dict[str, Fields]", entries)


def _entry(info: Path, name: str, fields: Fields) -> Entry:
    where = f"{info}: {name!r}"

    def bad_entry(problem: str) -> InputError:
        return InputError(f"{where}: {problem}", code="data.bad_entry")

    elsewhere = [key for key in _ELSEWHERE if fields.get(key)]
    if elsewhere:
        raise InputError(
            f"{where}: a data set elsewhere is not supported: expected 'file_name', got "
            f"{elsewhere[0]!r}",
            hint="download it, and give its files",
            code="data.remote_data_set",
        )
    _refuse_unknown(where, fields, _KEYS)
    if not isinstance(fields.get("file_name"), str):
        raise bad_entry(f"expected 'file_name', got {type_name(fields.get('file_name'))}")
    if fields.get("split", "train") != "train":
        raise bad_entry("'split': expected 'train', the only one of a file")
    formatting = fields.get("formatting", "alpaca")
    if formatting not in ("alpaca", "sharegpt", "openai"):
        raise bad_entry(f"'formatting': expected alpaca, sharegpt or openai, got {formatting!r}")
    columns = _texts(where, fields, "columns", PUBLISHED)
    tags = _texts(where, fields, "tags", _TAGS)
    if tags and formatting == "alpaca":
        raise bad_entry("'tags' has no effect with formatting alpaca")
    ranking = fields.get("ranking", False)
    if not isinstance(ranking, bool):
        raise bad_entry(f"'ranking': expected true or false, got {type_name(ranking)}")
    compared = [key for key in ("chosen", "rejected") if key in columns]
    if ranking and columns and len(compared) < 2:
        raise bad_entry("'ranking' is true: expected the columns chosen and rejected")
    if compared and not ranking:
        raise bad_entry(f"the column {compared[0]}: expected 'ranking' true")
    ours = {column: PUBLISHED[key] for key, column in columns.items()}
    if columns.keys() == {"prompt"}:  # how texts to continue are described
        ours = {columns["prompt"]: "text"}
    count = fields.get("num_samples")
    if count is not None and (not isinstance(count, int) or count is True or count < 1):
        raise bad_entry(f"'num_samples': expected a number of rows, got {count!r}")
    return Entry(where, ours, {**_TAGS, **tags} if tags else {}, count)


def _refuse_unknown(where: str, fields: Fields, keys: Iterable[str]) -> None:
    for key in fields:
        if key not in keys:
            mean = suggestion(key, keys)
            raise InputError(f"{where}: {key}: no such key{mean}", code="data.unknown_key")


def _texts(where: str, fields: Fields, key: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts under a key of an entry, which must be an object with these keys."""
    texts = fields.get(key) or {}
    where = f"{where}: {key!r}"
    if not isinstance(texts, dict):
        raise wrong_type(where, "an object", texts)
    _refuse_unknown(where, texts, keys)
    for name, text in texts.items():
        if not isinstance(text, str):
            raise wrong_type(f"{where}: {name}", "text", text)
    return cast("dict[str, str]", texts)
