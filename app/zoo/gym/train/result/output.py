"""Checks `output_dir` and copies a run's result there, to the folder of the user's choice.

Files in it are replaced only with `overwrite_output_dir`, and only those of the same names. The
folder is checked before a run is created, before each training and at the end. The copy is atomic,
or, when overwriting, atomic per file. A run that was killed after the copy recognises it on resume
and writes it again.
"""

import filecmp
import os
import re
import shutil
from pathlib import Path

from zoo.gym.config.train import TrainConfig
from zoo.gym.delta.origin.record import is_result
from zoo.gym.errors import InputError
from zoo.gym.files import (
    check_new_folder,
    check_replaceable_folder,
    move_over,
    new_folder,
    private_path,
    settle_inside,
    storage_errors,
    sync_folder,
)
from zoo.gym.paths import ensure_folder, given_path, is_ours
from zoo.gym.train.run_folder.workspace import Workspace

_FULL_MODEL = re.compile(r"(pytorch_)?model(-\d+-of-\d+)?\.(safetensors|bin)")
_WEIGHTS = re.compile(rf"{_FULL_MODEL.pattern}(\.index\.json)?|adapter_(model|config)\.\w+")


def check_chosen_output(config: TrainConfig, result: Path | None = None) -> None:
    """Checks the `output_dir` of settings as `check_output` does; none is always accepted.

    Raises:
        InputError: see `check_output`, or it is the folder of a model of the settings.
        StorageError: see `check_output`.
    """
    output = output_folder(config)
    if output is None:
        return
    roles = {"base model": config.model_name_or_path, **config.other_models}
    roles |= {} if (start := config.adapter_name_or_path) is None else {"first adapter": start}
    for role, name in roles.items():
        if config.overwrite_output_dir and output.resolve() == given_path(name).resolve():
            raise InputError(
                f"output_dir: expected another folder than the {role}'s, got '{output}'",
                hint="choose another folder",
                code="train.bad_output",
            )
    assert config.output_dir is not None
    check_output(Path(config.output_dir), result, overwrite=config.overwrite_output_dir)


def check_output(folder: Path, result: Path | None = None, *, overwrite: bool = False) -> None:
    """Checks before the training that the result can be written without losing other files.

    Args:
        folder: the `output_dir`; it is created.
        result: the result of the run, whose files may be in `folder` after an interrupted end.
        overwrite: files of the result's names may be replaced.

    Raises:
        InputError: the folder contains other files, or is a link or a mount point; or, when
            overwriting, it contains a full model that no run wrote.
        StorageError: it, or its parent folder, cannot be written.
    """
    folder = given_path(folder)
    if folder.is_symlink():
        check_new_folder(folder)
    if overwrite:
        _check_overwritable(ensure_folder(folder))
        return
    if not _holds_only_copies(ensure_folder(folder), result):
        raise InputError(
            f"output_dir: expected no folder or an empty one, got files in '{folder}'",
            hint="choose a folder that does not exist yet, or replace the model in it: "
            "overwrite_output_dir=true",
            code="train.bad_output",
        )
    if os.path.ismount(folder):
        raise InputError(
            f"output_dir: expected a folder that can be renamed, got a mount point: '{folder}'",
            hint=f"choose a folder in it: '{folder / 'result'}'",
            code="train.bad_output",
        )
    ensure_folder(folder.absolute().parent)


def check_places(run: Workspace, config: TrainConfig) -> None:
    """Checks that the result of a run can be written where it belongs.

    Raises:
        InputError: the run's `result` is not a folder, or its `output_dir` is not free.
        StorageError: the `output_dir` cannot be written.
    """
    check_replaceable_folder(run.result)
    try:
        check_chosen_output(config, run.result)
    except InputError as error:
        # the `output_dir` of a run cannot be changed
        hint = f"move it away, then: zoo-gym runs resume {run.result.parent.name}"
        raise InputError(error.message, hint=hint, code="train.bad_output") from None


def output_folder(config: TrainConfig) -> Path | None:
    """Returns the `output_dir` as an absolute path, or None."""
    if config.output_dir is None:
        return None
    return given_path(config.output_dir).absolute()


def remove_copy(run: Workspace, config: TrainConfig) -> None:
    """Empties an `output_dir` that contains nothing but copies by this run.

    Raises:
        StorageError: a file cannot be removed.
    """
    output = output_folder(config)
    if output is None or not output.is_dir() or not _holds_only_copies(output, run.result):
        return
    with storage_errors(output):
        for file in output.iterdir():
            file.unlink()


def copy_to_output(run: Workspace, config: TrainConfig) -> Path:
    """Copies the result to `output_dir` and returns the folder of the model.

    If the folder was filled during the run, it warns and returns the run's own folder.

    Raises:
        StorageError: the folder cannot be written.
    """
    output = output_folder(config)
    if output is None:
        return run.result
    if config.overwrite_output_dir:
        _overwrite(run.result, output)
        return output
    try:
        with new_folder(output) as beside, storage_errors(output):
            for file in sorted(run.result.iterdir()):
                shutil.copyfile(file, beside / file.name)
    except InputError as error:
        text = f"output_dir was filled during the run: the model is only in '{run.result}'"
        run.events.emit("warn", message=f"{text} ({error.message})")
        return run.result
    return output


def _check_overwritable(folder: Path) -> None:
    """Refuses to mix a result with a full model that no run of ours wrote."""
    shards = sorted(path.name for path in folder.iterdir() if _FULL_MODEL.fullmatch(path.name))
    if shards and not is_result(folder):
        raise InputError(
            f"output_dir: expected no model or one that a run wrote, got '{folder / shards[0]}'",
            hint="choose another folder, or move that model away",
            code="train.bad_output",
        )


def _overwrite(result: Path, output: Path) -> None:
    """Replaces the files of an earlier result in a folder; other files stay."""
    check_output(output, overwrite=True)
    beside = private_path(output / result.name)
    with storage_errors(output):
        ours = is_result(output)
        try:
            shutil.copytree(result, beside, copy_function=shutil.copyfile)
            settle_inside(beside, keep_private=is_ours(output))
            names = {file.name for file in beside.iterdir()}
            for name in sorted(names):
                move_over(beside / name, output / name)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        for path in output.iterdir():
            if ours and path.name not in names and _WEIGHTS.fullmatch(path.name):
                path.unlink()  # weights of the earlier result, which would be loaded with these
        sync_folder(output)


def _holds_only_copies(folder: Path, result: Path | None) -> bool:
    """Returns whether each entry of a folder is a copy of a file in `result`; True if empty."""
    return not folder.is_symlink() and all(
        result is not None and _is_copy(file, result / file.name) for file in folder.iterdir()
    )


def _is_copy(file: Path, original: Path) -> bool:
    regular = not file.is_symlink() and file.is_file() and original.is_file()
    return regular and filecmp.cmp(file, original, shallow=False)
