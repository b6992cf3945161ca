"""Asks a model on a server the items of a measure; each answer is in a journal before it is used.

Calls are capped and repeated as those of lessons are.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import cast

from zoo.backends.openai.reply import Reply
from zoo.backends.openai.usage import Usage
from zoo.backends.sampling import Sampling
from zoo.gym.chat.answer_lines import line_of
from zoo.gym.chat.rows import Question
from zoo.gym.chat.rows import Reply as RowReply
from zoo.gym.chat.session import Answered
from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.evaluate.answering import Ask
from zoo.gym.evaluate.items import Item, Line, Measure
from zoo.gym.experience.calls.budget import Budget, Cap, CapReachedError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller
from zoo.gym.experience.calls.journal import Ask as Call
from zoo.gym.experience.calls.journal import Journal, Slot
from zoo.gym.experience.models import Named, cap_of, open_models
from zoo.gym.experience.providers.names import Hosted
from zoo.gym.experience.settings import ExperienceConfig

TOGETHER = 32
"""Questions that are sent before their answers are kept in order."""


@dataclass(frozen=True)
class Spending:
    """What calls to servers may cost, together; None is as for lessons: 5 USD, or no cap.

    Attributes:
        usd: in USD.
        tokens: in tokens of questions and answers.
    """

    usd: float | None = None
    tokens: int | None = None

    def cap(self, server: Hosted) -> Cap:
        """Returns the cap on the calls of a server.

        Raises:
            InputError: it has no price and there is no cap in tokens, or a cap has no effect.
        """
        config = ExperienceConfig(model=server.id, max_usd=self.usd, max_tokens=self.tokens)
        return cap_of(config, Named(server, server))


def ask_server(server: Hosted, measure: Measure, spending: Spending, journal: Path) -> Ask:
    """Returns what asks a server; see `requirements` for what it can be asked."""

    def ask(items: Sequence[Item], first: int, date: str) -> Iterator[Line]:
        del date
        with closing(Journal(journal)) as kept, _to_be_repeated():
            caller = Caller(kept, Budget(spending.cap(server), kept.spent))
            with open_models(Named(server, server), caller.notices.put) as (model, _):
                for start in range(0, len(items), TOGETHER):
                    part = items[start : start + TOGETHER]
                    calls = [_call(item, measure, first + start + n) for n, item in enumerate(part)]
                    yield from map(_line, part, caller.ask(model, calls))

    return ask


def check_same_model(
    server: Hosted, measure: Measure, spending: Spending, answers: Path, lines: Sequence[Line]
) -> None:
    """Asks the first answered question again: an address may have another model by now.

    Args:
        server: the server.
        measure: what it was asked.
        spending: the caps on its calls.
        answers: the file of its answers, with the journal beside it.
        lines: those of the file.

    Raises:
        InputError: the answer is another one.
    """
    with closing(Journal(answers.with_suffix(".journal"))) as kept, _to_be_repeated():
        calls = [_call(item, measure, n) for n, item in enumerate(measure.items)]
        replies = (kept.replies.get(call.key(server.id)) for call in calls)
        texts = [None if each is None or each.finish == TOO_LONG else each.text for each in replies]
        if not any(texts):  # of a journal that was removed
            texts = [cast("str | None", line.get("answer")) for line in lines]
        answered = [number for number, text in enumerate(texts) if text is not None]
        if not answered:
            return
        number = answered[0]
        slots = (Slot("infer", 0, 1, number, draw) for draw in count())
        again = replace(calls[number], slot=next(s for s in slots if str(s) not in kept.slots))
        caller = Caller(kept, Budget(spending.cap(server), kept.spent))
        with open_models(Named(server, server), caller.notices.put) as (model, _):
            (reply,) = caller.ask(model, [again])
    if reply.text != texts[number]:
        raise InputError(
            f"{answers}: row {measure.items[number].row}: expected the same answer again, got "
            f"another one from {server.id}: it may have another model, whose answers do not mix "
            "with these",
            hint=f"to ask all rows again, remove {answers.with_suffix('')}.*",
            code="evaluate.other_model",
        )


@contextmanager
def _to_be_repeated() -> Generator[None]:
    """Says of calls that end early how they go on.

    Raises:
        InterruptedRunError: the cap is reached, or the server does not answer.
    """
    try:
        yield
    except CapReachedError as error:
        hint = f"the same command with a higher {error.option} goes on: answers are kept"
        raise InterruptedRunError(error.message, hint=hint, code=error.code) from None
    except InterruptedRunError as error:
        hint = "the same command goes on: answers are kept"
        raise InterruptedRunError(error.message, hint=hint, code=error.code) from None


def _line(item: Item, reply: Reply) -> Line:
    """Returns an answer as a line; one to a question that the server cannot read is missing."""
    question = Question(item.row, item.task.messages)
    if reply.finish == TOO_LONG:
        return line_of(RowReply(question, None, reply.reasoning))
    usage = reply.usage or Usage(0, 0, 0)
    counts = usage.prompt_tokens, usage.completion_tokens
    return line_of(RowReply(question, Answered(reply.text, reply.finish, *counts)))


def _call(item: Item, measure: Measure, number: int) -> Call:
    messages = [{"role": turn.role, "content": turn.content} for turn in item.task.messages]
    slot = Slot("infer", 0, 0, number, 0)
    return Call(slot, messages, Sampling(max_new_tokens=measure.max_new_tokens))
