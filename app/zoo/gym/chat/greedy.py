"""How answers are drawn: as a caller says, or as the generation settings in a model's files do.

Answers are plain greedy, or sampled with temperature, top_p and top_k. Transformers also applies
the penalties, bans and forced tokens in `generation_config.json`; with those, answers may differ.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.backends.sampling import Sampling
from zoo.gym.arguments import number_of, whole_of
from zoo.gym.config.values import MOST_SEED
from zoo.gym.errors import GymWarning, InputError
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

SAMPLED = {"temperature": 1.0, "top_p": 1.0, "top_k": 50}
"""The settings of sampling that chat applies, with what transformers takes where none is stated."""

UNSAMPLED = ("min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h")
"""Those that it does not."""

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
    ignored = unapplied(read_object(path)) if path else []
    if ignored:
        warnings.warn(
            f"{path}: not applied: {', '.join(ignored)}; answers of transformers may differ",
            GymWarning,
            stacklevel=3,
        )


def stated_sampling(folder: Path) -> dict[str, Any]:
    """Returns `temperature`, `top_p` and `top_k` of a model whose files say to sample, else {}.

    Raises:
        InputError: the file is damaged, or has a value out of range.

    Warns:
        GymWarning: it has settings of sampling that are not applied.
    """
    path = folder / FILES[0]
    stated = read_object(path) if path.is_file() else {}
    if stated.get("do_sample") is not True:
        return {}
    drawn: dict[str, Any] = {
        key: idle if stated.get(key) is None else stated[key] for key, idle in SAMPLED.items()
    }
    try:
        drawn["temperature"] = float(drawn["temperature"])
        Sampling(**drawn)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {error}",
            hint="give a temperature, which is used instead: 0 is greedy",
            code="chat.sampling",
        ) from None
    if left := [key for key in UNSAMPLED if stated.get(key)]:
        text = f"{path}: not applied: {', '.join(left)}; answers of transformers may differ"
        warnings.warn(text, GymWarning, stacklevel=4)
    return drawn


def unapplied(settings: dict[str, Any]) -> list[str]:
    """Returns the names of the settings that would change a greedy answer.

    >>> unapplied({"repetition_penalty": 1.05, "num_beams": 1, "suppress_tokens": []})
    ['repetition_penalty']
    """
    ignored = [key for key, idle in NEUTRAL.items() if settings.get(key) and settings[key] != idle]
    return sorted(ignored + [key for key in FORCED if settings.get(key) is not None])


def check_sampling(
    max_new_tokens: int,
    temperature: float | None,
    seed: int,
    stated: Mapping[str, Any] | None = None,
) -> Sampling:
    """Returns how answers are drawn.

    Args:
        max_new_tokens: the maximum number of tokens in an answer.
        temperature: 0 takes the most likely token each time; None is as the model's files say.
        seed: the sampling seed.
        stated: the sampling settings in those files.

    Raises:
        InputError: a value is of another type or out of its range.
    """
    drawn: dict[str, Any] = dict(stated or {})
    if temperature is not None:
        drawn = {"temperature": temperature}
    drawn["temperature"] = number_of("temperature", drawn.get("temperature", 0.0))
    max_new_tokens = whole_of("max_new_tokens", max_new_tokens)
    if not 0 <= whole_of("seed", seed) <= MOST_SEED:
        raise InputError(
            f"seed: expected a whole number from 0 to {MOST_SEED}, got {seed}", code="chat.sampling"
        )
    try:
        return Sampling(max_new_tokens=max_new_tokens, **drawn)
    except ValueError as error:  # its message starts with the setting
        raise InputError(str(error), code="chat.sampling") from None
