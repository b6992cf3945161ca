"""Answers in a form: JSON, JSON of a schema, or text of a regular expression.

llguidance computes which tokens may come next (docs/decisions/0038). It refuses keywords of JSON
Schema that it does not enforce, but ignores names that it has never heard of; these are refused
here.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from zoo.backends.shaping import BlockedError
from zoo.gym.data import Tokenizer
from zoo.gym.serving.forms import Form
from zoo.gym.serving.variants import Asked, vocabulary_of
from zoo.gym.serving.wire import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.backends.shaping import Constraint

MOST_CHARACTERS = 100_000
"""The largest schema or regular expression."""

MOST_MASK_S = 0.05
"""The most processor time for the mask of a first token: all rows wait for it."""

WHITESPACE = r"( |\n {0,16})"
"""White space in JSON: one space, or a new line with its indent. A model could go on for ever."""

MAPS = ("properties", "patternProperties", "$defs", "definitions")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
SCHEMAS = ("items", "additionalItems", "additionalProperties")

ENFORCED = {
    *MAPS,
    *LISTS,
    *SCHEMAS,
    *("$ref", "type", "enum", "const", "required", "minProperties", "maxProperties"),
    *("minItems", "maxItems", "minLength", "maxLength", "pattern", "format", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that are enforced, or that llguidance refuses where it cannot."""

NOTES = {
    *("$schema", "$id", "$anchor", "$comment", "title", "description", "default", "examples"),
    *("deprecated", "readOnly", "writeOnly", "discriminator"),
}
"""Keywords that say nothing about which answers are valid."""


def constraint_for(asked: Asked, form: Form) -> "Callable[[], Constraint]":
    """Returns what makes the constraint of a new answer; takes seconds for a new tokenizer.

    Args:
        asked: the model that answers.
        form: what answers have to be.

    Raises:
        RequestError: the form is wrong, too large, or cannot be enforced.
    """
    vocabulary, stop_ids = vocabulary_of(asked), asked.stop_ids
    field, kind, text = form
    if not stop_ids:
        raise _refusal(field, "a model with a token that ends answers, got none")
    if len(text) > MOST_CHARACTERS:
        raise _refusal(field, f"at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    with _READING:
        tokens = _tokens(cast("Any", asked.tokenizer), vocabulary, stop_ids, field)
    if kind == "json":
        options: Any = {"whitespace_pattern": WHITESPACE}
        grammar = LLMatcher.grammar_from_json_schema(text, overrides=options)
    elif kind == "call":
        grammar = LLMatcher.grammar_from_lark(_lark(json.loads(text)))
    else:
        grammar = LLMatcher.grammar_from_regex(text)
    limits = LLParserLimits(verbose_errors=False)
    matcher = LLMatcher(tokens, grammar, log_level=0, limits=limits)
    if matcher.is_error():
        raise _refusal(field, f"a {NAMES[kind]} that can be enforced: {_reason(matcher)}")
    if kind == "json":
        _check_keywords(json.loads(text), field)
    elif kind == "call":
        _check_keywords(json.loads(text)["schema"], field)
    _check_first_token(matcher, vocabulary, field)
    return lambda: _Grammar(matcher.deep_copy())


NAMES = {"json": "schema", "regex": "regular expression", "call": "schema of a tool"}


def _lark(call: dict[str, Any]) -> str:
    """Returns the grammar of a call."""
    schema = json.dumps({"x-guidance": {"whitespace_pattern": WHITESPACE}, **call["schema"]})
    parts = [json.dumps(call["begin"]), f"%json {schema}", json.dumps(call["end"])]
    return "start: " + " ".join(part for part in parts if part != '""')


_READING = Lock()


@lru_cache(maxsize=4)
def _tokens(
    tokenizer: Tokenizer, vocabulary: int, stop_ids: tuple[int, ...], field: str
) -> LLTokenizer:
    """Returns the tokens of a model with their bytes; takes seconds for a large vocabulary."""
    try:
        return LLTokenizer(
            tokenizer.backend_tokenizer.to_str(), n_vocab=vocabulary, eos_token=list(stop_ids)
        )
    except ValueError as error:
        raise RequestError(
            f"{field}: this model's tokenizer does not say which bytes its tokens have ({error})",
            param=field,
        ) from None


class _Grammar:
    """The constraint of one answer.

    Args:
        matcher: has read the answer so far.
    """

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def allowed(self, size: int) -> "NDArray[np.bool_]":
        """Returns which tokens may come next; see `Constraint.allowed`."""
        bits = np.zeros((size + 31) // 32, np.uint32)
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        # after an error it would allow the end of the answer
        if self._matcher.is_error():
            raise BlockedError(_reason(self._matcher))
        return np.unpackbits(bits.view(np.uint8), count=size, bitorder="little").astype(np.bool_)

    def advance(self, token: int) -> None:
        """Appends a token; see `Constraint.advance`."""
        self._matcher.consume_token(token)


def _check_first_token(matcher: LLMatcher, vocabulary: int, field: str) -> None:
    """Refuses what no answer fulfils, and what would slow down everybody's answers."""
    try:
        _Grammar(matcher.deep_copy()).allowed(vocabulary)
        start = time.thread_time()  # of the second one: copies share what was built
        _Grammar(matcher.deep_copy()).allowed(vocabulary)
    except BlockedError as error:
        raise _refusal(field, f"what an answer can be: {error}") from None
    used = time.thread_time() - start
    if used > MOST_MASK_S:
        limit = f"{1000 * MOST_MASK_S:.0f} ms"
        raise _refusal(field, f"at most {limit} of computation for a token, got {1000 * used:.0f}")


def _check_keywords(schema: Any, field: str) -> None:  # noqa: ANN401
    """Refuses keywords that nothing enforces.

    Raises:
        RequestError: there is one.
    """
    for part in _parts(schema):
        for key in part:
            if key not in ENFORCED and key not in NOTES:
                raise _refusal(field, f"keywords that are enforced, got {key!r:.60}")
        # the same name twice counts as two for the grammar, and as one for whoever reads it
        if part.get("minProperties", 0) > 1:
            raise _refusal(field, "minProperties of at most 1, got more")


def _parts(schema: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Yields a schema and those in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    maps = (schema.get(key) for key in MAPS)
    within = [value for names in maps if isinstance(names, dict) for value in names.values()]
    for key in (*LISTS, *SCHEMAS):
        value = schema.get(key)
        within += value if isinstance(value, list) else [value]
    for part in within:
        yield from _parts(part)


def _reason(matcher: LLMatcher) -> str:
    return " ".join(matcher.get_error().removesuffix("<non-verbose/>").split())[:300]


def _refusal(field: str, expected: str) -> RequestError:
    return RequestError(f"{field}: expected {expected}", param=field)
