"""`zoo-gym train --print-config`: the settings, their origins, and what a run would choose."""

from dataclasses import asdict

import yaml

from zoo.gym.cli.output import Output
from zoo.gym.config import Loaded
from zoo.gym.config.conflicts import PAIRS
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import is_chosen
from zoo.gym.errors import GymError
from zoo.models import resolve

MOST_BYTES = 32_000_000
"""With larger data, open settings stay open: reading it takes too long just to print them."""


def print_config(loaded: Loaded, out: Output) -> int:
    """Prints the settings with their origins; open ones with the values a run would choose."""
    config, reasons = _with_choices(loaded.config, out)
    origins = loaded.origins | {key: f"chosen: {reason}" for key, reason in reasons.items()}
    settings = config.model_dump(mode="json")
    for line in yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).splitlines():
        origin = _origin(line.partition(":")[0], config, origins, is_planned=bool(reasons))
        out.answer(f"{line:<44}  # {origin}" if origin else line)
    for ignored in loaded.ignored:
        out.answer(f"# without effect: {ignored.key} ({ignored.origin}): {ignored.reason}")
    ignored_keys = [asdict(ignored) for ignored in loaded.ignored]
    out.result({"config": settings, "origins": origins, "ignored": ignored_keys})
    return 0


def _with_choices(config: TrainConfig, out: Output) -> tuple[TrainConfig, dict[str, str]]:
    """Returns the settings with the values a run would choose, and the reasons; stays offline."""
    from zoo.gym.train.run_folder.pinned import dataset_files

    try:
        base = resolve(config.model_name_or_path, offline=True)
        files = dataset_files(config)
        if sum(file.stat().st_size for file in files) > MOST_BYTES:
            return config, {}
        from zoo.gym.train.planning.preview import preview

        plan = preview(config, base)
    except (GymError, OSError) as error:
        why = error.message if isinstance(error, GymError) else f"{error.filename}: no such file"
        out.answer(f"# settings chosen at the start are not known yet: {why}")
        return config, {}
    reasons = {choice.key: choice.reason for choice in plan.choices}
    values = {
        key: getattr(plan.config, key) for key in reasons.keys() & set(type(config).model_fields)
    }
    return config.model_copy(update=values), reasons


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
    return "not needed with the others"
