"""Finds the input of a command: a run's result, an adapter or a delta, and its base."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.options import consent
from zoo.gym.cli.output import Output
from zoo.gym.config import TrainConfig
from zoo.gym.config.foreign import without_effect
from zoo.gym.config.items import existing
from zoo.gym.data.templates import named_template
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.jobs import Run, Status, open_run, read_ended, reconcile
from zoo.gym.jobs.run import is_experience
from zoo.gym.paths import given_path
from zoo.models import Resolved, resolve
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import read_object
from zoo.models.offline import go_offline
from zoo.models.resolve import model_of_folder

if TYPE_CHECKING:
    from zoo.gym.delta.reading.remembered import Check


@dataclass(frozen=True)
class Tuned:
    """A fine-tune in any form.

    Attributes:
        folder: a whole model, which needs no base.
        adapter: a peft folder.
        delta: a delta file.
        base: the name of the base recorded in the adapter or delta.
    """

    folder: Path | None = None
    adapter: Path | None = None
    delta: Path | None = None
    base: str | None = None


def template_of(given: str | None, out: Output) -> str | None:
    """Returns what `--template` names; one of LLaMA-Factory's other names has no effect.

    Raises:
        InputError: it is neither a name nor a file.
    """
    if given is None:
        return None
    if reason := without_effect("template", given):
        out.say(f"without effect: --template {given}: {reason}")
        return None
    try:
        return named_template(given)
    except InputError as error:
        raise InputError(f"--template: {error.message}") from None


def find_tuned(*, run: str | None, adapter: str | None, delta: str | None) -> Tuned:
    """Returns the given fine-tune, or an empty `Tuned` if there is none.

    Raises:
        InputError: more than one was given, or it is of the wrong kind.
        NotAvailableError: it is missing.
    """
    named = {"--run": run, "--adapter_name_or_path": adapter, "--delta": delta}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[1]}: expected one of {', '.join(named)}, got also {given[0]}")
    if run is not None:
        found = open_run(run)
        result, base = result_of(found), run_config(found).model_name_or_path
        is_adapter = (result / CONFIG_FILE).is_file()
        return Tuned(adapter=result, base=base) if is_adapter else Tuned(folder=result, base=base)
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
        InputError: the run has none yet.
    """
    refuse_lessons(run)
    if not run.result.is_dir():
        status = reconcile(run)
        raise InputError(
            f"run '{run.id}' has no result yet: expected a run that is done, got {status.state}",
            hint=f"zoo-gym runs {_way_to_a_result(run, status)}",
        )
    return run.result


def refuse_lessons(run: Run) -> None:
    """Refuses a run of lessons, which has no weights.

    Raises:
        InputError: the run is one.
    """
    if is_experience(run):
        raise InputError(
            f"run '{run.id}' learned lessons: expected a run that trained weights",
            hint="zoo-gym chat --model MODEL --experience NAME uses lessons",
        )


def _way_to_a_result(run: Run, status: Status) -> str:
    if status.state == "done":
        return f"show {run.id} shows more"
    if status.live:
        return f"tail {run.id} follows it until it is done"
    result = read_ended(run.folder).result
    return f"finish {run.id} makes one of {result}" if result else f"resume {run.id} trains it"


def run_config(run: Run) -> TrainConfig:
    """Returns the settings of a run that trained weights.

    Raises:
        InputError: it learned lessons, or its settings are damaged.
    """
    from zoo.gym.train.run_folder.settings import read_settings

    refuse_lessons(run)
    return read_settings(run.config_file)


