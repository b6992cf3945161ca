"""Stores the split of a run, so that no later evaluation uses rows that were learned.

`split.json` has the indices of the held-out rows and the fingerprint of their data, and `env.json`
has the digest of `split.json`. Runs from before the file existed held out their last rows, which
is assumed for them.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import Dataset, Split, split_at_end, split_last, split_records
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.gym.train.run_folder.settings import read_env, update_env

SPLIT_FILE = "split.json"
SPLIT_KEY = "split_sha256"
"""In `env.json` of a run: the digest of its `split.json`."""

VERSION = 1


def run_split(folder: Path, config: TrainConfig, dataset: Dataset, data: str) -> Split:
    """Returns the run's stored split, or chooses and stores one.

    Args:
        folder: the run folder.
        config: the settings of the run.
        dataset: all usable rows.
        data: the fingerprint of the data.

    Raises:
        InputError: the stored split is damaged, missing or changed, or is for other data.
    """
    stored = stored_split(folder)
    if stored is None:
        old = (folder / "checkpoints").exists()
        split = (
            split_at_end(dataset.records, config.val_size) if old else new_split(config, dataset)
        )
        store_split(folder, split, data)
        return split
    if stored[0] != data:
        raise InputError(
            f"{folder / SPLIT_FILE}: expected the split of the run's data, got one of other data",
            code="train.damaged_file",
        )
    if _recorded(folder) is None:
        digest = _sha256((folder / SPLIT_FILE).read_bytes())
        update_env(folder / "env.json", {SPLIT_KEY: digest})
    return stored[1]


def new_split(config: TrainConfig, dataset: Dataset) -> Split:
    """Returns which rows a new run holds out: those of `eval_dataset`, or as `val_size` says."""
    if dataset.held_out:
        return split_last(dataset.records, dataset.held_out)
    return split_records(dataset.records, config.val_size, config.seed)


def store_split(folder: Path, split: Split, data: str) -> None:
    """Stores the split of a run.

    Args:
        folder: the run folder.
        split: of all usable rows.
        data: the fingerprint of the data.
    """
    content = {"v": VERSION, "data": data, "split": asdict(split)}
    text = json.dumps(content) + "\n"
    write_beside(folder / SPLIT_FILE, text)
    # after the file, so that a run killed in between can be resumed
    update_env(folder / "env.json", {SPLIT_KEY: _sha256(text.encode("utf-8"))})


def stored_split(folder: Path) -> tuple[str, Split] | None:
    """Returns the data fingerprint and the split that a run stored, or None if it stored none.

    Raises:
        InputError: the file is damaged, missing, or not the one that the run wrote.
    """
    path, recorded = folder / SPLIT_FILE, _recorded(folder)
    try:
        stored = path.read_bytes()
        value: object = json.loads(stored)
    except FileNotFoundError:
        if recorded is not None:
            raise _not_the_one_written(path, "no file") from None
        return None
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    content = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    split, data = content.get("split"), content.get("data")
    if content.get("v") != VERSION or not isinstance(split, dict) or not isinstance(data, str):
        raise _damaged(path)
    fields = cast("dict[str, Any]", split)
    rows, held_out, cut = fields.get("rows"), fields.get("held_out"), fields.get("cut")
    if not isinstance(rows, int) or not isinstance(held_out, list):
        raise _damaged(path)
    places = cast("list[object]", held_out)
    if not all(isinstance(index, int) and 0 <= index < rows for index in places):
        raise _damaged(path)
    # earlier versions split a long text only if it was the only row, and stored no `cut_row`
    duplicates, cut_row = fields.get("duplicates"), fields.get("cut_row", 0)
    same_prompt = fields.get("same_prompt")
    if isinstance(cut, int) and cut_row not in places:
        raise _damaged(path)
    if recorded not in {None, _sha256(stored)}:
        raise _not_the_one_written(path, "another one")
    return data, Split(
        rows,
        tuple(sorted({index for index in places if isinstance(index, int)})),
        cut if isinstance(cut, int) else None,
        duplicates if isinstance(duplicates, int) else 0,
        cut_row if isinstance(cut_row, int) else 0,
        same_prompt if isinstance(same_prompt, int) else 0,
    )


def _recorded(folder: Path) -> str | None:
    """Returns the stored digest of the split that a run wrote, None if it stored none."""
    env_file = folder / "env.json"
    recorded = read_env(env_file).get(SPLIT_KEY) if env_file.is_file() else None
    return None if recorded is None else str(recorded)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _not_the_one_written(path: Path, got: str) -> InputError:
    return InputError(
        f"{path}: expected the split that the run wrote at its start, got {got}",
        hint="put the file back, or start a new run",
        code="train.damaged_file",
    )


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path}: expected the rows held out by a run, got a damaged file",
        hint="delta create --data FILE evaluates on rows that the run has not seen",
        code="train.damaged_file",
    )
