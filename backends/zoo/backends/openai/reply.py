"""Reads the answer of a server, whole or as a stream of events."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from zoo.backends.openai.failure import EndlessAnswerError, TryAgainError, error_in
from zoo.backends.openai.text import well_formed

_MOST_TOKENS = 1 << 31


@dataclass(frozen=True)
class Usage:
    """What a server counted.

    Attributes:
        prompt_tokens: all tokens of the messages.
        cached_tokens: those of them that were in its cache.
        completion_tokens: the tokens of the answer, with its reasoning.
        cost_usd: what it says that the call cost; None if it does not say.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None = None


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        text: the answer; of a refusal, what the model said instead.
        reasoning: reasoning that the server sends apart; empty if there is none.
        finish: why it ended: `stop`, `length`, `content_filter`, ...
        usage: the counts; None if there were none that make sense.
        model: the name of the model that answered, as the server says it.
    """

    text: str
    reasoning: str = ""
    finish: str = "stop"
    usage: Usage | None = None
    model: str = ""


class ErrorInside(Exception):  # noqa: N818 - carries an error of the server, is none itself
    """A response of status 200 that is an error.

    Attributes:
        status: the HTTP status that it stands for.
        body: the error as JSON.
    """

    def __init__(self, status: int, body: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


def read_whole(body: str, where: str) -> Reply:
    """Returns the reply in a response without a stream.

    Raises:
        ErrorInside: it is an error.
        TryAgainError: it is no completion.
    """
    if body.lstrip()[:1] == "<":
        raise TryAgainError(f"{where}: expected JSON, got HTML: another program answers there")
    answer = _object(body, where)
    if (error := error_in(answer)) is not None:
        raise ErrorInside(*error)
    choice = _choice(answer)
    message = choice.get("message") if choice is not None else None
    if choice is None or not isinstance(message, dict):
        raise TryAgainError(
            f"{where}: expected a completion, got one without a message", billed=True
        )
    said = cast("dict[str, object]", message)
    return Reply(
        well_formed(_text(said.get("content")) or _text(said.get("refusal"))),
        well_formed(_text(said.get("reasoning_content")) or _text(said.get("reasoning"))),
        _text(choice.get("finish_reason")) or "stop",
        usage_of(answer.get("usage")),
        _text(answer.get("model")),
    )


def read_stream(
    lines: Iterable[str],
    where: str,
    most_parts: int,
    progressed: Callable[[], object] = lambda: None,
) -> Reply:
    """Returns the reply in a stream of server-sent events.

    Args:
        lines: the lines of the body.
        where: the server and model, for messages.
        most_parts: how many parts of text the answer may have: a part is a token, or more.
        progressed: called when a part has some text.

    Raises:
        ErrorInside: an event is an error.
        EndlessAnswerError: the answer has more parts.
        TryAgainError: the stream ends without a finish reason, or an event is not JSON.
    """
    text: list[str] = []
    refusal: list[str] = []
    reasoning: list[str] = []
    finish, model = "", ""
    usage: Usage | None = None
    for line in lines:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or not data:
            continue
        if data == "[DONE]":
            break
        event = _object(data, where)
        if (error := error_in(event)) is not None:
            raise ErrorInside(*error)
        usage = usage_of(event.get("usage")) or usage
        model = _text(event.get("model")) or model
        choice = _choice(event) or {}
        delta = choice.get("delta")
        if isinstance(delta, dict):
            part = cast("dict[str, object]", delta)
            if len(text) >= most_parts:
                raise EndlessAnswerError(
                    f"{where}: expected an answer within its limit, got more than {most_parts:,} "
                    "parts: the server does not keep max_tokens"
                )
            text.append(_text(part.get("content")))
            refusal.append(_text(part.get("refusal")))
            reasoning.append(_text(part.get("reasoning_content")) or _text(part.get("reasoning")))
            if text[-1] or refusal[-1] or reasoning[-1]:
                progressed()
        finish = _text(choice.get("finish_reason")) or finish
    if not finish:
        message = f"{where}: the stream ended without a finish reason: the answer is cut"
        raise TryAgainError(message, billed=True)
    said = well_formed("".join(text) or "".join(refusal))
    return Reply(said, well_formed("".join(reasoning)), finish, usage, model)


def usage_of(value: object) -> Usage | None:
    """Returns the counts of a server; None if they are missing or make no sense."""
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, object]", value)
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    details = counts.get("prompt_tokens_details")
    cached = counts.get("prompt_cache_hit_tokens")
    if cached is None and isinstance(details, dict):
        cached = cast("dict[str, object]", details).get("cached_tokens")
    cached = 0 if cached is None else cached
    found = [count for count in (prompt, cached, completion) if type(count) is int]
    if len(found) < 3 or not all(0 <= n < _MOST_TOKENS for n in found) or found[1] > found[0]:
        return None
    cost = counts.get("cost")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6
    return Usage(found[0], found[1], found[2], float(cast("float", cost)) if is_cost else None)


def _object(text: str, where: str) -> Mapping[str, object]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TryAgainError(f"{where}: expected JSON, got other text: it may be cut", billed=True)
    return cast("dict[str, object]", found)


def _choice(answer: Mapping[str, object]) -> Mapping[str, object] | None:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    first = cast("list[object]", choices)[0]
    return cast("dict[str, object]", first) if isinstance(first, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
