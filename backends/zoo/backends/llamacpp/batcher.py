"""Many rows of one GGUF file, each in a slot of llama.cpp's, each with its own adapter."""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from math import prod
from pathlib import Path
from typing import TypeAlias

from zoo.backends.batching import Adapter, Batcher, Request, check_length
from zoo.backends.llamacpp.server import LlamaServer, require_llamacpp
from zoo.backends.machine.threads import choose_threads
from zoo.backends.sampling import Answers, TokenEvent, check_rows
from zoo.core.errors import InputError
from zoo.models.gguf.parts import Source
from zoo.models.gguf.text_files import context_length

KEPT_SHARE = 0.5
"""The most of the free memory that keys and values take."""

AMPLE_TOKENS = 8192
"""Fewer rows are answered at once before each has less room than this."""

Drawn: TypeAlias = "Future[tuple[int, float]]"


@dataclass(eq=False)
class _Slot:
    """A place for a row: its tokens stay when it has ended, for a prompt that begins like it."""

    index: int
    tokens: list[int] = field(default_factory=list[int])
    adapter: str | None = None

    def shared(self, request: Request) -> int:
        if self.adapter != request.adapter:
            return 0
        pairs = zip(self.tokens, request.ids, strict=False)
        return next((index for index, (a, b) in enumerate(pairs) if a != b), len(self.tokens))


@dataclass(eq=False)
class _Row:
    """A request that is being answered in a slot."""

    number: int
    request: Request
    slot: _Slot
    answers: Answers
    drawn: int = 0
    is_cancelled: bool = False


