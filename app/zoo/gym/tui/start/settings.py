"""What the form of a new training says of its settings: those that match, and what they lead to."""

import textwrap
from collections.abc import Mapping
from typing import Any

from zoo.gym.humanize import counted, human_bytes

MOST = 3
"""The settings that are listed at once."""

LEAST_LETTERS = 2

LINE, LINES = 74, 3
"""The characters of a line at 80 columns, and the lines of a single setting."""


def matching_settings(text: str) -> str:
    """Returns the settings that the last word of a text is the beginning of, or a part; else "".

    Args:
        text: settings as they are typed: `lora_rank=8 quant`.
    """
    if not text or text[-1].isspace():
        return ""
    key, equals, _ = text.rsplit(maxsplit=1)[-1].partition("=")
    matching = _matching_lines(key.replace("-", "_").lower(), is_whole=bool(equals))
    if len(matching) == 1:
        return textwrap.shorten(matching[0], LINES * LINE, placeholder=" ...")
    lines = matching[:MOST]
    if more := [line.partition(" ")[0] for line in matching[MOST:]]:
        lines.append(f"{len(more)} more: {', '.join(more)}")
    return "\n".join(textwrap.shorten(line, LINE, placeholder=" ...") for line in lines)


def _matching_lines(part: str, *, is_whole: bool) -> list[str]:
    """Returns a line for each setting with this name, or with the part in its name or meaning."""
    from zoo.gym.config.describe import describe_settings
    from zoo.gym.config.foreign import ALIASES

    lines = {
        setting.key: f"{setting.key} ({setting.kind}): {setting.text}"
        for setting in describe_settings()
    }
    if is_whole:
        key = ALIASES.get(part, part)
        return [lines[key]] if key in lines else []
    if len(part) < LEAST_LETTERS:
        return []
    named = sorted((key for key in lines if part in key), key=lambda key: not key.startswith(part))
    mentioned = (key for key, line in lines.items() if part in line.lower() and key not in named)
    return [lines[key] for key in (*named, *mentioned)]


def plan_words(answer: Mapping[str, Any]) -> str:
    """Returns what a run would do, of the object that `train --print-config` prints."""
    config, memory = answer["config"], answer["memory"]
    per_step = [
        config[key]
        for key in (
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "num_processes",
        )
    ]
    parts: list[str] = []
    if config["max_steps"] is not None and None not in per_step:
        rows = per_step[0] * per_step[1] * per_step[2]
        parts.append(f"{counted(config['max_steps'], 'step')} of {counted(rows, 'row')}")
    if config["learning_rate"] is not None:
        parts.append(f"rate {config['learning_rate']:g}")
    if memory is not None:
        needed, free = human_bytes(memory["total"]), human_bytes(answer["free_bytes"])
        parts.append(f"needs about {needed}, {free} are free")
    return "; ".join(parts)


def method_choices() -> list[tuple[str, str, str]]:
    """Returns stage, name and meaning of each method, in the order of their table."""
    from zoo.gym.config.stages import METHODS, config_class

    choices: list[tuple[str, str, str]] = []
    for stage in METHODS:
        text = config_class(stage).model_fields["stage"].description or ""
        meaning = text.partition(";")[0].removeprefix(f"{stage} ").removeprefix("is ")
        choices.append((stage, stage, meaning))
    return choices
