"""The gate: a contribution by itself, and the result, against the base on held-out rows."""

import sys
from collections.abc import Callable
from importlib import import_module
from math import isfinite
from pathlib import Path
from traceback import extract_tb
from typing import cast

from zoo.gym.errors import InputError
from zoo.gym.rounds.measure.losses import Meter
from zoo.gym.rounds.protocol.objects import as_text
from zoo.gym.rounds.protocol.records import MOST_REASON, VALIDATOR_SAYS, Gate, Paired, paired
from zoo.gym.signing import PublicKey

Validator = Callable[[Path, Path], object]
"""Takes the file of a contribution, a delta, and the folder of the base; returns why it is refused,
or None."""


def gate(
    meter: Meter,
    base_losses: list[float],
    contribution: tuple[PublicKey, str],
    file: Path,
    validator: Validator | None = None,
) -> Gate:
    """Returns the measurement of a contribution.

    Raises:
        InputError: the validator raised, or returned something else than a reason or None.
        StorageError: a temporary folder cannot be written.
    """
    key, digest = contribution
    loss, reason = None, None
    try:
        loss = compare(base_losses, meter.losses(file))
        reason = None if loss else "held-out loss: expected numbers, got infinity or none"
    except InputError as error:  # base plus contribution is beyond float32
        reason = as_text(error.message.replace(f"{file}: ", ""), MOST_REASON)
    if reason is None and validator is not None:
        reason = _validated(validator, file, meter.base)
    return Gate(contributor=str(key), digest=digest, loss=loss, reason=reason)


def compare(base_losses: list[float], losses: list[float]) -> Paired | None:
    """Returns what a change adds to the losses; None if one of them is not finite."""
    return paired(base_losses, losses) if all(map(isfinite, losses)) else None


def load_validator(name: str) -> Validator:
    """Returns the function of `module:function`; modules of the current folder are found, too.

    Raises:
        InputError: there is none, or importing its module raised.
    """
    module, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        validator = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"validator {name!r}: expected module:function, got {error}",
            code="rounds.validator_missing",
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the user may raise anything
        raise InputError(
            f"validator {name!r}: expected a module that can be imported, but {_raised(error)}",
            code="rounds.validator_failed",
        ) from None
    if not callable(validator):
        raise InputError(
            f"validator {name!r}: expected a function, got {type(validator).__name__}",
            code="rounds.validator_missing",
        )
    return cast("Validator", validator)


def _validated(validator: Validator, file: Path, base: Path) -> str | None:
    try:
        reason = validator(file, base)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the user may raise anything
        name = getattr(validator, "__qualname__", type(validator).__qualname__)
        raise InputError(
            f"validator {validator.__module__}:{name}: expected a reason or None, but "
            f"{_raised(error)}",
            hint="nothing of this contribution was signed: mend the function, then measure again",
            code="rounds.validator_failed",
        ) from None
    if reason is None:
        return None
    if not isinstance(reason, str) or not reason.strip():
        raise InputError(
            f"validator: expected a reason, or None, got {reason!r:.80}",
            code="rounds.validator_answer",
        )
    return as_text(f"{VALIDATOR_SAYS}{reason.strip()}", MOST_REASON)


def _raised(error: BaseException) -> str:
    """Returns in one line what code of the user raised, and where."""
    text = as_text(f"{type(error).__name__}: {error}".removesuffix(": "), 500)
    if isinstance(error, SyntaxError):
        return f"it raised {text}"  # which names the place itself
    frame = extract_tb(error.__traceback__)[-1]
    return f"it raised {text} ({Path(frame.filename).name}:{frame.lineno})"
