"""What a server answers instead of a completion, as errors that say what to do."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import urlsplit

from zoo.backends.openai.text import well_formed
from zoo.backends.openai.usage import Usage
from zoo.core.errors import GymError, InputError, InterruptedRunError, NotAvailableError

_QUOTA = re.compile(r"insufficient[_ ](quota|balance|credit|funds)|billing|payment", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context|maximum context|too many tokens", re.IGNORECASE
)
_CONTEXT = re.compile(r"context.{0,40}(length|window|size)|n_ctx", re.IGNORECASE)
_EXCESS = re.compile(
    r"exceed|too (?:long|large|big)|(?:long|larg|great|bigg)er than|more (?:tokens )?than|"
    r"reduce|beyond|overflow|does(?: not|n't) fit",
    re.IGNORECASE,
)
"""Words that make a full context of a mere mention of the context."""
_NO_CREDIT = re.compile(r'"(?:code|type)"\s*:\s*"insufficient_')
_REJECTED = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|does not support|cannot find field|"
    r"extra[_ ](?:inputs|fields|forbidden)|not a valid|"
    r"invalid[_ ](?:parameter|field|argument|name)|"
    r"failed to parse grammar|specified, but not both|"
    r"\bnot (?:\w+ )?(?:supported|allowed|permitted|accepted|recogni[sz]ed)",
    re.IGNORECASE,
)
_ALSO_CALLED = {"response_format": ("json_schema", "grammar")}
"""What servers call a parameter in their errors; llama.cpp makes a grammar of a schema."""
_TAG = re.compile(r"<[^<>]*>")
"""A tag of HTML; it has no '<' inside, so that many of them cost no more than their length."""
_END = re.compile(r"(?<=[.;!\n])\s+")
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_UNIT = r"(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)"
_PART = re.compile(rf"({_NUMBER})\s*({_UNIT})?\s*", re.IGNORECASE)
_AFTER = re.compile(
    rf"(?:try again|retry|reset)\D{{0,30}}?((?:{_NUMBER}\s*{_UNIT}\s*){{1,4}}\b|{_NUMBER}\b)", re.I
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""A number from here on is a time, not a wait."""
_SHOWN = 200
_MOST_READ, _EDGE = 256_000, 8_192
"""How much of an error is read, and how much of its end may have a half of the key and is not."""
_AGAIN = frozenset({408, 409, 425, 429})
_NO_SUCH = frozenset({404, 405, 501})
"""What servers answer at an address without chats; servers of files 501 to a POST."""
_NO_ENDPOINT = re.compile(r"unexpected endpoint", re.IGNORECASE)
"""What LM Studio answers there, with status 200."""
_VERSION = re.compile(r"/v\d")


class TryAgainError(GymError):
    """A call failed in a way that may pass.

    Args:
        message: what happened.
        wait_s: seconds after which the server wants the next call; None if it did not say.
        is_least: whether `wait_s` is when one of several limits ends: the usual wait counts if it
            is longer.
        billed: whether the server may have worked, and so may charge, for the call.
        reached: whether there was a server.
    """

    def __init__(
        self,
        message: str,
        *,
        wait_s: float | None = None,
        is_least: bool = False,
        billed: bool = False,
        reached: bool = True,
    ) -> None:
        super().__init__(message, code="openai.try_again")
        self.wait_s = wait_s
        self.is_least = is_least
        self.billed = billed
        self.reached = reached


class TooLongError(InputError):
    """The messages and the answer together are longer than the model can read."""


class UnreadableAnswerError(InterruptedRunError):
    """An answer came that cannot be used; it may be charged."""


class EndlessAnswerError(UnreadableAnswerError):
    """An answer goes on beyond its limit; what was sent may be charged.

    Args:
        message: what happened.
        parts: how many parts of text came: a part is a token, or more.
        usage: the last counts of the server; None if there were none.
    """

    def __init__(self, message: str, parts: int = 0, usage: Usage | None = None) -> None:
        super().__init__(message, code="openai.endless_answer")
        self.parts = parts
        self.usage = usage


