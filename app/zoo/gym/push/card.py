"""Writes the card of an upload that has none: its base, licence, and what was measured."""

from typing import TYPE_CHECKING

import yaml

from zoo.gym.delta.origin.record import DIGEST_KEY, joint_of
from zoo.gym.delta.origin.usage import licence_line
from zoo.gym.humanize import figure

if TYPE_CHECKING:
    from zoo.gym.delta.file.header import DeltaHeader

NOT_MEASURED = "Nothing is known of its quality: no figure was stored with it.\n"


def head_of(base: str | None, licence: str | None, library: str | None) -> str:
    """Returns the YAML front matter that model hubs read."""
    head = {"base_model": base, "license": licence, "library_name": library, "tags": ["zoo-gym"]}
    stated = {key: value for key, value in head.items() if value}
    return f"---\n{yaml.safe_dump(stated, sort_keys=True)}---\n\n"


def model_card(base: str | None, licence: str | None, *, adapter: bool) -> str:
    """Returns the card of a folder: an adapter or a model, of which nothing was measured."""
    head = head_of(base, licence, "peft" if adapter else "transformers")
    title = "An adapter" if adapter else "A model"
    named = f" for {base}" if adapter else f" made from {base}"
    line = f"{licence_line(base)}\n" if base else ""
    return f"{head}# {title}{named if base else ''}\n\n{line}{NOT_MEASURED}"


def delta_card(header: "DeltaHeader", name: str, licence: str | None) -> str:
    """Returns the card of a delta: how it is applied, and the figures in its header."""
    base, quality = header.base, header.quality
    use = f"zoo-gym delta apply {name} --base BASE\nzoo-gym chat --delta {name} --base BASE\n"
    system = (
        "It was trained with a system prompt, which is not in this file.\n\n"
        if header.recipe.get(DIGEST_KEY)
        else ""
    )
    blank = (
        "A prompt ends with a blank line; zoo-gym adds it.\n\n" if joint_of(header.recipe) else ""
    )
    measured = NOT_MEASURED
    if quality is not None:
        figures = {
            "rows": quality.rows,
            "loss of the base": quality.base,
            "loss of the fine-tune": quality.tuned,
            "loss of base and delta": quality.delta,
        }
        measured = "".join(f"- {key}: {figure(value)}\n" for key, value in figures.items())
    return (
        f"{head_of(base.id, licence, None)}# A delta on {base.id}\n\n"
        f"It contains the change alone ({header.form}), and needs its base: {base.id}, revision "
        f"{base.revision or 'not recorded'}, identity `{base.identity}`.\n"
        f"{licence_line(base.id)}\n## Use\n\n```sh\n{use}```\n\n{system}{blank}"
        f"## Measured\n\n{measured}"
    )
