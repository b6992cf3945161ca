"""Compares what another program computes from an export with the source.

What was written is also opened as a source of our own: it has to ask as the fine-tune is asked.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.export.comparison import (
    MOST,
    comparison_dtype,
    difference,
    prompts_of,
    source_logprobs,
)
from zoo.gym.export.job import Job, Options
from zoo.gym.tuned.opened import Tuned

MAX_LOGPROB = 1e-4
"""The largest difference of a log-probability, where both compute in float32."""

MAX_KL_AS_STORED = 1e-2
"""The largest mean KL where the source is too large for float32 and is computed as it is stored."""

REPORT = "please report it; --no-check writes it without a comparison"
"""The hint where the other program should compute the same."""

Logprobs = Callable[[Sequence[Sequence[int]], int], list[dict[int, float]]]
"""Computes the log-probabilities of so many likeliest next tokens after each prompt."""


def check(
    job: Job, by: str, logprobs: Logprobs, *, max_kl: float | None = None, hint: str = REPORT
) -> dict[str, Any]:
    """Compares log-probabilities after the prompts of an export.

    Args:
        job: the export.
        by: the other program, for messages.
        logprobs: computes them there.
        max_kl: the largest mean KL; None is for what is equal but for rounding in float32.
        hint: what to do if it is larger.

    Raises:
        InputError: they differ.
    """
    prompts = prompts_of(job)
    source = source_logprobs(job, prompts)
    measured = difference(source, logprobs(prompts, 2 * MOST))
    if max_kl is None and comparison_dtype(job) == "f32":
        require(measured.max_logprob, MAX_LOGPROB, "log-probability", by)
    else:
        most = MAX_KL_AS_STORED if max_kl is None else max_kl
        require(measured.kl, most, "mean KL", by, hint)
    return {"checked": True, "by": by, **measured.as_json()}


def require(value: float, most: float, what: str, by: str, hint: str = REPORT) -> None:
    """Refuses a difference that is too large, or no number.

    Raises:
        InputError: it is.
    """
    if not value <= most:
        raise InputError(
            f"what {by} computes from it: expected a {what} within {most:g} of the source, got "
            f"{value:.3g}; nothing was written",
            hint=hint,
            code="export.other_results",
        )


def check_prompts(job: Job, written: Tuned) -> None:
    """Compares the prompts, and the tokens that end answers, of what was written.

    Args:
        job: the export.
        written: what was written, opened like any source.

    Raises:
        InputError: they differ.
    """
    again = Job(written, job.base, job.label, Options())
    if prompts_of(again) != prompts_of(job):
        raise InputError(
            f"{job.label}: expected the prompts of the fine-tune from what was written, got others",
            hint=REPORT,
            code="export.other_prompts",
        )
    if set(again.stops) != set(job.stops):
        raise InputError(
            f"{job.label}: expected answers to end with the tokens {list(job.stops)}, got "
            f"{list(again.stops)} from what was written",
            hint=REPORT,
            code="export.other_stops",
        )


def require_package(missing: str | None, form: str, extra: str) -> None:
    """Refuses a format whose extra is not installed.

    Args:
        missing: a package of it that is not there, or None.
        form: the format.
        extra: the name of the extra.

    Raises:
        NotAvailableError: a package is missing.
    """
    from zoo.backends.machine.installing import install_command

    if missing is not None:
        raise NotAvailableError(
            f"--format {form}: expected the package {missing}, got none",
            hint=install_command(extra),
            code="export.no_package",
        )


@contextmanager
def refusals_of(engine: str) -> Generator[None]:
    """Gives the refusals of a library the code of a format; the block only calls the library.

    Raises:
        InputError: the block raised one.
    """
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error.message}; {engine} cannot take this model",
            hint=error.hint,
            code="export.not_for_format",
        ) from error


def weights_of(job: Job) -> int:
    """Returns the number of weights of base plus fine-tune.

    Raises:
        InputError: the base is quantised.
    """
    return sum(math.prod(shape) for shape in job.tuned.merged_shapes.values())


def measured_line(checked: Mapping[str, Any] | None) -> str:
    """Returns a sentence of a card on what was measured."""
    if checked is None:
        return "Not checked."
    return (
        f"{checked['by']} computes from it what the source gives: log-probabilities within "
        f"{checked['max_logprob_difference']:.2g}, mean KL {checked['mean_kl']:.2g} nats, on "
        f"{checked['prompts']} prompts."
    )
