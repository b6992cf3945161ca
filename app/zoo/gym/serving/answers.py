"""One answer of a request: its text in parts while it is computed, and what it amounts to."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zoo.backends.batching import Request
from zoo.backends.detokenizer import Detokenizer
from zoo.backends.sampling import Sampling, before_stop
from zoo.gym.chat.parts import LINE_END, Parts
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
        finish: `stop` or `length`, once it has ended.
    """

    asked: Asked
    ids: list[int]
    sampling: Sampling
    key: int
    stripped: bool
    finish: str | None = None
    tokens: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])
    logprobs: list[float] = field(default_factory=list[float])

    async def parts(self, engine: "Engine") -> AsyncGenerator[str]:
        """Yields the text in parts; closing the iterator cancels the answer.

        Raises:
            BusyError, FailedError, ValueError: see `Engine.stream`.
        """
        request = Request(tuple(self.ids), self.sampling, self.key, self.asked.adapter)
        decode = self.asked.tokenizer.decode
        parts = Parts(decode, self.sampling.stop_strings, stripped=self.stripped)
        detokenizer, stream = Detokenizer(decode), engine.stream(request)
        try:
            async for event in stream:
                self.tokens.append(event.id)
                self.texts.append(detokenizer.add(event.id))
                self.logprobs.append(event.logprob)
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

    def scored(self) -> tuple[list[str], list[float]]:
        """Returns the text that each token added, and its log-probability; not of the stop token.

        A token that is a part of a character adds nothing, and the one that completes it all of it.
        """
        rows = zip(self.tokens, self.texts, self.logprobs, strict=True)
        pairs = [(text, p) for token, text, p in rows if token not in self.sampling.stop_ids]
        return [text for text, _ in pairs], [logprob for _, logprob in pairs]
