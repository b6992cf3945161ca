"""Writes the model card of a model that was rebuilt from its base and a delta."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from zoo.gym.delta.origin.record import DIGEST_KEY, joint_of
from zoo.gym.delta.origin.usage import licence_head, licence_line, usage_of
from zoo.gym.files import storage_errors
from zoo.models import Resolved
from zoo.models.folder import is_reward_model

REBUILT = "Rebuilt with zoo-gym from the base and a delta."


def write_rebuilt_card(
    folder: Path, base: Resolved, recipe: Mapping[str, object], how: str = REBUILT
) -> None:
    """Writes `README.md` of a whole model that was made from its base and a fine-tune.

    Args:
        folder: the model, with its tokenizer.
        base: the base as the fine-tune names it, in its folder here.
        recipe: that of the fine-tune.
        how: a sentence on how it was made, and what was measured.
    """
    head = {"base_model": base.id, "library_name": "transformers"} | licence_head(base.id)
    usage = usage_of(
        folder,
        base,
        adapter=False,
        joint=joint_of(recipe),
        system=bool(recipe.get(DIGEST_KEY)),
        scores=is_reward_model(folder),
    )
    text = (
        f"---\n{yaml.safe_dump(head, sort_keys=True)}---\n\n"
        f"# A fine-tune of {base.id}\n\n"
        f"{how} Base revision: {base.revision or 'not recorded'}.\n"
        f"{licence_line(base.id)}\n{usage.section()}"
    )
    with storage_errors(folder):
        (folder / "README.md").write_text(text, encoding="utf-8")
