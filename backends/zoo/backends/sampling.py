"""The settings of sampling, a sampled answer, and where answers end."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import NamedTuple, TypeAlias

from zoo.backends.detokenizer import Detokenizer
from zoo.backends.shaping import Constraint, Top

LEAST_TEMPERATURE = 1e-6
"""Logits divided by less may overflow float32."""

LEAST_TOP_P = 1e-30
"""What a smaller `top_p` counts as: in float32 it may be 0, which keeps no token at all."""


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling.

    Attributes:
        max_new_tokens: the largest number of tokens in an answer.
        temperature: the divisor of the logits; 0 always picks the most likely token.
        top_p: sample from the most likely tokens with this total probability; 1 for all.
        top_k: sample from this many of the most likely tokens; 0 for all.
        min_p: sample from tokens with at least this share of the most likely one's probability; 0
            for all.
        presence_penalty: subtracted from the logits of tokens that the answer has.
        frequency_penalty: the same, as often as it has the token.
        logit_bias: tokens and what is added to their logits.
        constraint: returns the constraint of a new answer, which allows only some tokens.
        top_logprobs: how many of the most likely tokens are reported with each token.
        stop_ids: the tokens that end an answer.
        stop_strings: the texts that end an answer as soon as its text contains one of them; the
            text that counts is what precedes it, see `before_stop`.
        decode: ids to text; a policy needs it for `stop_strings`, a server has its own.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: Callable[[], Constraint] | None = field(default=None, repr=False, compare=False)
    top_logprobs: int = 0
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    decode: Callable[[list[int]], str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Checks the ranges of the settings.

        Raises:
            ValueError: a setting is out of its range; the message begins with its name.
        """
        _require_whole("max_new_tokens", self.max_new_tokens, 1)
        _require_whole("top_k", self.top_k, 0)
        _require_whole("top_logprobs", self.top_logprobs, 0)
        heat = self.temperature
        if heat != 0 and not LEAST_TEMPERATURE <= heat < inf:
            raise ValueError(
                f"temperature: expected 0, or {LEAST_TEMPERATURE:g} or more, got {heat:g}"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected more than 0 and at most 1, got {self.top_p:g}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p: expected 0 to 1, got {self.min_p:g}")
        for name in ("presence_penalty", "frequency_penalty"):
            if not isfinite(getattr(self, name)):
                raise ValueError(f"{name}: expected a finite number, got {getattr(self, name):g}")
        if not all(isfinite(bias) for _, bias in self.logit_bias):
            raise ValueError(f"logit_bias: expected finite numbers, got {self.logit_bias!r:.100}")
        if isinstance(self.stop_strings, str) or not all(self.stop_strings):
            raise ValueError(f"stop_strings: expected texts, none empty, got {self.stop_strings!r}")

    @property
    def shapes_logits(self) -> bool:
        """Whether tokens are drawn from other logits than the model's; see `Shaping`."""
        penalty = self.presence_penalty or self.frequency_penalty
        return bool(penalty or self.logit_bias) or self.constraint is not None


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")


def check_rows(prompts: Sequence[Sequence[int]], sampling: Sampling, keys: Sequence[int]) -> None:
    """Checks what a policy is asked to continue.

    Raises:
        ValueError: a prompt is empty, the number of keys differs from that of prompts, or stop
            strings are without `decode`.
    """
    if len(keys) != len(prompts) or not all(prompts):
        raise ValueError("generate: expected one key per prompt and no empty prompt")
    if sampling.stop_strings and sampling.decode is None:
        raise ValueError("stop_strings: expected decode with them, got none")


def before_stop(text: str, stop_strings: Iterable[str]) -> str:
    """Returns the text before the first of the stop strings in it; all of it without one.

    >>> before_stop("1. a 2. b", ("2.", " b"))
    '1. a '
    """
    return text[: min((text.find(stop) for stop in stop_strings if stop in text), default=None)]


Scored: TypeAlias = tuple[float, Top]
"""The log-probability of a token of a prompt, and the most likely tokens in its place."""


class TokenEvent(NamedTuple):
    """One sampled token.

    Attributes:
        row: the index of its prompt.
        id: the token.
        logprob: its log-probability, see `Rollout`.
        finish: None until the row's last token, then as in `Rollout`.
        top: the most likely tokens in its place, `Sampling.top_logprobs` of them.
        prompt: the scores of the prompt's tokens but the first, with the row's first token, if its
            request asks for them.
    """

    row: int
    id: int
    logprob: float
    finish: str | None
    top: Top = ()
    prompt: tuple[Scored, ...] = ()


@dataclass(frozen=True)
class Rollout:
    """One sampled answer.

    Attributes:
        ids: the token ids, all that were sampled: the last one is the stop id, or the token whose
            text completed a stop string, if that ended the answer.
        logprobs: the model's log-probability of each token, as `Scorer.score` computes it: at
            temperature 1 and over the whole vocabulary, whatever settings the token was sampled
            with.
        finish: `stop` if a stop id was sampled or the text contains a stop string, `length` after
            `max_new_tokens` without.
    """

    ids: list[int]
    logprobs: list[float]
    finish: str


def rollouts_of(events: Iterable[TokenEvent], rows: int) -> list[Rollout]:
    """Joins the events of each row into its answer."""
    ids: list[list[int]] = [[] for _ in range(rows)]
    logprobs: list[list[float]] = [[] for _ in range(rows)]
    finishes = [""] * rows
    for event in events:
        ids[event.row].append(event.id)
        logprobs[event.row].append(event.logprob)
        finishes[event.row] = event.finish or ""
    return [Rollout(*parts) for parts in zip(ids, logprobs, finishes, strict=True)]


class Answers:
    """The answers of a batch while they grow: which have ended, and why.

    Args:
        sampling: the settings.
        rows: the index of the prompt of each row of the batch.
    """

    def __init__(self, sampling: Sampling, rows: Sequence[int]) -> None:
        self._sampling = sampling
        self._rows = list(rows)
        self._ended: set[int] = set()
        self._tokens = 0
        self._texts = {row: StopText(sampling) for row in rows} if sampling.stop_strings else {}

    def add(
        self, tokens: Sequence[int], logprobs: Sequence[float], tops: Sequence[Top] = ()
    ) -> list[TokenEvent]:
        """Appends a token to each row of the batch; returns those of rows that had not ended.

        Args:
            tokens: the tokens.
            logprobs: their log-probabilities.
            tops: the most likely tokens in their places, if they are reported.
        """
        self._tokens += 1
        last = "length" if self._tokens == self._sampling.max_new_tokens else None
        events: list[TokenEvent] = []
        reported = tops or [()] * len(tokens)
        for row, token, logprob, top in zip(self._rows, tokens, logprobs, reported, strict=True):
            if row in self._ended:
                continue
            stops = token in self._sampling.stop_ids
            # a stop id is no part of the text
            if self._texts and not stops:
                stops = self._texts[row].add(token)
            finish = "stop" if stops else last
            if finish is not None:
                self._ended.add(row)
            events.append(TokenEvent(row, token, logprob, finish, top))
        return events

    @property
    def unfinished(self) -> list[int]:
        """The places in the batch of the rows that have not ended."""
        return [index for index, row in enumerate(self._rows) if row not in self._ended]

    def select(self, places: Sequence[int]) -> None:
        """Keeps the rows at these places of the batch."""
        self._rows = [self._rows[index] for index in places]


class StopText:
    """Looks for stop strings in the text of an answer, also across tokens.

    Args:
        sampling: the settings, with `decode`.
    """

    def __init__(self, sampling: Sampling) -> None:
        assert sampling.decode is not None
        self._stops = sampling.stop_strings
        self._text = Detokenizer(sampling.decode)
        self._kept = max(map(len, sampling.stop_strings)) - 1
        self._end = ""  # what may be the beginning of a stop string

    def add(self, token: int) -> bool:
        """Appends a token; returns whether the text contains a stop string."""
        self._end += self._text.add(token)
        text = self._end + self._text.pending
        self._end = self._end[-self._kept :] if self._kept else ""
        return any(stop in text for stop in self._stops)


@dataclass(frozen=True)
class Prefix:
    """Tokens that prompts begin with, as a policy has read them; valid while its weights stay.

    Attributes:
        ids: the tokens.
        kept_bytes: the memory of what is kept of them, once for all rows.
    """

    ids: tuple[int, ...]
    kept_bytes: int