def adapter_base(folder: Path) -> str | None:
    """Returns the base model recorded in a peft folder, or None.

    Raises:
        InputError: it is not a peft folder.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder}: expected a peft folder with {CONFIG_FILE}, got none")
    name = read_object(path).get("base_model_name_or_path")
    return name if isinstance(name, str) else None


def delta_base(file: Path) -> str:
    """Returns the name of the base that a delta belongs to, with its revision.

    Raises:
        InputError: the file is not a valid delta.
    """
    from zoo.gym.delta import load_delta

    base = load_delta(file).header.base
    return f"{base.id}@{base.revision}" if base.revision else base.id


def resolve_delta_base(
    file: Path, given: str | None, option: str, *, yes: bool, offline: bool
) -> Resolved:
    """Returns the base of a delta: the one given by the user, otherwise the recorded one.

    Raises:
        GymError: the file is not a valid delta, or see `resolve_base`.
    """
    from zoo.gym.delta import load_delta
    from zoo.gym.delta.reading.identity import verify_base

    recorded = delta_base(file) if given is None else None
    check = partial(verify_base, load_delta(file))
    return resolve_base(given, recorded, option, check, yes=yes, offline=offline)


def resolve_base(
    given: str | None,
    recorded: str | None,
    option: str,
    check: "Check | None" = None,
    *,
    yes: bool,
    offline: bool,
) -> Resolved:
    """Returns the base model: the one given by the user, otherwise the one of the fine-tune.

    Args:
        given: the value of `option`, if there was one.
        recorded: the name in a run, an adapter or a delta.
        option: the option that specifies the base.
        check: refuses weights of another base than the recorded one; with it, a base that was used
            before is found in its folder.
        yes: consent to a download.
        offline: never contact the hub.

    Raises:
        InputError: there is no base.
        NotAvailableError: it is not here; the hint has the option.
    """
    from zoo.gym.delta.reading.remembered import remember_base

    name = recorded if given is None else given
    if name is None or not name.strip():
        raise InputError(
            f"{option}: expected a model's name or folder, got nothing",
            hint=f"{option} zen-nano, or zen-pico, a test model that needs no download",
        )
    if given is None and check is not None:
        name = _remembered(name, option, check)
    try:
        found = resolve_model(name, yes=yes, offline=offline)
    except NotAvailableError as error:
        if given is not None or "/" in name:
            raise
        message = f"base model '{name}' was not found: {error.message}"
        hint = f"{error.hint}; or give its folder: " if error.hint else "give its folder: "
        raise NotAvailableError(message, hint=f"{hint}{option} FOLDER") from None
    if given is not None:
        remember_base(found.folder)
    return found


def _remembered(name: str, option: str, check: "Check") -> str:
    """Returns the folder of a base that was used before, or its name if that finds it, or nothing.

    A name of a folder in the current one may be that of another model, so its weights are checked;
    the name of a model is not in doubt.
    """
    from zoo.gym.delta.reading.remembered import find_base, is_base

    with suppress(InputError, NotAvailableError):
        folder = resolve(name, offline=True).folder
        if model_of_folder(folder) is not None or is_base(folder, check):
            return name
    try:
        remembered = find_base(name, check)
    except InputError as error:
        raise InputError(error.message, hint=f"give one: {option} FOLDER") from None
    return name if remembered is None else str(remembered)


def resolve_model(name: str, *, yes: bool, offline: bool) -> Resolved:
    """Finds a model, downloading it after consent; then this process no longer uses the hub.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    return resolve_models([name], yes=yes, offline=offline)[0]


def resolve_models(names: Iterable[str], *, yes: bool, offline: bool) -> list[Resolved]:
    """Finds several models as `resolve_model` does; the hub is used for each.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    found = [resolve(name, offline=offline, confirm=consent(yes=yes)) for name in names]
    go_offline()
    return found


def run_or_path(source: str) -> Run | Path:
    """Returns the run or the path given as `source`; an existing path has precedence.

    Raises:
        InputError: it can be neither.
        NotAvailableError: there is neither.
    """
    path = given_path(source)
    if path.exists():
        return path
    try:
        return open_run(source)
    except NotAvailableError as error:
        raise NotAvailableError(
            f"{source}: expected a run, a model folder or a .safetensors file, got none of these",
            hint=error.hint,
        ) from None
