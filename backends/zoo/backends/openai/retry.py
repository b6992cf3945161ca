"""Repeats a call that failed in a way that may pass, as late as the server wants it."""

import time
from collections.abc import Callable
from typing import TypeVar

from zoo.backends.openai.failure import TryAgainError
from zoo.core.errors import InterruptedRunError, NotAvailableError

TRIES = 6
"""How often a call is made at most."""

UNREACHED_TRIES = 3
"""The same for a server that is not there."""

PATIENCE_S = 600.0
"""The longest wait before one repetition; a server that wants more is left alone."""

FIRST_WAIT_S = 1.0
"""The wait after the first failure if the server names none; it doubles each time."""

NOT_RUNNING = "is the server running, and the address right?"
"""The hint for a server that cannot be reached."""

Result = TypeVar("Result")


def with_retries(
    call: Callable[[int], Result],
    *,
    first: int = 0,
    tries: int = TRIES,
    pause: Callable[[float], None] = time.sleep,
) -> Result:
    """Returns the result of `call`, repeated until it succeeds.

    Args:
        call: makes one attempt; its argument is the number of the attempt, from `first`.
        first: the number of the first attempt.
        tries: the most attempts.
        pause: waits for some seconds; it may raise to give up.

    Raises:
        NotAvailableError: there is no server.
        InterruptedRunError: the server does not answer as it should; a run can be resumed.
        GymError: whatever `call` raises but `TryAgainError`.
    """
    number = 0
    while True:
        try:
            return call(first + number)
        except TryAgainError as error:
            number += 1
            usual = FIRST_WAIT_S * 2 ** (number - 1)
            wait_s = usual if error.wait_s is None else error.wait_s
            wait_s = max(usual, wait_s) if error.is_least else wait_s
            most = tries if error.reached else min(tries, UNREACHED_TRIES)
            if number >= most or wait_s > PATIENCE_S:
                raise _given_up(error, number, wait_s) from None
        pause(wait_s)


def _given_up(
    error: TryAgainError, number: int, wait_s: float
) -> NotAvailableError | InterruptedRunError:
    if not error.reached:
        return NotAvailableError(error.message, hint=NOT_RUNNING, code="openai.unreachable")
    why = f"after {number} attempts" if wait_s <= PATIENCE_S else f"it asks to wait {wait_s:,.0f} s"
    return InterruptedRunError(
        f"{error.message} ({why})",
        hint="resume the run later: answers are kept",
        code="openai.no_answer",
    )
