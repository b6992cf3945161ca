"""The cap on the cost of a run: the worst case is reserved before a call, the true one settled.

A call is made only if everything spent, the worst case of everything in flight, and its own worst
case together stay within the cap. If only calls in flight prevent it, it waits for them.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from zoo.backends.openai.failure import EndlessAnswerError, UnreadableAnswerError
from zoo.backends.openai.reply import Reply
from zoo.backends.openai.usage import Usage
from zoo.gym.errors import InterruptedRunError
from zoo.gym.experience.calls.journal import Ask, Spent
from zoo.gym.experience.providers.table import Price

_POLL_S = 0.1
_DUST = 1e-9


@dataclass(frozen=True)
class Cap:
    """What a run may spend; None is no limit."""

    usd: float | None = None
    tokens: int | None = None

    def allows(self, spent: Spent) -> bool:
        """Returns whether a sum is within the cap."""
        in_money = self.usd is None or spent.usd <= self.usd + _DUST
        return in_money and (self.tokens is None or spent.tokens <= self.tokens)

    def __str__(self) -> str:
        parts = [] if self.usd is None else [f"{self.usd:,.2f} USD"]
        parts += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        return " or ".join(parts) or "no cap"


class CapReachedError(InterruptedRunError):
    """The next call could exceed the cap; a run can be resumed with a higher one.

    `setting` is the cap that is reached, `max_usd` or `max_tokens`, `option` that of commands.
    """

    def __init__(self, message: str, setting: str) -> None:
        hint = f"resume with a higher cap: zoo-gym runs resume RUN --set {setting}=..."
        hint = f"{hint}; all answers are kept"
        super().__init__(message, hint=hint, code="experience.cap_reached")
        self.setting = setting
        self.option = f"--{setting.replace('_', '-')}"


class Budget:
    """The rest of a cap. Thread-safe.

    Args:
        cap: the most that may be spent.
        spent: the cost so far, with the worst case of calls that were killed on the way.
    """

    def __init__(self, cap: Cap, spent: Spent | None = None) -> None:
        self.cap = cap
        self.spent = spent or Spent()
        self._reserved = Spent()
        self._changed = threading.Condition()

    def reserve(self, worst: Spent, check: Callable[[], object] = lambda: None) -> None:
        """Reserves the worst case of a call.

        `check` is called while the call waits for others; it may raise to give up.

        Raises:
            CapReachedError: it does not fit under the cap.
        """
        with self._changed:
            while not self.cap.allows(self.spent + self._reserved + worst):
                if self._reserved.calls == 0:
                    raise self._reached(worst)
                self._changed.wait(_POLL_S)
                check()
            self._reserved += worst

    def settle(self, worst: Spent, bill: Spent) -> None:
        """Replaces the reserved cost of a call with the true one."""
        with self._changed:
            self._reserved -= worst
            if not self._reserved.calls:
                self._reserved = Spent()  # without the rounding errors of sums
            self.spent += bill
            self._changed.notify_all()

    def _reached(self, worst: Spent) -> CapReachedError:
        in_money = not replace(self.cap, tokens=None).allows(self.spent + worst)
        used = f"{self.spent.usd:,.4f} USD" if in_money else f"{self.spent.tokens:,} tokens"
        need = f"{worst.usd:,.4f} USD" if in_money else f"{worst.tokens:,}"
        message = f"the cap of {self.cap} is reached: {used} are spent, the next call may need "
        return CapReachedError(message + need, "max_usd" if in_money else "max_tokens")


def worst_case(ask: Ask, price: Price | None) -> Spent:
    """Returns the most that a call can cost: a token a byte, nothing cached, the longest answer."""
    prompt, answer = ask.prompt_bytes, ask.sampling.max_new_tokens
    usd = 0.0 if price is None else price.usd(prompt, 0, answer)
    return Spent(1, prompt, 0, answer, usd)


def bill_of(reply: Reply, worst: Spent, price: Price | None) -> Spent:
    """Returns the cost of a call by the server's counts; without credible ones, the worst case.

    Counts of 0 for text are not credible. Counts above the worst case are booked, each at least at
    the worst case. Of our price and the cost that the server names, the larger is booked.
    """
    usage = reply.usage
    if usage is None:
        return worst
    prompt, answer = usage.prompt_tokens, usage.completion_tokens
    usd = 0.0 if price is None else price.usd(prompt, usage.cached_tokens, answer)
    usd = max(usd, usage.cost_usd or 0.0)
    if not prompt or (not answer and (reply.text or reply.reasoning)):
        return replace(worst, usd=max(usd, worst.usd))
    if prompt > worst.prompt_tokens or answer > worst.completion_tokens:
        prompt, answer = max(prompt, worst.prompt_tokens), max(answer, worst.completion_tokens)
        usd = max(usd, worst.usd)
    return Spent(1, prompt, usage.cached_tokens, answer, usd)


def bill_of_unreadable(error: UnreadableAnswerError, worst: Spent, price: Price | None) -> Spent:
    """Returns the cost of an answer that cannot be used: the worst case, or more if more came."""
    if not isinstance(error, EndlessAnswerError):
        return worst
    usage = error.usage or Usage(0, 0, 0)
    prompt = max(usage.prompt_tokens, worst.prompt_tokens)
    answer = max(usage.completion_tokens, error.parts, worst.completion_tokens)
    return bill_of(Reply("", usage=Usage(prompt, 0, answer, usage.cost_usd)), worst, price)
