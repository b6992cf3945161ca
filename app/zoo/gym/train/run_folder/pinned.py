"""Pins the settings of a run, so that they do not depend on the date or the current folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import Ignored
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.tuning import MERGE
from zoo.gym.errors import InputError
from zoo.gym.humanize import today
from zoo.gym.paths import given_path
from zoo.gym.train.planning.continued import with_adapter
from zoo.gym.train.planning.faults import check_packages
from zoo.gym.train.run_folder.workspace import ROWS_FILE
from zoo.models import PICO, Resolved, pico_folder, resolve
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE

if TYPE_CHECKING:
    from zoo.gym.data.mixing import Mix
    from zoo.gym.data.reading.columns import Layout
    from zoo.gym.data.reading.files import DataFiles


def pinned(config: TrainConfig, model: Resolved) -> TrainConfig:
    """Returns the settings with the date, revisions of models, absolute paths and its adapter.

    The paths in `dataset` contain `dataset_dir`, so the settings no longer have one.

    Args:
        config: the settings as given.
        model: the model that `model_name_or_path` was resolved to.

    Raises:
        InputError: a file that `reward` names does not exist, or the adapter that is trained
            further contradicts the settings.
        NotAvailableError: another model of the settings is not on this machine, or a package is
            not installed.
    """
    check_other_files(config)
    config = with_adapter(config, model.folder)
    check_packages(config)
    data = dataset_files(config)
    update: dict[str, object] = {
        "model_name_or_path": _pinned_name(model),
        "date": config.date or today(),
    }
    for key, files in (("dataset", data.train), ("eval_dataset", data.validation)):
        update[key] = tuple(_absolute(str(path)) for path in files)
    update |= config.places_changed(_pinned_place)
    if config.output_dir is not None:
        update["output_dir"] = _absolute(config.output_dir)
    if config.dataset_dir is not None:
        update["dataset_dir"] = None
    return config.model_copy(update=update)


def dataset_files(config: TrainConfig) -> "DataFiles":
    """Returns the data files, those in a folder by name; `dataset_dir` is for relative paths.

    A name that is no file is looked up in the `dataset_info.json` of that folder. Files of a folder
    in `dataset` whose names say validation are held out, unless `eval_dataset` or `val_size` is
    set: then they are left out, like test files.

    Raises:
        InputError: a folder has no data files to learn from; a name is unknown; the shares of a mix
            are not those of the files.
    """
    from zoo.gym.data.mixing import check_mix
    from zoo.gym.data.reading.files import data_files, files_in

    files = data_files(_places(config, config.dataset))
    check_mix(len(files.train), mix_of(config))
    if config.eval_dataset:
        evaluated = tuple(files_in(_places(config, config.eval_dataset)))
        return files._replace(validation=evaluated, test=(*files.validation, *files.test))
    if "val_size" in config.given:
        return files._replace(validation=(), test=(*files.validation, *files.test))
    return files


def left_out(config: TrainConfig) -> tuple[Ignored, ...]:
    """Returns the files of folders in `dataset` that are neither learned nor held out."""
    if config.rows:
        return ()
    why = "not learned: its name says that it is for tests or evaluations"
    return tuple(Ignored("dataset", str(file), why) for file in dataset_files(config).test)


def _places(config: TrainConfig, names: Sequence[str]) -> list[Path]:
    """Returns the files and folders that names in `dataset` or `eval_dataset` mean."""
    from zoo.gym.data.reading.dataset_info import named_files

    folder = given_path(config.dataset_dir or "")
    paths: list[Path] = []
    for name in names:
        path = folder / given_path(name)
        named = (
            None
            if config.rows or path.exists()
            else named_files(name, folder if config.dataset_dir else None)
        )
        paths += named or [path]
    return paths


def mix_of(config: TrainConfig) -> "Mix":
    """Returns how the settings mix files."""
    from zoo.gym.data.mixing import Mix

    return Mix(config.mix_strategy, config.shares, config.seed)


def layout_of(config: TrainConfig) -> "Layout":
    """Returns what the settings say of the rows of all files."""
    from zoo.gym.data.reading.columns import Layout

    return Layout(config.columns or {}, config.me)


def check_other_files(config: TrainConfig) -> None:
    """Refuses files of functions, and adapters, that do not exist.

    Raises:
        InputError: one does not.
    """
    for label, path in config.other_files.items():
        if label == "adapter_name_or_path":
            _check_adapter(given_path(path))
        elif not given_path(path).exists():
            raise InputError(
                f"{label.partition(' ')[0]}: no such file: '{path}'",
                hint="a relative path starts in the working folder; a function without a file is "
                "module:function",
                code="train.no_such_file",
            )


def _check_adapter(folder: Path) -> None:
    if "," in str(folder) and not folder.exists():
        raise InputError(
            f"adapter_name_or_path: expected one adapter, got several: '{folder}'",
            hint=f"make a base that has the first ones merged: {MERGE}",
            code="train.bad_adapter",
        )
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise InputError(
                f"adapter_name_or_path: expected a folder with {name}, got '{folder}'",
                hint="the result of a run with finetuning_type lora is one: FOLDER/result, with "
                "the folder that zoo-gym runs show RUN prints",
                code="train.bad_adapter",
            )


def check_dataset_dir(config: TrainConfig) -> None:
    """Refuses a `dataset_dir` that no file is read from.

    Raises:
        InputError: every path in `dataset` is absolute.
    """
    if config.dataset_dir is None:
        return
    if all(given_path(name).is_absolute() for name in config.dataset):
        raise InputError(
            "dataset_dir: has no effect: expected a relative name in dataset, got "
            f"{', '.join(config.dataset)}",
            hint="remove dataset_dir, or give relative names in dataset",
            code="train.no_effect",
        )


def idle_date(config: TrainConfig, origin: str, model_folder: Path) -> tuple[Ignored, ...]:
    """Returns a given `date` if the model's chat template prints none.

    Args:
        config: the settings as given; pinned ones always have a date.
        origin: of the date, such as `flag`.
        model_folder: of the model to train.

    Raises:
        InputError: the tokenizer is missing or damaged.
    """
    from zoo.gym.data.own_tokenizer import tokenizer_of
    from zoo.gym.data.rendering.template import chat_template

    if config.date is None:
        return ()
    tokenizer = tokenizer_of(model_folder, config.first_adapter, config.template)
    template = chat_template(tokenizer, config.date)
    if template is not None and template.prints_date:
        return ()
    lacks = "no chat template" if template is None else "a chat template that prints no date"
    return (Ignored("date", origin, f"{config.model_name_or_path} has {lacks}"),)


def with_own_rows(config: TrainConfig, folder: Path) -> TrainConfig:
    """Returns the settings of a run with its own file of rows, wherever its folder is now.

    Args:
        config: as stored.
        folder: of the run.
    """
    here = folder / ROWS_FILE
    if len(config.dataset) != 1 or not here.is_file():
        return config
    stored = Path(config.dataset[0])
    is_own = stored.name == ROWS_FILE and stored.parent.name == folder.name and stored != here
    return config.model_copy(update={"dataset": (str(here),)}) if is_own else config


def base_name(base: Resolved) -> str:
    """Returns the base that an adapter records: a name, or the folder of a local model."""
    return base.id if base.is_in_cache or base.id == PICO else str(base.folder.resolve())


def _pinned_name(model: Resolved) -> str:
    if model.id == PICO and model.folder == pico_folder():
        return PICO
    return f"{model.id}@{model.revision}" if model.is_in_cache else _absolute(str(model.folder))


def _pinned_place(key: str, path: str) -> str:
    if key == "function":
        file, _, name = path.rpartition(":")
        return f"{_absolute(file)}:{name}" if file.endswith(".py") else path
    return (
        _absolute(path)
        if key in {"adapter", "template"}
        else _pinned_name(resolve(path, offline=True))
    )


def _absolute(path: str) -> str:
    return str(given_path(path).absolute())
