"""Stores the settings of a run, compares them on resume, and changes them only on request.

`config.yaml` is for people; `env.json` has the same settings under `settings`. If the two differ,
the file was edited, and a resume is refused. `env.py` checks the data.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from zoo.gym.config import TrainConfig, dump_config, extend_config, load_config
from zoo.gym.config.conflicts import require_processes
from zoo.gym.config.report import nearest, shown
from zoo.gym.config.stages import config_class
from zoo.gym.config.values import is_chosen
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.files.yaml_entries import parse_value, read_entries
from zoo.gym.train.planning.faults import check_engine
from zoo.gym.train.run_folder.pinned import with_own_rows

CHANGEABLE = (
    *("max_steps", "learning_rate", "save_steps", "eval_steps", "device"),
    *("num_processes", "sharding"),
)
"""The settings that a resume may change; any other change needs a new run."""

BEFORE_THE_KEY = {"append_eos": False, "early_stopping_steps": 0}
"""How runs were trained whose settings lack the key, where its default is another."""

FINISH_KEY = "finish_at"
"""In `env.json` of a run that was finished before its last step: the step of its result."""


def read_env(env_file: Path) -> dict[str, Any]:
    """Returns the contents of `env.json`.

    Raises:
        InputError: it is missing, or not a JSON object.
    """
    env = read_json_object(env_file)
    if env is None:
        raise InputError(
            f"{env_file}: expected a JSON object, got a missing or damaged file",
            hint="the run cannot be resumed: start a new one with the config.yaml next to it",
            code="train.damaged_file",
        )
    return env


def update_env(env_file: Path, values: Mapping[str, object]) -> None:
    """Adds values to `env.json`.

    Raises:
        InputError: the file is damaged.
    """
    env = read_env(env_file) | dict(values)
    write_beside(env_file, json.dumps(env, indent=2) + "\n")


def store_settings(config_file: Path, env_file: Path, config: TrainConfig) -> None:
    """Stores the settings of a run in both places."""
    # env.json first: open settings in config.yaml are then filled in by `stored_settings`
    update_env(env_file, {"settings": config.model_dump(mode="json")})
    write_beside(config_file, dump_config(config))


def stored_settings(config_file: Path, env_file: Path) -> TrainConfig:
    """Returns the stored settings of a run.

    Raises:
        InputError: a file is damaged, or `config.yaml` was edited; the message lists the keys.
        NotAvailableError: `config.yaml` is missing.
    """
    edited = _given(config_file)
    stored = settings_in(env_file)
    if stored is None:
        return edited
    _refuse_edits(config_file, edits(stored, edited), env_file.parent.name)
    return stored


def read_settings(config_file: Path) -> TrainConfig:
    """Returns the settings in the `config.yaml` of a run.

    Raises:
        InputError: they are damaged.
        NotAvailableError: the file is missing.
    """
    config = load_config([config_file], [], {}).config
    entries = {entry.key: entry.value for entry in read_entries(config_file)}
    return config.model_copy(update=_absent(entries))


def _absent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the keys that a run's settings lack.

    Without held-out rows no run has `early_stopping_steps`: nothing could end it.
    """
    lacking = BEFORE_THE_KEY.keys() - settings.keys()
    if settings.get("val_size") == 0:
        lacking -= {"early_stopping_steps"}
    return {key: BEFORE_THE_KEY[key] for key in lacking}


def _given(config_file: Path) -> TrainConfig:
    return with_own_rows(read_settings(config_file), config_file.parent)


