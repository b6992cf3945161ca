"""Compares the base that a fine-tune records with the one that it would be contributed about.

An adapter fits every base of the same shapes, and a run's full weights differ from all: on another
base than it was trained on, either is a change that nobody has trained.
"""

from pathlib import Path

from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.delta.sanity import warn_of_other_base
from zoo.gym.errors import GymError, InputError
from zoo.gym.jobs import Run, run_around
from zoo.gym.paths import given_path
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.train.run_folder.base import refuse_other_base
from zoo.gym.tuned.runs import run_config
from zoo.gym.tuned.source import Source
from zoo.models.registry import PICO
from zoo.models.resolve import is_path, model_of_text, pico_folder


def refuse_other_record(source: Path, base: Path, weights: Weights, coding: Coding) -> None:
    """Refuses a fine-tune that was made for another base, as far as this machine can tell.

    Args:
        source: see `open_tuned`.
        base: the folder of the base that it would be contributed about.
        weights: those of the base.
        coding: base and tensors of the round.

    Raises:
        InputError: the run of the fine-tune began with another base, or the base that an adapter
            names is on this machine and has other values in the round's tensors.

    Warns:
        GymWarning: an adapter names another known model, which is not on this machine.
    """
    run = run_around(source)
    if run is not None:
        _refuse_other_run(run, base)
    elif is_adapter(source):
        _refuse_other_adapter(source, base, weights, coding)


def _refuse_other_run(run: Run, base: Path) -> None:
    try:
        refuse_other_base(run.env_file, base)
    except InputError as error:
        raise InputError(error.message, hint=_where(run_config(run).model_name_or_path)) from None


def _refuse_other_adapter(source: Path, base: Path, weights: Weights, coding: Coding) -> None:
    text = Source("adapter", source).base
    if text is None:
        return
    recorded = _opened(text)
    if recorded is None:
        warn_of_other_base(source, base)
        return
    names = [tensor.name for tensor in coding.tensors]
    strange = any(name not in recorded.tensors for name in names)
    if strange or identity(recorded, names) != identity(weights, names):
        raise InputError(
            f"{source}: expected an adapter of the base {base}, got one of {text}, which has "
            "other values in the tensors that count",
            hint=_where(text),
        )


def _opened(text: str) -> Weights | None:
    """Returns the weights of a base that an adapter names, if it is known here without the hub."""
    stated = model_of_text(text)
    try:
        if stated is not None and stated.id == PICO:
            return open_weights(pico_folder())
        return open_weights(given_path(Path(text))) if is_path(text) else None
    except (GymError, OSError, ValueError):  # missing, or no longer a model
        return None


def _where(base: str) -> str:
    return (
        f"contribute it where {base} is the base; a round about that one starts with: zoo-gym "
        f"round create NAME --base {base}"
    )
