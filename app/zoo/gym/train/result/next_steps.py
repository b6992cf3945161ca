"""Names the commands that use the result of a run."""

from pathlib import Path

from zoo.gym.files import read_json_object
from zoo.models.adapters import CONFIG_FILE

NO_DELTA = ("use_dora", "modules_to_save", "loftq_config")
"""What adapters of ours may have that no delta carries; `zoo.gym.delta.reading` refuses it."""


def scores_answers(result: Path) -> bool:
    """Returns whether a run's result is a reward model, with which there is no chat."""
    from zoo.models.folder import is_reward_model

    return is_reward_model(result)


def training_with(result: Path) -> str:
    """Returns the command that trains on the scores of a reward model."""
    return f"zoo-gym train PROMPTS.jsonl stage=grpo reward={result}"


def can_be_delta(result: Path) -> bool:
    """Returns whether a delta can be made of a run's result: a whole model, or a plain LoRA.

    A model whose positions the run has scaled is none: a delta has only weights.
    """
    if not (result / CONFIG_FILE).is_file():
        settings = (read_json_object(result.parent / "env.json") or {}).get("settings")
        return not (isinstance(settings, dict) and settings.get("rope_scaling"))
    config = read_json_object(result / CONFIG_FILE) or {}
    return config.get("peft_type") == "LORA" and not any(map(config.get, NO_DELTA))