class RefusedParameterError(InputError):
    """The server does not accept a parameter of the request.

    Args:
        message: what the server said.
        name: the parameter.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message, code="openai.parameter_refused")
        self.name = name


def failure(
    status: int,
    headers: Mapping[str, str],
    body: str,
    where: str,
    sent: frozenset[str],
    clean: Callable[[str], str] = str,
    url: str = "",
) -> GymError:
    """Returns the error for a response that is no completion.

    Args:
        status: the HTTP status; for an error inside a completion, the one that it names.
        headers: the headers of the response.
        body: its text.
        where: the server and model, for the message.
        sent: the parameters of the request that can be left out.
        clean: removes the key from a text.
        url: the address before `/chat/completions`, for the hint.
    """
    is_cut = len(body) > _MOST_READ
    body = clean(body[:_MOST_READ])
    body = body[:-_EDGE] if is_cut else body
    text = _said(body, clean)
    if status in _NO_SUCH:
        return NotAvailableError(
            f"{where}: no such model or address (HTTP {status}): {text}",
            hint=_where_else(url),
            code="openai.no_such_model",
        )
    if status in _AGAIN or status >= 500 or status < 200:
        if status == 429 and _NO_CREDIT.search(body):  # words such as billing are in links too
            return _spent(where, text)
        wait_s = wait_of(headers, body)
        message = f"{where}: HTTP {status}: {text}"
        if wait_s is None and status == 429 and (reset := _reset_of(headers)) is not None:
            return TryAgainError(message, wait_s=reset, is_least=True)
        return TryAgainError(message, wait_s=wait_s, billed=status >= 500)
    if status in (400, 413, 422):
        return _refused_request(f"(HTTP {status}): {text}", body, where, sent)
    return _refused_caller(status, text, body, where)


def _refused_caller(status: int, message: str, body: str, where: str) -> GymError:
    if 300 <= status < 400:
        return NotAvailableError(
            f"{where}: expected an answer, got a redirect, which is not followed with a key",
            hint="give the address of the server itself",
            code="openai.redirected",
        )
    if status == 402 or (status == 403 and _QUOTA.search(body)):
        return _spent(where, message)
    if status in (401, 403):
        return NotAvailableError(
            f"{where}: the key was refused (HTTP {status}): {message}", code="openai.key_refused"
        )
    return InputError(
        f"{where}: the request was refused (HTTP {status}): {message}",
        code="openai.request_refused",
    )


def _where_else(url: str) -> str:
    """Returns the hint for an address that has no chats, or not with this model."""
    if url and not has_version(url):
        return f"most servers answer below /v1: {url.rstrip('/')}/v1"
    return "start again with a model that the server has: a run keeps the one it began with"


def has_version(url: str) -> bool:
    """Returns whether an address has `/v1` or another version, as those of most servers do."""
    return _VERSION.search(urlsplit(url).path) is not None


def _refused_request(message: str, body: str, where: str, sent: frozenset[str]) -> GymError:
    if _TOO_LONG.search(body) or (_CONTEXT.search(body) and _EXCESS.search(body)):
        return TooLongError(
            f"{where}: longer than the model can read {message}", code="openai.too_long"
        )
    if name := _refused(body, sent):
        return RefusedParameterError(f"{where}: {name} is not accepted {message}", name)
    return InputError(f"{where}: the request was refused {message}", code="openai.request_refused")


def _spent(where: str, message: str) -> InterruptedRunError:
    return InterruptedRunError(
        f"{where}: the quota or credit is spent: {message}",
        hint="top it up at the provider, then resume the run: answers are kept",
        code="openai.quota_spent",
    )


def wait_of(headers: Mapping[str, str], body: str) -> float | None:
    """Returns the seconds that a server wants to pass: by header, or by its words; or None."""
    for name in ("retry-after-ms", "retry-after"):
        if (value := headers.get(name)) and (seconds := _seconds(value, name)) is not None:
            return seconds
    match = _AFTER.search(body)
    return _duration(match[1]) if match else None


def _reset_of(headers: Mapping[str, str]) -> float | None:
    """Returns when a limit of requests ends, in seconds from now, if the server says it."""
    for name in ("x-ratelimit-reset-requests", "x-ratelimit-reset"):
        if (value := headers.get(name)) and (seconds := _seconds(value, name)) is not None:
            return seconds
    return None


def _duration(text: str) -> float | None:
    """Returns the seconds of `7`, `1m12.5s`, `5 minutes`, or until a time in seconds or more."""
    text = text.strip()
    parts = list(_PART.finditer(text))
    if not parts or sum(len(part[0]) for part in parts) != len(text):
        return None
    if len(parts) == 1 and not parts[0][2] and (number := float(parts[0][1])) >= _EPOCH_S:
        until = number / 1000 if number >= _EPOCH_MS else number
        return max(0.0, until - datetime.now(UTC).timestamp())
    return sum(float(number) * _scale(unit) for number, unit in (one.groups() for one in parts))


def _scale(unit: str | None) -> float:
    small = (unit or "s").lower()
    unit_name = "ms" if small.startswith(("ms", "milli")) else small[0]
    return _UNITS[unit_name]


def _seconds(value: str, name: str) -> float | None:
    if (duration := _duration(value)) is not None:
        return duration * 0.001 if name.endswith("-ms") else duration
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def error_in(answer: Mapping[str, object]) -> tuple[int, str] | None:
    """Returns the status and text of an error inside a response of status 200, or None."""
    error = answer.get("error")
    if not error:
        return None
    code = cast("dict[str, object]", error).get("code") if isinstance(error, dict) else None
    body = json.dumps({"error": error})
    status = 404 if _NO_ENDPOINT.search(body) else 500
    return (code if isinstance(code, int) and 300 <= code < 600 else status), body


def _said(body: str, clean: Callable[[str], str]) -> str:
    """Returns the server's own message on one line, shortened.

    Cleaned once more: decoding may bring a key to light, and a cut would leave half of one.
    """
    text = body
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        error = cast("dict[str, object]", value).get("error", cast("object", value))
        inner = (
            cast("dict[str, object]", error).get("message") if isinstance(error, dict) else error
        )
        text = inner if isinstance(inner, str) else body
    text = clean(well_formed(text))
    text = clean(" ".join(_TAG.sub(" ", text).split()))
    return (text[:_SHOWN] + "..." if len(text) > _SHOWN else text) or "no reason given"


def _refused(body: str, sent: frozenset[str]) -> str | None:
    """Returns the parameter that a server does not know or support; None for any other fault.

    A value that is wrong, as one out of range, is the caller's: it is not left out.
    """
    param, sentences = _sentences(body)
    if param is not None:
        rejected = any(_REJECTED.search(text) for text in sentences)
        return param if param in sent and rejected else None
    for sentence in sentences:
        word = _REJECTED.search(sentence)
        places = {
            match.start(): name
            for name in sent
            for called in (name, *_ALSO_CALLED.get(name, ()))
            for match in re.finditer(rf"\b{re.escape(called)}\b", sentence)
        }
        if word and places:
            return places[
                min(places, key=lambda position: (abs(position - word.start()), position))
            ]
    return None


def _sentences(body: str) -> tuple[str | None, list[str]]:
    """Returns the parameter that an error has in its own field, and its sentences.

    The other fields may repeat the request, with every parameter.
    """
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None, _END.split(body)
    if not isinstance(value, dict):
        return None, []
    inner = cast("dict[str, object]", value).get("error", cast("object", value))
    if isinstance(inner, str):
        return None, _END.split(inner)
    error = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    texts = [
        part for key in ("code", "message", "detail") if isinstance(part := error.get(key), str)
    ]
    if isinstance(details := error.get("detail"), list):  # a list of faults, each with its place
        texts += [json.dumps(part) for part in cast("list[object]", details)]
    param = error.get("param")
    return (
        param if isinstance(param, str) else None,
        [sentence for text in texts for sentence in _END.split(text)],
    )
