"""Names the commands that use the result of a run."""

from pathlib import Path


def scores_answers(result: Path) -> bool:
    """Returns whether a run's result is a reward model, with which there is no chat."""
    from zoo.models.folder import is_reward_model

    return is_reward_model(result)


def training_with(result: Path) -> str:
    """Returns the command that trains on the scores of a reward model."""
    return f"zoo-gym train PROMPTS.jsonl stage=grpo reward={result}"
