"""Reads the answer of a server, whole or as a stream of events."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from zoo.backends.openai.failure import (
    EndlessAnswerError,
    TryAgainError,
    UnreadableAnswerError,
    error_in,
)
from zoo.backends.openai.text import well_formed
from zoo.backends.openai.usage import Usage, usage_of


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


def is_page(body: str) -> bool:
    """Returns whether a response is HTML."""
    return body.lstrip()[:1] == "<"


def read_whole(body: str, where: str) -> Reply:
    """Returns the reply in a response without a stream.

    Raises:
        ErrorInside: it is an error.
        TryAgainError: it is no completion.
        UnreadableAnswerError: its content is no text.
    """
    if is_page(body):
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
    turn = cast("dict[str, object]", message)
    return Reply(
        well_formed(_content(turn.get("content"), where) or _text(turn.get("refusal"))),
        well_formed(_text(turn.get("reasoning_content")) or _text(turn.get("reasoning"))),
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
        UnreadableAnswerError: a part of it is no text.
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
                    "parts: the server does not keep max_tokens",
                    len(text) + 1,
                    usage,
                )
            text.append(_content(part.get("content"), where))
            refusal.append(_text(part.get("refusal")))
            reasoning.append(_text(part.get("reasoning_content")) or _text(part.get("reasoning")))
            if text[-1] or refusal[-1] or reasoning[-1]:
                progressed()
        finish = _text(choice.get("finish_reason")) or finish
    if not finish:
        message = f"{where}: the stream ended without a finish reason: the answer is cut"
        raise TryAgainError(message, billed=True)
    content = well_formed("".join(text) or "".join(refusal))
    return Reply(content, well_formed("".join(reasoning)), finish, usage, model)


def _object(text: str, where: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise TryAgainError(f"{where}: expected JSON, got other text: it may be cut", billed=True)
    return cast("dict[str, object]", value)


def _choice(answer: Mapping[str, object]) -> Mapping[str, object] | None:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    first = cast("list[object]", choices)[0]
    return cast("dict[str, object]", first) if isinstance(first, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _content(value: object, where: str) -> str:
    """Returns the text of a message, which may be in parts.

    Raises:
        UnreadableAnswerError: it is, or has, something else, which would not be scored.
    """
    if value is None or isinstance(value, str):
        return value or ""
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    return "".join(_part(part, where) for part in parts)


def _part(value: object, where: str) -> str:
    part = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    text = part.get("text")
    if part.get("type") != "text" or not isinstance(text, str):
        raise UnreadableAnswerError(
            f"{where}: content: expected text or parts of type text, got another part",
            hint="use a model that answers in text",
            code="openai.unreadable_answer",
        )
    return text
