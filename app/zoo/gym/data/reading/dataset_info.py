"""Reads `dataset_info.json` of LLaMA-Factory: names of data sets, their files, columns and roles.

An entry applies to its file wherever that file is given, so a run needs to store only the path.
Entries of data sets on a hub, and of scripts, are refused by name: data is read from files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from zoo.gym.data.reading.columns import PUBLISHED, Layout
from zoo.gym.data.reading.turns.values import shown, type_name
from zoo.gym.errors import InputError

INFO_FILE = "dataset_info.json"
USUAL_FOLDER = "data"
"""Where LLaMA-Factory looks for it by default."""

Fields = dict[str, object]

_ELSEWHERE = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name")
_KEYS = ("file_name", "formatting", "ranking", "split", "num_samples", "columns", "tags")
_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
"""Tag of an entry -> its default."""

_OF_DATASETS = {"builder_name", "citation", "download_checksums", "features", "splits"}
"""Keys of the file of the same name that the library `datasets` writes; it describes no columns."""

_ROLES = {
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
_TURNS = ("messages", "conversations", "chosen", "rejected")


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

    def applied(self, row: object) -> tuple[object, frozenset[str]]:
        """Returns a row under our keys, and the keys of the row that the entry does not list.

        Raises:
            InputError: a turn has an unknown role.
        """
        if not isinstance(row, dict):
            return row, frozenset()
        fields = cast("Fields", row)
        ours = {self.columns[key]: value for key, value in fields.items() if key in self.columns}
        ours = ours if self.columns else dict(fields)
        if self.tags:
            ours |= {key: self._turns(ours[key]) for key in _TURNS if key in ours}
        return ours, frozenset(fields.keys() - self.columns if self.columns else ())

    def _turns(self, value: object) -> object:
        if isinstance(value, list):
            return [self._turn(turn) for turn in cast("list[object]", value)]
        return self._turn(value)

    def _turn(self, value: object) -> object:
        if not isinstance(value, dict):
            return value
        turn = dict(cast("Fields", value))
        role, text = (turn.pop(self.tags[tag], None) for tag in ("role_tag", "content_tag"))
        known = {self.tags[tag]: ours for tag, ours in _ROLES.items()}
        if not isinstance(role, str) or role not in known:
            got = shown(role) if isinstance(role, str) else type_name(role)
            expected = ", ".join(known)
            raise InputError(f"unknown role {got}: expected one of {expected} ({self.where})")
        return {**turn, "role": known[role], "content": text}


def described(path: Path, layout: Layout) -> Entry | None:
    """Returns what is said of a file: by the settings, else by a `dataset_info.json`, or None.

    Raises:
        InputError: see `entry_of`.
    """
    entry = entry_of(path)
    if not layout.columns:
        return entry
    return replace(entry or Entry("columns"), columns=layout.keys)


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
            entries = _read(info)
        except InputError:
            if folder in above[:2]:
                raise
            continue  # of something else
        found = [
            _entry(info, name, fields)
            for name, fields in entries.items()
            if _is_for(folder, fields, path)
        ]
        if len({entry.content for entry in found}) > 1:
            names = " and ".join(entry.where.rpartition(": ")[2] for entry in found)
            raise InputError(
                f"{info}: {path.name}: expected one description of the file, got {names}",
                hint="remove the others, or describe a copy of the file",
            )
        if found:
            return found[0]
    return None


def far_entry(path: Path) -> Entry | None:
    """Returns the entry of a file if it is farther than beside the file or a folder above."""
    entry = entry_of(path)
    near = [f"{folder / INFO_FILE}: " for folder in list(path.absolute().parents)[:2]]
    return None if entry is None or entry.where.startswith(tuple(near)) else entry


def named_files(name: str, folder: Path | None) -> list[Path] | None:
    """Returns the files of a data set named in a `dataset_info.json`, or None if there is no such.

    Args:
        name: the data set.
        folder: the folder with the file; None for the working folder or `data` in it.

    Raises:
        InputError: the file has no such entry, or one of a data set elsewhere.
    """
    folders = [folder] if folder is not None else [Path(), Path(USUAL_FOLDER)]
    infos = [place / INFO_FILE for place in folders if (place / INFO_FILE).is_file()]
    for info in infos:
        entries = _read(info)
        if name in entries:
            entry = _entry(info, name, entries[name])
            file = info.parent / str(entries[name]["file_name"])
            _require_found_again(file, entry)
            return [file]
    if infos and not Path(name).suffix:
        near = get_close_matches(name, _read(infos[0]), n=1)
        mean = f". Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"dataset: {name}: no such file, and no such entry in {infos[0]}{mean}")
    return None


def _is_for(folder: Path, fields: Fields, path: Path) -> bool:
    name = fields.get("file_name")
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    described, file = (folder / name).resolve(), path.resolve()
    return described == file or described in file.parents


def _require_found_again(file: Path, entry: Entry) -> None:
    """Refuses an entry that describes a file elsewhere: a run stores the path alone.

    Raises:
        InputError: the file has another entry or none, and would be read otherwise.
    """
    found = entry_of(file) or Entry("")
    if found.content != entry.content:
        raise InputError(
            f"{entry.where}: expected the file in this folder or below it, got {file}",
            hint=f"move the entry to a {INFO_FILE} beside the file",
        )


def _read(info: Path) -> dict[str, Fields]:
    try:
        found: object = json.loads(info.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{info}: not valid JSON: {error}") from None
    entries = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    if _OF_DATASETS & entries.keys():
        return {}
    if not entries or not all(isinstance(fields, dict) for fields in entries.values()):
        raise InputError(f"{info}: expected an object with an object for each data set")
    return cast("dict[str, Fields]", entries)


def _entry(info: Path, name: str, fields: Fields) -> Entry:
    where = f"{info}: {name!r}"
    elsewhere = [key for key in _ELSEWHERE if fields.get(key)]
    if elsewhere:
        raise InputError(
            f"{where}: a data set elsewhere is not supported: expected 'file_name', got "
            f"{elsewhere[0]!r}",
            hint="download it, and give its files",
        )
    _refuse_unknown(where, fields, _KEYS)
    if not isinstance(fields.get("file_name"), str):
        raise InputError(f"{where}: expected 'file_name', got {type_name(fields.get('file_name'))}")
    if fields.get("split", "train") != "train":
        raise InputError(f"{where}: 'split': expected 'train', the only one of a file")
    formatting = fields.get("formatting", "alpaca")
    if formatting not in ("alpaca", "sharegpt", "openai"):
        raise InputError(
            f"{where}: 'formatting': expected alpaca, sharegpt or openai, got {formatting!r}"
        )
    columns = _texts(where, fields, "columns", PUBLISHED)
    tags = _texts(where, fields, "tags", _TAGS)
    if tags and formatting == "alpaca":
        raise InputError(f"{where}: 'tags' has no effect with formatting alpaca")
    _check_ranking(where, fields.get("ranking", False), columns)
    ours = {column: PUBLISHED[key] for key, column in columns.items()}
    if columns.keys() == {"prompt"}:  # how texts to continue are described
        ours = {columns["prompt"]: "text"}
    count = _count(where, fields.get("num_samples"))
    return Entry(where, ours, {**_TAGS, **tags} if tags else {}, count)


def _check_ranking(where: str, ranking: object, columns: Mapping[str, str]) -> None:
    if not isinstance(ranking, bool):
        raise InputError(f"{where}: 'ranking': expected true or false, got {type_name(ranking)}")
    compared = [key for key in ("chosen", "rejected") if key in columns]
    if ranking and columns and len(compared) < 2:
        raise InputError(f"{where}: 'ranking' is true: expected the columns chosen and rejected")
    if compared and not ranking:
        raise InputError(f"{where}: the column {compared[0]}: expected 'ranking' true")


def _refuse_unknown(where: str, fields: Mapping[str, object], known: Sequence[str]) -> None:
    for key in fields:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            mean = f". Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{where}: {key}: no such key{mean}")


def _texts(where: str, fields: Fields, key: str, known: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts under a key of an entry, which must be an object with known keys."""
    found = fields.get(key) or {}
    if not isinstance(found, dict):
        raise InputError(f"{where}: {key!r}: expected an object, got {type_name(found)}")
    texts = cast("Fields", found)
    _refuse_unknown(f"{where}: {key!r}", texts, tuple(known))
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InputError(f"{where}: {key!r}: {name}: expected text, got {type_name(value)}")
    return cast("dict[str, str]", texts)


def _count(where: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{where}: 'num_samples': expected a number of rows, got {value!r}")
    return value