class LlamaBatcher(Batcher):
    """A batcher of a GGUF file.

    Args:
        source: the open file.
        adapters: LoRA adapters in GGUF by name.
        rows: the most rows that are answered at once.
        cache_bytes: the most memory of keys and values; None takes a share of what is free.

    Attributes:
        tokens: the most tokens of a prompt and its answer.

    Raises:
        NotAvailableError: the extra `llamacpp` is not installed.
        InputError: llama.cpp refuses the model or an adapter.
    """

    def __init__(
        self,
        source: Source,
        adapters: Mapping[str, Path],
        *,
        rows: int,
        cache_bytes: int | None = None,
    ) -> None:
        require_llamacpp()
        room_bytes = int(KEPT_SHARE * free_bytes())
        slots, self.tokens = room(source, rows, min(room_bytes, cache_bytes or room_bytes))
        size = sum(prod(tensor.shape) for _, tensor in source.tensors.values())
        threads = choose_threads(size)
        self._server = LlamaServer(
            source, adapters, slots=slots, tokens=self.tokens, threads=threads
        )
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="llamacpp")
        self._free = [_Slot(index) for index in range(slots)]  # the latest used last
        self._waiting: dict[int, Request] = {}
        self._drawing: dict[Drawn, _Row] = {}
        self._numbers = count()

    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Refuses the adapter: llama.cpp reads all of them when it starts."""
        del adapter
        raise InputError(
            f"adapter {name!r}: expected a GGUF file, named when the model is loaded",
            code="llamacpp.unknown_adapter",
        )

    def remove_adapter(self, name: str) -> None:
        """Raises KeyError: none was added."""
        raise KeyError(name)

    def add(self, request: Request) -> int:
        """Queues a request; see `Batcher.add`."""
        # llama.cpp would answer as the base, without a word
        if request.adapter is not None and request.adapter not in self._server.adapters:
            raise KeyError(request.adapter)
        check_rows([request.ids], request.sampling, [request.key])
        if not all(0 <= token < self._server.vocabulary for token in request.ids):
            raise ValueError(
                f"prompt: expected tokens from 0 to {self._server.vocabulary - 1}, got others"
            )
        check_length(request, self.tokens)
        _refuse_unsupported(request)
        number = next(self._numbers)
        self._waiting[number] = request
        return number

    def cancel(self, row: int) -> None:
        """Ends a row; see `Batcher.cancel`."""
        self._waiting.pop(row, None)
        for other in self._drawing.values():
            if other.number == row:
                other.is_cancelled = True
                self._server.abandon(other.slot.index)

    @property
    def busy(self) -> bool:
        """Whether rows wait or are being answered."""
        return bool(self._waiting) or any(not row.is_cancelled for row in self._drawing.values())

    def step(self) -> list[TokenEvent]:
        """Returns the tokens that come next, of any rows, as soon as there is one.

        Raises:
            InterruptedRunError: llama.cpp failed.
        """
        while self._waiting and self._free:
            number = next(iter(self._waiting))
            self._begin(number, self._waiting.pop(number))
        done, _ = wait(self._drawing, return_when=FIRST_COMPLETED)
        events: list[TokenEvent] = []
        for drawn in done:
            row = self._drawing.pop(drawn)
            if row.is_cancelled or drawn.exception() is not None:
                self._free.append(row.slot)
            if not row.is_cancelled:
                events += self._added(row, *drawn.result())
        return events

    def clear(self) -> None:
        """Ends all rows."""
        for number in [*self._waiting, *(row.number for row in self._drawing.values())]:
            self.cancel(number)

    def close(self) -> None:
        """Ends all rows, and frees the model."""
        self.clear()
        self._threads.shutdown()
        self._server.close()

    def _begin(self, number: int, request: Request) -> None:
        """Starts a row in the slot that has most of its prompt, or else the longest unused one."""
        slot = max(self._free, key=lambda slot: slot.shared(request))
        self._free.remove(slot)
        slot.tokens, slot.adapter = list(request.ids), request.adapter
        self._draw(_Row(number, request, slot, Answers(request.sampling, [number])))

    def _draw(self, row: _Row) -> None:
        request, slot = row.request, row.slot
        drawn = self._threads.submit(
            self._server.next_token,
            slot.index,
            list(slot.tokens),
            request.sampling,
            seed_of(request.key, row.drawn),
            request.adapter,
        )
        self._drawing[drawn] = row

    def _added(self, row: _Row, token: int, logprob: float) -> Sequence[TokenEvent]:
        """Appends a token to a row, which goes on or has ended."""
        events = row.answers.add([token], [logprob])
        if events[0].finish is not None:
            self._free.append(row.slot)
        else:
            row.slot.tokens.append(token)
            row.drawn += 1
            self._draw(row)
        return events


def _refuse_unsupported(request: Request) -> None:
    """Refuses settings that llama.cpp's tokens would not be drawn with.

    Raises:
        ValueError: there is one.
    """
    sampling = request.sampling
    refused = {
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": sampling.logit_bias,
        "response_format": sampling.constraint,
        "top_logprobs": sampling.top_logprobs,
        "echo": request.scores_prompt,
    }
    for name, value in refused.items():
        if value:
            raise ValueError(f"{name}: not supported with a GGUF file")


def seed_of(key: int, drawn: int) -> int:
    """Returns the seed of one draw of a stream, below 2^32 - 1, with which llama.cpp would choose.

    Args:
        key: the seed of the stream.
        drawn: how many draws it had before.
    """
    digest = hashlib.blake2b(f"{key}:{drawn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (2**32 - 1)


def free_bytes() -> int:
    """Returns the memory of this machine that is free."""
    import psutil

    return int(psutil.virtual_memory().available)


def room(source: Source, rows: int, cache_bytes: int) -> tuple[int, int]:
    """Returns how many slots there are, and the tokens of each, as memory allows.

    Args:
        source: the open file.
        rows: the most slots.
        cache_bytes: the memory for keys and values.
    """
    most = cache_bytes // bytes_of_token(source)
    trained = context_length(source) or AMPLE_TOKENS
    slots = min(rows, max(1, most // min(trained, AMPLE_TOKENS)))
    return slots, max(1, min(trained, most // slots))


def bytes_of_token(source: Source) -> int:
    """Returns the bytes of keys and values of one token, in float16; at most, if layers differ."""
    values = source.metadata.values
    architecture = values.get("general.architecture")

    def number(key: str, default: int) -> int:
        value = values.get(f"{architecture}.{key}", default)
        return int(max(value)) if hasattr(value, "__len__") else int(value)

    heads = number("attention.head_count", 1)
    width = number("embedding_length", 1) // max(heads, 1)
    sizes = number("attention.key_length", width) + number("attention.value_length", width)
    return max(1, 2 * number("block_count", 1) * number("attention.head_count_kv", heads) * sizes)
