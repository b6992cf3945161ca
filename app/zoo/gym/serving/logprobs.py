"""The log-probabilities of an answer in the forms of OpenAI's API."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from zoo.backends.detokenizer import INCOMPLETE, Detokenizer
from zoo.backends.sampling import Scored
from zoo.gym.data import Tokenizer

TopTexts: TypeAlias = tuple[tuple[str, float], ...]


class Score(NamedTuple):
    """A token as it is reported.

    Attributes:
        text: what it added to the text; a part of a character adds nothing, and the token that
            completes it all of it.
        logprob: its log-probability; None of a prompt's first token.
        top: the most likely tokens in its place, the most likely one first.
    """

    text: str
    logprob: float | None
    top: TopTexts = ()


class Scorer:
    """Turns tokens to scores, in their order.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = Detokenizer(tokenizer.decode)

    def add(self, token: int, scored: Scored | None) -> Score:
        """Appends a token.

        Args:
            token: the token.
            scored: its log-probability, and the most likely tokens in its place.
        """
        logprob, top = scored or (None, ())
        texts = tuple((self._name(other), p) for other, p in top)  # before it is appended
        return Score(self._text.add(token), logprob, texts)

    def _name(self, token: int) -> str:
        """Returns the text that a token would add; its name if that is a part of a character."""
        text = self._text.peek(token)
        if text and not text.endswith(INCOMPLETE):
            return text
        return str(self._tokenizer.backend_tokenizer.id_to_token(token))


def prompt_scores(
    tokenizer: Tokenizer, ids: Sequence[int], scores: Sequence[Scored]
) -> list[Score]:
    """Returns the tokens of a prompt as they are reported, from the scores of all but the first."""
    scorer = Scorer(tokenizer)
    return [scorer.add(token, scored) for token, scored in zip(ids, (None, *scores), strict=True)]


def chat_logprobs(scores: Sequence[Score]) -> dict[str, Any]:
    """Returns the log-probabilities of a chat's tokens."""

    def entry(text: str, logprob: float | None) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    return {
        "content": [
            entry(text, logprob) | {"top_logprobs": [entry(*other) for other in top]}
            for text, logprob, top in scores
        ],
        "refusal": None,
    }


def completion_logprobs(scores: Sequence[Score], start: int = 0) -> dict[str, Any]:
    """Returns the log-probabilities of a completion's tokens; `start` is where the first begins."""
    texts = [score.text for score in scores]
    return {
        "tokens": texts,
        "token_logprobs": [score.logprob for score in scores],
        "top_logprobs": _tops(scores),
        "text_offset": [start + sum(map(len, texts[:place])) for place in range(len(texts))],
    }


def _tops(scores: Sequence[Score]) -> list[dict[str, float] | None] | None:
    """Returns the most likely tokens with the token itself; None if they are not reported."""
    if not any(score.top for score in scores):
        return None
    return [_by_text(score) if score.top else None for score in scores]


def _by_text(score: Score) -> dict[str, float]:
    # of tokens with the same text the most likely one counts: clients look for the largest value
    by_text: dict[str, float] = {}
    for text, logprob in score.top:
        by_text.setdefault(text, logprob)
    if score.logprob not in by_text.values():
        by_text.setdefault(score.text, score.logprob or 0.0)
    return by_text
