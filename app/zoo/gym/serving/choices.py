"""The choices of responses: what of an answer stands where."""

import secrets
import time
from typing import Any, Protocol

from zoo.gym.serving.answers import Answer
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.logprobs import Score, chat_logprobs, completion_logprobs, prompt_scores
from zoo.gym.serving.replies import Piece, ToolCall
from zoo.gym.serving.wire import Body, CompletionBody, usage


class Choices(Protocol):
    """The form of the responses of one route.

    Attributes:
        prefix: what ids begin with.
        kind: the `object` of a whole response.
        piece: that of a chunk of a stream.
    """

    prefix: str
    kind: str
    piece: str

    @property
    def body(self) -> Body:
        """The request."""
        ...

    def whole(self, index: int, answer: Answer) -> dict[str, Any]:
        """Returns the choice of an answer that has ended."""
        ...

    def opening(self, index: int) -> dict[str, Any] | None:
        """Returns what a stream begins with."""
        ...

    def scores(self, answer: Answer) -> list[Score]:
        """Returns the tokens of an answer that log-probabilities are sent of."""
        ...

    def part(
        self, index: int, answer: Answer, piece: Piece | None, start: int, finish: str | None
    ) -> dict[str, Any]:
        """Returns the choice of a chunk.

        Args:
            index: which answer.
            answer: as far as it is known.
            piece: what was added; None at the end.
            start: the tokens whose log-probabilities were sent.
            finish: how it ended, at the end.
        """
        ...


class ChatChoices:
    """The form of a chat's responses."""

    prefix, kind, piece = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, body: ChatBody) -> None:
        self.body = body

    def whole(self, index: int, answer: Answer) -> dict[str, Any]:
        """Returns the choice of an answer that has ended."""
        content = answer.content if answer.content or not answer.calls else None
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(answer, 0),
            "finish_reason": answer.finish,
        }

    def opening(self, index: int) -> dict[str, Any] | None:
        """Returns what a stream begins with."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def scores(self, answer: Answer) -> list[Score]:
        """Returns all but the stop token."""
        return answer.scored()

    def part(
        self, index: int, answer: Answer, piece: Piece | None, start: int, finish: str | None
    ) -> dict[str, Any]:
        """Returns the choice of a chunk."""
        delta: dict[str, Any] = {}
        if isinstance(piece, ToolCall):
            delta["tool_calls"] = [{"index": answer.calls.index(piece), **_call(piece)}]
        elif piece is not None:
            delta["content" if piece[0] == "content" else "reasoning_content"] = piece[1]
        logprobs = self._logprobs(answer, start)
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, answer: Answer, start: int) -> dict[str, Any] | None:
        if not self.body.logprobs:
            return None
        return chat_logprobs(self.scores(answer)[start:])


class CompletionChoices:
    """The form of a completion's responses."""

    prefix, kind, piece = "cmpl", "text_completion", "text_completion"

    def __init__(self, body: CompletionBody) -> None:
        self.body = body

    def whole(self, index: int, answer: Answer) -> dict[str, Any]:
        """Returns the choice of an answer that has ended."""
        text, scores = answer.content, self.scores(answer)
        if self.body.echo:
            prompt = self.body.prompts()[index // (self.body.n or 1)]
            tokenizer = answer.asked.tokenizer
            text = (prompt if isinstance(prompt, str) else tokenizer.decode(prompt)) + text
            if self.body.scores_prompt:
                scores = [*prompt_scores(tokenizer, answer.ids, answer.prompt), *scores]
        return self._choice(index, text, self._logprobs(scores, 0), answer.finish)

    def opening(self, index: int) -> dict[str, Any] | None:
        """Returns None: a stream begins with its first text."""
        del index
        return None

    def scores(self, answer: Answer) -> list[Score]:
        """Returns all, with the stop token."""
        return answer.scores

    def part(
        self, index: int, answer: Answer, piece: Piece | None, start: int, finish: str | None
    ) -> dict[str, Any]:
        """Returns the choice of a chunk."""
        text = piece[1] if isinstance(piece, tuple) else ""
        return self._choice(index, text, self._logprobs(self.scores(answer), start), finish)

    def _choice(
        self, index: int, text: str, logprobs: dict[str, Any] | None, finish: str | None
    ) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, scores: list[Score], start: int) -> dict[str, Any] | None:
        if self.body.logprobs is None:
            return None
        begin = sum(len(score.text) for score in scores[:start])
        return completion_logprobs(scores[start:], begin)


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def head_of(form: Choices) -> dict[str, Any]:
    """Returns what all parts of a response have in common."""
    return {
        "id": f"{form.prefix}-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": form.body.model,
    }


def response_of(form: Choices, answers: list[Answer]) -> dict[str, Any]:
    """Returns a whole response."""
    choices = [form.whole(*pair) for pair in enumerate(answers)]
    rest = {"object": form.kind, "choices": choices, "usage": usage_of(answers)}
    return head_of(form) | rest


def usage_of(answers: list[Answer]) -> dict[str, int]:
    """Returns how many tokens were read and answered; a prompt of several answers counts once."""
    prompts = {id(answer.ids): len(answer.ids) for answer in answers}
    return usage(sum(prompts.values()), sum(len(answer.tokens) for answer in answers))
