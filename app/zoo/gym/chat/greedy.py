"""Reads the generation settings in a model's files, and warns about those that are not applied.

Answers are plain greedy, or sampled with temperature, top_p and top_k. Transformers also applies
the penalties, bans and forced tokens in `generation_config.json`; with those, answers may differ.
"""

import warnings
from pathlib import Path
from typing import Any

from zoo.gym.errors import GymWarning
from zoo.models.folder import read_object

FILES = ("generation_config.json", "config.json")
"""Where transformers looks for them; the second is used only if the first is missing."""

NEUTRAL: dict[str, int] = {
    "bad_words_ids": 0,
    "begin_suppress_tokens": 0,
    "constraints": 0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "exponential_decay_length_penalty": 0,
    "force_words_ids": 0,
    "guidance_scale": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "penalty_alpha": 0,
    "repetition_penalty": 1,
    "sequence_bias": 0,
    "stop_strings": 0,
    "suppress_tokens": 0,
    "token_healing": 0,
    "watermarking_config": 0,
}
"""Settings that change greedy answers of transformers, and their neutral values."""

SAMPLED = ("temperature", "top_p", "top_k")
"""The settings of sampling that chat applies."""

FORCED = ("forced_bos_token_id", "forced_eos_token_id")
"""Token ids, for which 0 is an ordinary value."""


def warn_of_settings(folder: Path) -> None:
    """Warns about settings in a model's files that would change the answers of transformers.

    Raises:
        InputError: the file is damaged.

    Warns:
        GymWarning: lists them.
    """
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    found = unapplied(read_object(path)) if path else []
    if found:
        warnings.warn(
            f"{path}: not applied: {', '.join(found)}; answers of transformers may differ",
            GymWarning,
            stacklevel=3,
        )


def stated_sampling(folder: Path) -> dict[str, Any]:
    """Returns `temperature`, `top_p` and `top_k` of a model whose files say to sample, else {}.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / FILES[0]
    stated = read_object(path) if path.is_file() else {}
    if stated.get("do_sample") is not True:
        return {}
    chosen = {key: stated[key] for key in SAMPLED if isinstance(stated.get(key), int | float)}
    return {"temperature": 1.0} | chosen


def unapplied(settings: dict[str, Any]) -> list[str]:
    """Returns the names of the settings that would change a greedy answer.

    >>> unapplied({"repetition_penalty": 1.05, "num_beams": 1, "suppress_tokens": []})
    ['repetition_penalty']
    """
    found = [key for key, idle in NEUTRAL.items() if settings.get(key) and settings[key] != idle]
    return sorted(found + [key for key in FORCED if settings.get(key) is not None])
