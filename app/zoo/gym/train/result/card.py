"""Writes the model card of a result: base, settings, data fingerprint; no text of the data."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import fingerprint
from zoo.gym.delta.origin.record import SYSTEM_KEY, joint_of
from zoo.gym.delta.origin.usage import licence_head, licence_line, usage_of
from zoo.gym.files import write_beside
from zoo.gym.paths import given_path
from zoo.gym.train.result.few_bits import loading_note
from zoo.models.adapters import WEIGHTS_FILE
from zoo.models.folder import is_reward_model

if TYPE_CHECKING:
    from zoo.models import Resolved


def write_card(
    folder: Path,
    config: TrainConfig,
    base: "Resolved",
    metrics: Mapping[str, object],
    changes: Sequence[Mapping[str, Any]] = (),
    doubt: str | None = None,
    env: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Writes `README.md` with the YAML front matter that model hubs read.

    Args:
        folder: the result.
        config: the settings at the end of the run.
        base: the model that was trained.
        metrics: what was measured.
        changes: what changed during the run, see `zoo.gym.train.run_folder.settings`.
        doubt: a warning about what was measured.
        env: what the run has stored, with the form of its prompts.
    """
    scores = is_reward_model(folder)
    adapter = config.trains_adapter and not scores
    head = {"base_model": base.id, "library_name": "peft" if adapter else "transformers"}
    head |= licence_head(base.id)
    head |= {"pipeline_tag": "text-classification"} if scores else {}
    title = "A reward model from" if scores else "An adapter for" if adapter else "A fine-tune of"
    usage = usage_of(
        folder,
        base,
        adapter=adapter,
        joint=joint_of(env),
        system=bool(env.get(SYSTEM_KEY)),
        scores=scores,
    )
    public = config.public_settings()
    settings = {key: value for key, value in public.items() if value is not None}
    del settings["offline"]
    text = (
        f"---\n{yaml.safe_dump(head, sort_keys=True)}---\n\n"
        f"# {title} {base.id}\n\n"
        f"Trained with zoo-gym. Base revision: {base.revision or 'not recorded'}.\n"
        f"Data fingerprint (SHA-256): `{fingerprint(config.data_files)}`.\n"
        f"{licence_line(base.id)}{_others(config)}\n"
        f"{usage.section()}{loading_note(config, base.id, usage.base_place)}"
        f"## Settings\n\n```yaml\n{yaml.safe_dump(settings, sort_keys=True)}```\n\n"
        f"{''.join(_changed(changes))}{_early_end(config, metrics)}"
        f"## Measured\n\n```yaml\n{yaml.safe_dump(dict(metrics), sort_keys=False)}```\n"
        f"{f'{chr(10)}Warning: {doubt}.{chr(10)}' if doubt else ''}"
    )
    write_beside(folder / "README.md", text)


def _others(config: TrainConfig) -> str:
    """Returns a line for each model that the base learned from, and for a first adapter."""
    from zoo.models import resolve

    start = config.adapter_name_or_path
    begun = "" if start is None else f"{_first_adapter(given_path(start))}\n"
    models = ((key, resolve(name, offline=True)) for key, name in config.other_models.items())
    lines = (
        f"{key}: {model.id}, revision {model.revision or 'not recorded'}.\n"
        for key, model in models
    )
    return begun + "".join(lines)


def _first_adapter(folder: Path) -> str:
    """Returns a line on the adapter that was trained further, without its place."""
    digest = hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest()
    return f"Trained on top of an adapter, whose weights have the SHA-256 `{digest}`."


def _early_end(config: TrainConfig, metrics: Mapping[str, object]) -> str:
    """Returns a paragraph for a run that was finished before its last step."""
    steps = metrics.get("steps")
    if not isinstance(steps, int) or steps >= (config.max_steps or steps):
        return ""
    return f"The run was finished at step {steps} of {config.max_steps}.\n\n"


def _changed(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the section on changes during the run: settings and library versions."""
    if not changes:
        return
    yield "The run was resumed with changes; the settings above are those at its end.\n\n"
    for change in changes:
        for kind in ("changed", "versions"):
            for key, (old, new) in dict(change.get(kind, {})).items():
                yield f"- after step {change.get('step', 'unknown')}: {key} {old} -> {new}\n"
    yield "\n"
