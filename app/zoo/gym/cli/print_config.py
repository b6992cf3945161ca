"""`zoo-gym train --print-config`: the settings, their origins, and what a run would choose."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import yaml

from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import memory_line
from zoo.gym.config import Loaded
from zoo.gym.config.conflicts import PAIRS
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import is_chosen
from zoo.gym.errors import NotAvailableError
from zoo.gym.train.planning.faults import check_engine
from zoo.gym.train.planning.memory import check_fit
from zoo.gym.train.run_folder.pinned import dataset_files
from zoo.models import registry, resolve

if TYPE_CHECKING:
    from zoo.gym.train.preview import Preview

MOST_BYTES = 32_000_000
"""With larger data, open settings stay open: reading it takes too long just to print them."""


def print_config(loaded: Loaded, out: Output) -> int:
    """Prints the settings with their origins; open ones with the values a run would choose.

    Raises:
        GymError: a run would be refused; if only for its memory, after the settings.
    """
    preview = _preview(loaded.config, out)
    choices = () if preview is None else preview.plan.choices
    config = _with_choices(loaded.config, preview)
    reasons = {choice.key: f"chosen: {choice.reason}" for choice in choices}
    origins = loaded.origins | reasons
    settings = config.model_dump(mode="json")
    for line in yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).splitlines():
        origin = _origin(line.partition(":")[0], config, origins, is_planned=preview is not None)
        out.answer(f"{line:<44}  # {origin}" if origin else line)
    if held_out := dataset_files(loaded.config).validation:
        out.answer(f"# held out: {', '.join(map(str, held_out))}")
    for ignored in loaded.ignored:
        out.answer(f"# without effect: {ignored.key} ({ignored.origin}): {ignored.reason}")
    memory = None if preview is None else preview.memory
    if preview is not None and memory is not None:
        out.answer(f"# {memory_line(memory.as_json()).strip()}")
        free = f"{preview.free_bytes / 1e9:.2f} GB are free on {preview.device}"
        out.answer(f"# {free}" + (f", for {preview.processes} processes" * (preview.processes > 1)))
        if warning := check_fit(memory, preview.device, preview.free_bytes, preview.processes):
            out.answer(f"# {warning}")
    ignored_keys = [asdict(ignored) for ignored in loaded.ignored]
    result = {"config": settings, "origins": origins, "ignored": ignored_keys}
    needed = None if memory is None else memory.as_json()
    free_bytes = None if preview is None else preview.free_bytes
    out.result(result | {"memory": needed, "free_bytes": free_bytes})
    return 0


def _preview(config: TrainConfig, out: Output) -> "Preview | None":
    """Returns what a run would do; None if that is not known yet. Stays offline.

    Raises:
        GymError: a run would be refused.
    """
    try:
        bases = [config.model_name_or_path, *config.other_models.values()]
        base, *_ = [resolve(name, offline=True) for name in bases]
    except NotAvailableError as error:
        check_engine(config)
        out.answer(f"# settings chosen at the start are not known yet: {error.message}")
        out.answer("# --print-config is always offline: it downloads nothing")
        if any(
            config.model_name_or_path in (entry.alias, entry.hub_id, *entry.published)
            for entry in registry()
        ):
            out.answer("# zoo-gym doctor lists the memory of the model without its files")
        return None
    from zoo.gym.train.rows import check_rows

    files = dataset_files(config).used
    check_rows(config, base.folder, files)
    if sum(file.stat().st_size for file in files) > MOST_BYTES:
        from zoo.gym.train.planning.faults import check_start
        from zoo.gym.train.planning.names import check_names

        check_start(config, base.folder)
        check_names(config, base.folder)
        return None
    from zoo.gym.train.preview import preview

    return preview(config, base)


def _with_choices(config: TrainConfig, preview: "Preview | None") -> TrainConfig:
    """Returns the settings with the values a run would choose."""
    if preview is None:
        return config
    keys = {choice.key for choice in preview.plan.choices} & set(type(config).model_fields)
    return config.model_copy(update={key: getattr(preview.plan.config, key) for key in keys})


def _origin(key: str, config: TrainConfig, origins: dict[str, str], *, is_planned: bool) -> str:
    field = type(config).model_fields.get(key)
    if field is not None and is_chosen(field) and getattr(config, key) is None:
        return _not_needed(key, config) if is_planned else "chosen at the start"
    return origins.get(key, "")


def _not_needed(key: str, config: TrainConfig) -> str:
    """Returns why a run leaves a setting open."""
    for first, second in PAIRS:
        if key == second and getattr(config, first) is not None:
            return f"not used: {first} decides"
    if key == "retain" and config.trains_adapter and config.retention:
        from zoo.gym.train.retaining import DEFAULT_SHARE

        return f"{DEFAULT_SHARE} if the model answers general questions, else 0"
    return "not used with these settings"