def edits(stored: TrainConfig, edited: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Returns the stored and the given value of each setting that differs."""
    old, now = _values(stored), _values(edited)
    # see `store_settings`
    fields = type(edited).model_fields
    open_keys = {"date", *(key for key, field in fields.items() if is_chosen(field))}
    unfilled = {key for key in open_keys if now[key] is None}
    unfilled |= {"dtype"} if now["dtype"] == "auto" else set()
    return {
        key: (old[key], now[key]) for key in old if old[key] != now[key] and key not in unfilled
    }


def _values(config: TrainConfig) -> dict[str, Any]:
    """Returns all settings as JSON, also those that `model_dump` leaves out."""
    defaults = {key: field.default for key, field in type(config).model_fields.items()}
    return defaults | config.model_dump(mode="json")


def change_settings(
    config_file: Path, env_file: Path, items: Sequence[str], newest_step: int
) -> dict[str, tuple[Any, Any]]:
    """Changes some settings of a run before it is resumed.

    Args:
        config_file: the run's `config.yaml`.
        env_file: the run's `env.json`.
        items: `KEY=VALUE`, with keys in `CHANGEABLE`.
        newest_step: the step of the run's newest checkpoint.

    Returns:
        The old and the new value of each changed key.

    Raises:
        InputError: a key cannot be changed, a value is invalid, or another setting was edited.
        NotAvailableError: this machine lacks the device.
    """
    changes = _wanted(items)
    edited, env = _given(config_file), read_env(env_file)
    stored = settings_in(env_file) or edited
    other_edits = {key: pair for key, pair in edits(stored, edited).items() if key not in changes}
    _refuse_edits(config_file, other_edits, env_file.parent.name)
    device = changes.pop("device", None)
    _check_after_warmup(changes.get("max_steps"), stored.warmup_steps or 0, env_file.parent.name)
    config = extend_config(stored, changes | _accumulation(stored, changes))
    require_processes(config)
    if device is not None:
        _refuse_other_codes(config, env.get("device"), device)
    if device not in {None, env.get("device")} and config.dtype.startswith("bf16"):
        # the 16-bit format depends on the device
        config = extend_config(config, {"dtype": "auto"})
    if device not in {None, env.get("device")}:
        packs = config.packing if env.get("packing_given") else None
        check_engine(config.model_copy(update={"backend": device, "packing": packs}))
    if (config.max_steps or newest_step) < newest_step:
        raise InputError(
            f"max_steps: expected at least {newest_step}, the step of the newest checkpoint, "
            f"got {config.max_steps}",
            code="train.bad_change",
        )
    old = _values(stored) | {"device": env.get("device")}
    new = _values(config) | {"device": device or env.get("device")}
    changed = {key: (old[key], new[key]) for key in new if old[key] != new[key]}
    update_env(env_file, {"device": device} if device else {})
    if changed:
        record_change(env_file, newest_step, {"changed": changed})
    store_settings(config_file, env_file, config)
    return changed


def _accumulation(stored: TrainConfig, changes: Mapping[str, Any]) -> dict[str, int]:
    """Returns how many batches another number of processes accumulates: a step keeps its rows.

    Raises:
        InputError: they cannot be divided among so many.
    """
    processes = changes.get("num_processes")
    each = stored.gradient_accumulation_steps
    if type(processes) is not int or processes < 1 or each is None:
        return {}
    batches = each * stored.num_processes
    if batches % processes:
        raise InputError(
            f"num_processes: expected a number that divides the {batches} batches of a step, got "
            f"{processes}",
            code="train.bad_change",
        )
    return {"gradient_accumulation_steps": batches // processes}


def _refuse_other_codes(config: TrainConfig, old: object, device: object) -> None:
    """Refuses to go on over a base that another engine rounds to other values."""
    if config.quantization_bit is not None and (old == "mlx") is not (device == "mlx"):
        raise InputError(
            f"device: expected the engine that rounded the base at the start ({old}) with "
            f"quantization_bit, got {device}, whose codes are others",
            code="train.bad_change",
        )


def record_change(env_file: Path, step: int, change: Mapping[str, object]) -> None:
    """Stores a change of a run, with its time and step; the model card lists it."""
    entry = {"t": round(time.time(), 3), "step": step, **change}
    update_env(env_file, {"changes": [*changes_of(env_file), entry]})


def changes_of(env_file: Path) -> list[dict[str, Any]]:
    """Returns the changes of a run that `record_change` stored."""
    changes: object = read_env(env_file).get("changes")
    entries = cast("list[object]", changes) if isinstance(changes, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def finish_at(env_file: Path, step: int | None) -> None:
    """Stores the step at which the next worker makes the result; None trains to the last step.

    The settings stay those that the steps used: `max_steps` decides the learning rate of each.
    """
    if read_env(env_file).get(FINISH_KEY) != step:
        update_env(env_file, {FINISH_KEY: step})


def finish_step(env_file: Path) -> int | None:
    """Returns the step at which a run was finished before its last one, None for any other."""
    step = read_env(env_file).get(FINISH_KEY)
    return step if type(step) is int and step > 0 else None


def recipe_of(env_file: Path) -> dict[str, Any]:
    """Returns what the settings at the end of a run do not say: earlier ones, and an early end.

    Returns:
        `changes`, a list of the steps after which settings changed, with the old and the new
        value of each, and `finished_at_step`; each only where there is one.
    """
    changes = [
        {"step": change.get("step"), "changed": change["changed"]}
        for change in changes_of(env_file)
        if "changed" in change
    ]
    step = finish_step(env_file)
    recipe: dict[str, Any] = {"changes": changes} if changes else {}
    return recipe | ({"finished_at_step": step} if step else {})


def settings_in(env_file: Path) -> TrainConfig | None:
    """Returns the settings in `env.json`, or None if the run stored none.

    Raises:
        InputError: they are damaged.
    """
    stored = read_env(env_file).get("settings")
    if stored is None:
        return None
    settings = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    kind = config_class(settings.get("stage"))
    fields = {key: settings[key] for key in kind.model_fields if key in settings}
    fields |= _absent(settings)
    try:
        return with_own_rows(kind.from_text(fields), env_file.parent)
    except ValidationError:
        raise InputError(
            f"{env_file}: settings: expected those that the run began with, got damaged ones",
            hint="start a new run with the config.yaml next to it",
            code="train.damaged_file",
        ) from None


def _check_after_warmup(steps: object, warmup: int, run_id: str) -> None:
    """Refuses an end within the warm-up: the steps done used the rates of the whole warm-up."""
    if isinstance(steps, int) and steps <= warmup:
        raise InputError(
            f"max_steps: expected more than the {warmup} warm-up steps of this run, got {steps}",
            hint=f"to end it at its newest checkpoint: zoo-gym runs finish {run_id}; for a "
            "shorter run, start a new one: zoo-gym train",
            code="train.bad_change",
        )


def _wanted(items: Sequence[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for change in items:
        key, sign, text = change.partition("=")
        if not sign:
            raise InputError(f"--set {shown(change)}: expected KEY=VALUE", code="train.bad_change")
        if key not in CHANGEABLE:
            raise _fixed(key)
        if key in changes:
            raise InputError(f"--set {key}: given more than once", code="train.bad_change")
        changes[key] = value = parse_value(text)
        if value is None:
            raise InputError(f"--set {key}: expected a value, got nothing", code="train.bad_change")
    if "device" in changes:
        from zoo.backends.machine.detect import require

        require(str(changes["device"]))
    return changes


def _fixed(key: str) -> InputError:
    close = nearest(key, CHANGEABLE)
    mean = f". Did you mean '{close}'?" if close else ""
    return InputError(
        f"--set {key}: expected one of {', '.join(CHANGEABLE)}, which a resume may change{mean}",
        hint="any other setting needs a new run: zoo-gym train",
        code="train.bad_change",
    )


def _refuse_edits(config_file: Path, differing: Mapping[str, tuple[Any, Any]], run_id: str) -> None:
    if not differing:
        return
    lines = [
        f"{config_file}: {key} was edited since the run began: "
        f"expected {'no value' if old is None else shown(old)}, got {shown(now)}"
        for key, (old, now) in differing.items()
    ]
    if differing.keys() <= set(CHANGEABLE):
        named = " ".join(f"--set {key}={now}" for key, (_, now) in differing.items())
        hint = f"put it back, or change it with --set: zoo-gym runs resume {run_id} {named}"
    else:
        hint = f"put it back, or start a new run: zoo-gym train {config_file}"
    raise InputError("\n".join(lines), hint=hint, code="train.edited")
