"""The settings files that come with zoo-gym, by name and by the paths of published texts."""

from pathlib import Path

PUBLISHED = {
    "models/nano/configs/gspo_training.yaml": "zen-nano-gspo.yaml",
    "configs/bitdelta_training.yaml": "zen-nano-bitdelta.yaml",
    "configs/zen_nano_lora.yaml": "zen-nano-lora.yaml",
    "configs/zen_eco_grpo.yaml": "zen-eco-grpo.yaml",
    "configs/zen_agent_dpo.yaml": "zen-eco-dpo.yaml",
}
"""Paths in published texts, and the recipe of the same training; zen-agent is zen-eco tuned."""


def recipes() -> list[Path]:
    """Returns the recipes, by name."""
    return sorted((Path(__file__).parent / "recipes").glob("*.yaml"))


def find_recipe(name: str) -> Path | None:
    """Returns the recipe of a name, `zen-nano-dpo.yaml`, or a published path; None for another."""
    published = PUBLISHED.get(name.removeprefix("./"), name)
    return next((path for path in recipes() if path.name == published), None)
