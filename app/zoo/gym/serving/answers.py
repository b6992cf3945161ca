"""One answer of a request: its pieces while it is computed, and what it amounts to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zoo.backends.batching import Request
from zoo.backends.sampling import Sampling, Scored, before_stop
from zoo.gym.chat.parts import LINE_END, Parts
from zoo.gym.data.records import Tools
from zoo.gym.serving.logprobs import Score, Scorer
from zoo.gym.serving.replies import Piece, Reply, ToolCall
from zoo.gym.serving.variants import Asked

if TYPE_CHECKING:
    from zoo.backends.sampling import TokenEvent
    from zoo.gym.serving.engine import Engine


@dataclass
class Answer:
    """An answer, filled while its pieces are read.

    Attributes:
        asked: the model.
        reload: reads its variant again, which may have left the memory while the answer waited.
        ids: the prompt.
        sampling: how it is drawn.
        key: the seed of its stream.
        scores_prompt: whether the prompt's tokens are scored.
        ends_at_once: whether the prompt is all that is wanted.
        is_reply: whether it is a turn of a chat: reasoning and calls are apart from its content,
            and line ends around it are left out.
        tools: the tools that it may call.
        most_calls: it ends after this many calls; None for no limit.
        finish: `stop`, `length` or `tool_calls`, once it has ended.
        scores: its tokens as they are reported; the last one may be a stop id.
        prompt: the scores of the prompt's tokens but the first.
        reasoning_tokens: how many tokens its reasoning took.
    """

    asked: Asked
    reload: Callable[[], Awaitable[Asked]]
    ids: list[int]
    sampling: Sampling
    key: int
    scores_prompt: bool = False
    ends_at_once: bool = False
    is_reply: bool = False
    tools: Tools = ()
    most_calls: int | None = None
    finish: str | None = None
    tokens: list[int] = field(default_factory=list[int])
    scores: list[Score] = field(default_factory=list[Score])
    prompt: tuple[Scored, ...] = ()
    reasoning_tokens: int = 0
    content: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    async def pieces(self, engine: "Engine") -> AsyncGenerator[Piece]:
        """Yields the answer in pieces; closing the iterator cancels it.

        Raises:
            BusyError, FailedError, ValueError: see `Engine.stream`.
            InputError: calls of this model cannot be read.
        """
        decode = self.asked.tokenizer.decode
        reply = None
        if self.is_reply:
            # an answer that has to be a call is one, also where the prompt has begun a think block
            begun = decode(self.ids) if self.sampling.constraint is None else ""
            reply = Reply(self.asked.tokenizer, begun, self.tools)
        text = self._texts(engine)
        try:
            async for part in text:
                plain: list[Piece] = [("content", part)]
                for piece in plain if reply is None else reply.add(part):
                    self._keep(piece)
                    yield piece
                    if self._may_not_call:
                        self.finish = "tool_calls"
                        return
        finally:
            await text.aclose()
        for piece in () if reply is None else reply.end():
            self._keep(piece)
            yield piece
            if self._may_not_call:
                break
        if self.calls and self.finish == "stop":
            self.finish = "tool_calls"

    @property
    def _may_not_call(self) -> bool:
        return self.most_calls is not None and len(self.calls) >= self.most_calls

    def _keep(self, piece: Piece) -> None:
        if isinstance(piece, ToolCall):
            self.calls.append(piece)
        elif piece[0] == "content":
            self.content += piece[1]
        else:
            self.reasoning += piece[1]
            self.reasoning_tokens = len(self.tokens)

    async def _texts(self, engine: "Engine") -> AsyncGenerator[str]:
        """Yields the text that the model wrote, in parts."""
        request = Request(
            tuple(self.ids), self.sampling, self.key, self.asked.adapter, self.scores_prompt
        )
        decode = self.asked.tokenizer.decode
        parts = Parts(decode, self.sampling.stop_strings, stripped=self.is_reply)
        scorer, stream = Scorer(self.asked.tokenizer), self._stream(request, engine)
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
        ids = [token for token in self.tokens if token not in self.sampling.stop_ids]
        text = before_stop(decode(ids), self.sampling.stop_strings)
        if rest := parts.rest(text.strip(LINE_END) if self.is_reply else text):
            yield rest

    async def _stream(self, request: Request, engine: "Engine") -> "AsyncGenerator[TokenEvent]":
        """Yields the tokens of the answer."""
        stream = engine.stream(request)
        try:
            try:
                event = await anext(stream)
            except KeyError:
                adapter = (await self.reload()).adapter
                # queued before anything else can take its place
                stream = engine.stream(replace(request, adapter=adapter))
                event = await anext(stream)
            yield event
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    def scored(self) -> list[Score]:
        """Returns its tokens as they are reported, without the stop token."""
        pairs = zip(self.tokens, self.scores, strict=True)
        return [score for token, score in pairs if token not in self.sampling.stop_ids]
