"""Finds what a command works on: a run's result, an adapter, a delta, and the base of each."""

from dataclasses import dataclass
from pathlib import Path

from zoo.gym.cli.items import existing
from zoo.gym.cli.options import consent
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.jobs import Run, open_run, reconcile
from zoo.models import Resolved, resolve
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import read_object
from zoo.models.offline import go_offline


@dataclass(frozen=True)
class Tuned:
    """A fine-tune, in whatever form.

    Attributes:
        folder: a whole model, which needs no base.
        adapter: a peft folder.
        delta: a delta file.
        base: the name of the base that adapter or delta tell.
    """

    folder: Path | None = None
    adapter: Path | None = None
    delta: Path | None = None
    base: str | None = None


def find_tuned(*, run: str | None, adapter: str | None, delta: str | None) -> Tuned:
    """Returns the one fine-tune that was named, or an empty `Tuned` where none was.

    Raises:
        InputError: more than one was named, or it is not of its kind.
        NotAvailableError: it is absent.
    """
    named = {"--run": run, "--adapter_name_or_path": adapter, "--delta": delta}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[1]}: expected one of {', '.join(named)}, got also {given[0]}")
    if run is not None:
        found = open_run(run)
        result, base = result_of(found), run_config(found).model_name_or_path
        is_adapter = (result / CONFIG_FILE).is_file()
        return Tuned(adapter=result, base=base) if is_adapter else Tuned(folder=result)
    if adapter is not None:
        folder = existing(adapter, "a peft folder")
        return Tuned(adapter=folder, base=adapter_base(folder))
    if delta is not None:
        file = existing(delta, "a delta file")
        return Tuned(delta=file, base=delta_base(file))
    return Tuned()


def result_of(run: Run) -> Path:
    """Returns the folder of a run's trained model.

    Raises:
        GymError: the run has none yet.
    """
    if not run.result.is_dir():
        state = reconcile(run).state
        words = "makes one of its best step so far" if state != "done" else "shows more"
        verb = "finish" if state != "done" else "show"
        raise GymError(
            f"run '{run.id}' has no result yet: expected a run that is done, got {state}",
            hint=f"zoo-gym runs {verb} {run.id} {words}",
        )
    return run.result


def run_around(path: Path) -> Run | None:
    """Returns the run whose result a path is, or is a file of; None for any other path."""
    whole = path.resolve()
    for result in (whole, whole.parent):
        run = Run(result.parent)
        if run.result == result and run.config_file.is_file() and run.env_file.is_file():
            return run
    return None


def run_config(run: Run) -> TrainConfig:
    """Returns the settings that a run was made with."""
    return load_config([run.config_file], [], {}).config


def adapter_base(folder: Path) -> str | None:
    """Returns the base model that a peft folder names, or None where it names none.

    Raises:
        InputError: it is no peft folder.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder}: expected a peft folder with {CONFIG_FILE}, got none")
    name = read_object(path).get("base_model_name_or_path")
    return name if isinstance(name, str) else None


def delta_base(file: Path) -> str:
    """Returns the name of the base that a delta belongs to, with its revision.

    Raises:
        InputError: the file is no sound delta.
    """
    from zoo.gym.delta import load_delta

    base = load_delta(file).header.base
    return f"{base.id}@{base.revision}" if base.revision else base.id


def resolve_base(
    given: str | None, told: str | None, option: str, *, yes: bool, offline: bool
) -> Resolved:
    """Returns the base model: the one that the user names, else the one that the fine-tune tells.

    Args:
        given: the value of `option`, if there was one.
        told: the name that a run, an adapter or a delta tells.
        option: what to type to name the base.
        yes: consent to a download.
        offline: never ask the hub.

    Raises:
        InputError: nobody names a base.
        NotAvailableError: it is not here; for a told one with what to type.
    """
    name = told if given is None else given
    if name is None or not name.strip():
        raise InputError(
            f"{option}: expected a model's name or folder, got nothing",
            hint=f"{option} zen-nano, or zen-pico, which needs no download",
        )
    try:
        return resolve_model(name, yes=yes, offline=offline)
    except NotAvailableError as error:
        if given is not None or "/" in name:
            raise
        message = f"base model '{name}' is not known by that name: {error.message}"
        raise NotAvailableError(message, hint=f"name its folder: {option} FOLDER") from None


def resolve_model(name: str, *, yes: bool, offline: bool) -> Resolved:
    """Finds a model, fetching it after a yes; after that this process asks the hub no more.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    found = resolve(name, offline=offline, confirm=consent(yes=yes))
    go_offline()
    return found


def run_or_path(source: str) -> Run | Path:
    """Returns the run or the path that `source` names; a path that is there wins.

    Raises:
        NotAvailableError: there is neither.
    """
    path = Path(source).expanduser()
    if path.exists():
        return path
    try:
        return open_run(source)
    except NotAvailableError as error:
        raise NotAvailableError(
            f"{source}: expected a run, a model folder or a .safetensors file, got none of them",
            hint=error.hint,
        ) from None
