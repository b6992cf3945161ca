"""One answer of a request: its text in parts while it is computed, and what it amounts to."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zoo.backends.batching import Request
from zoo.backends.sampling import Sampling, Scored, before_stop
from zoo.gym.chat.parts import LINE_END, Parts
from zoo.gym.serving.logprobs import Score, Scorer
from zoo.gym.serving.variants import Asked

if TYPE_CHECKING:
    from zoo.gym.serving.engine import Engine


@dataclass
class Answer:
    """An answer, filled while its parts are read.

    Attributes:
        asked: the model.
        ids: the prompt.
        sampling: how it is drawn.
        key: the seed of its stream.
        stripped: whether line ends around it are left out, as in a chat.
        scores_prompt: whether the prompt's tokens are scored.
        ends_at_once: whether the prompt is all that is wanted.
        finish: `stop` or `length`, once it has ended.
        scores: its tokens as they are reported; the last one may be a stop id.
        prompt: the scores of the prompt's tokens but the first.
    """

    asked: Asked
    ids: list[int]
    sampling: Sampling
    key: int
    stripped: bool
    scores_prompt: bool = False
    ends_at_once: bool = False
    finish: str | None = None
    tokens: list[int] = field(default_factory=list[int])
    scores: list[Score] = field(default_factory=list[Score])
    prompt: tuple[Scored, ...] = ()

    async def parts(self, engine: "Engine") -> AsyncGenerator[str]:
        """Yields the text in parts; closing the iterator cancels the answer.

        Raises:
            BusyError, FailedError, ValueError: see `Engine.stream`.
        """
        request = Request(
            tuple(self.ids), self.sampling, self.key, self.asked.adapter, self.scores_prompt
        )
        decode = self.asked.tokenizer.decode
        parts = Parts(decode, self.sampling.stop_strings, stripped=self.stripped)
        scorer, stream = Scorer(self.asked.tokenizer), engine.stream(request)
        try:
            async for event in stream:
                self.prompt = self.prompt or event.prompt
                if self.ends_at_once:
                    self.finish = "length"
                    return
                self.tokens.append(event.id)
                self.scores.append(scorer.add(event.id, (event.logprob, event.top)))
                self.finish = event.finish
                stops = event.id in self.sampling.stop_ids
                if not stops and (part := parts.add(event.id)):
                    yield part
        finally:
            await stream.aclose()
        if rest := parts.rest(self.text):
            yield rest

    @property
    def text(self) -> str:
        """The text so far, before a stop string."""
        ids = [token for token in self.tokens if token not in self.sampling.stop_ids]
        text = before_stop(self.asked.tokenizer.decode(ids), self.sampling.stop_strings)
        return text.strip(LINE_END) if self.stripped else text

    def scored(self) -> list[Score]:
        """Returns its tokens as they are reported, without the stop token."""
        pairs = zip(self.tokens, self.scores, strict=True)
        return [score for token, score in pairs if token not in self.sampling.stop_ids]
