"""Continuous batching: rows with keys and values of their own, which come and go between tokens.

Legend: S rows that there is room for, B rows being answered, H key heads, L tokens that there is
room for, D head size, T new tokens, V vocabulary.

Each attention layer keeps buffers [S, H, L, D]. Rows being answered are the first B of them, so
attention reads views; a row that ends changes places with the last one. Nothing is padded on the
left: every row has its own positions. What lies behind a row's last token is masked.

Behind the rows being answered come those whose prompts are being read, a piece between two tokens
of the others, and then rows that have ended. These are kept as long as their places are not
needed: a prompt that begins like one of them, with the same adapter, is read from there on. So the
next turn of a conversation, or a system prompt of many, is not read again.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from zoo.backends.base import TokenEvent
from zoo.backends.batching import BLOCKED, FAILED, Adapter, Batcher, Request, check_length
from zoo.backends.sampling import Answers, Scored, check_rows
from zoo.backends.shaping import BlockedError
from zoo.backends.torch.adapters.rows import RowAdapter, RowAdapters
from zoo.backends.torch.generation.draws import Draws, tops_of
from zoo.backends.torch.generation.generate import batch_bytes
from zoo.backends.torch.generation.probes import (
    bytes_of_row,
)
from zoo.backends.torch.generation.prompt_scores import scores_of
from zoo.backends.torch.generation.row_cache import FIRST_TOKENS, Layer, Table, doubled
from zoo.backends.torch.loss import LossModule

PIECE = 512
"""The most tokens of a prompt that are read between two tokens of the rows being answered."""

EXPECTED = 1024
"""The tokens of an answer that room is kept for; few requests without a limit take all they may."""

LEAST_SHARED = 16
"""The fewest tokens of a beginning that are taken from another row."""


@dataclass(eq=False)
class Row:
    """A request that waits or is being answered, or one that has ended and is kept.

    Attributes:
        number: what its events are called.
        request: what is answered.
        adapter: what it began with.
        tokens: the prompt and what was drawn.
        length: how many of them are in the buffers.
        is_ended: whether it has no more events.
        used: when it ended, to keep the latest.
        is_damaged: whether its numbers overflowed.
        scores: of the prompt's tokens that were read, but the first.
    """

    number: int
    request: Request
    adapter: RowAdapter | None
    answers: Answers
    draws: Draws | None
    tokens: list[int]
    length: int = 0
    is_ended: bool = False
    used: int = 0
    is_damaged: bool = False
    scores: list[Scored] = field(default_factory=list[Scored])

    @property
    def unread(self) -> int:
        """How many tokens of the prompt are not in the buffers yet."""
        return len(self.request.ids) - self.length

    def shared(self, other: "Row") -> int:
        """Returns how many tokens in the buffers another row's prompt begins with, but its last."""
        if self.adapter is not other.adapter or other.request.scores_prompt:
            return 0
        most = min(self.length, len(other.request.ids) - 1)
        pairs = zip(self.tokens[:most], other.request.ids, strict=False)
        return next((index for index, (a, b) in enumerate(pairs) if a != b), most)


class Slots(Batcher):
    """A batcher of a model on torch.

    Args:
        module: the model, without an adapter; see `slots_refusal`.
        rows: the most rows that are answered at once.
        tokens: the most tokens of a prompt and its answer.
        cache_bytes: the most memory of keys and values; one row alone may take more. None is
            `batch_bytes`.
    """

    def __init__(
        self, module: LossModule, *, rows: int, tokens: int, cache_bytes: int | None = None
    ) -> None:
        module.eval()
        self._module, self._most, self._tokens = module, rows, tokens
        self._cache_bytes = batch_bytes(module) if cache_bytes is None else cache_bytes
        self._table = Table()
        layers = int(text_config(module).num_hidden_layers)
        self._layers = [Layer(self._table) for _ in range(layers)]
        self._cache = Cache(layers=[*self._layers])
        self._adapters = RowAdapters(module.model)
        self._waiting: deque[Row] = deque()
        self._rows: list[Row] = []
        self._reading: list[Row] = []
        self._kept: list[Row] = []
        self._numbers, self._clock = count(), count()
        embedding: Any = module.model.get_input_embeddings()  # type: ignore[operator]
        self._vocabulary = int(embedding.weight.shape[0])
        self._device = embedding.weight.device
        self._reads_next = True

    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Makes an adapter available; see `Batcher.add_adapter`."""
        self._adapters.add(name, adapter)

    def remove_adapter(self, name: str) -> None:
        """Removes an adapter; see `Batcher.remove_adapter`."""
        self._adapters.remove(name)

    def add(self, request: Request) -> int:
        """Queues a request; see `Batcher.add`."""
        sampling, ids = request.sampling, request.ids
        check_rows([ids], sampling, [request.key])
        if unknown := [token for token in ids if not 0 <= token < self._vocabulary]:
            raise ValueError(f"ids: expected tokens below {self._vocabulary}, got {unknown[0]}")
        check_length(request, self._tokens)
        number = next(self._numbers)
        draws = None
        if sampling.temperature or sampling.shapes_logits:
            # the most likely tokens are those of all rows' log-probabilities, see `_draw`
            draws = Draws(replace(sampling, top_logprobs=0), [request.key])
        adapter, answers = self._adapters.of(request.adapter), Answers(sampling, [number])
        self._waiting.append(Row(number, request, adapter, answers, draws, [*ids]))
        return number

    def cancel(self, row: int) -> None:
        """Ends a row; see `Batcher.cancel`."""
        for each in (*self._waiting, *self._reading, *self._rows):
            each.is_ended |= each.number == row

    def clear(self) -> None:
        """Ends all rows and frees the buffers; see `Batcher.clear`."""
        self._waiting.clear()
        self._rows, self._reading, self._kept = [], [], []
        for layer in self._layers:
            layer.free()

    def close(self) -> None:
        """Frees the buffers; see `Batcher.close`."""
        self.clear()
        self._layers.clear()
        self._cache.layers.clear()
        self._adapters.close()

    @property
    def busy(self) -> bool:
        """Whether rows wait or are being answered."""
        return bool(self._waiting or self._reading or self._rows)

    @torch.no_grad()
    def step(self) -> list[TokenEvent]:
        """Reads a piece of prompts or a token of each row, in turns; see `Batcher.step`."""
        if not self._reading:  # rows that are being read come right behind those being answered
            self._leave()
        reads = self._reads_next or not self._rows
        self._reads_next = not reads
        if reads:
            self._reading = self._reading or self._next_prompts()
        if reads and self._reading:
            return self._read_piece()
        return self._draw(self._rows, self._read_tokens()) if self._rows else []

    # ---- slots

    def _next_prompts(self) -> list[Row]:
        """Gives slots to waiting rows that are read alike, with beginnings that others have."""
        new: list[Row] = []
        while self._waiting and len(self._rows) + len(new) < self._most:
            row = self._waiting[0]
            if row.is_ended:
                self._waiting.popleft()
                continue
            if not self._has_room([*self._rows, *new, row]):
                break
            donor = max((*self._rows, *self._kept), key=lambda each: each.shared(row), default=None)
            shared = 0 if donor is None else donor.shared(row)
            shared = shared if shared >= LEAST_SHARED else 0
            scores = row.request.scores_prompt
            unread = [*(each.unread for each in new), len(row.request.ids) - shared]
            if new and (
                scores != new[0].request.scores_prompt or not _fit_together(unread, scores=scores)
            ):
                break
            if not shared and not scores and any(_begins_alike(each, row) for each in new):
                break  # it will take the beginning from that one
            self._waiting.popleft()
            self._place(row, donor if shared else None, shared, len(self._rows) + len(new))
            new.append(row)
        return new

    def _place(self, row: Row, donor: Row | None, shared: int, slot: int) -> None:
        """Frees a place, the first of a kept row, for a new row that begins like another one."""
        if donor in self._kept:
            behind = self._kept.index(donor)
            if behind:
                self._swap(slot, slot + behind, self._kept[0], self._kept[behind])
                self._kept[behind] = self._kept[0]
            del self._kept[0]
        elif self._kept:
            first, last = self._kept.pop(0), slot + len(self._kept) + 1
            if last < self._most and self._fits(last + 1, first.length):
                self._copy(slot, last, first.length)
                self._kept.append(first)
            elif self._kept:
                oldest = min(range(len(self._kept)), key=lambda each: self._kept[each].used)
                if self._kept[oldest].used < first.used:
                    self._copy(slot, slot + 1 + oldest, first.length)
                    self._kept[oldest] = first
        if donor in self._rows:
            self._copy(self._rows.index(donor), slot, shared)
        row.length = shared

    def _copy(self, source: int, target: int, tokens: int) -> None:
        for layer in self._layers:
            layer.copy(source, target, tokens)

    def _swap(self, first: int, second: int, at_first: Row, at_second: Row) -> None:
        for layer in self._layers:
            layer.swap(first, second, max(at_first.length, at_second.length))

    def _has_room(self, rows: Sequence[Row]) -> bool:
        """Returns whether buffers for these rows fit in memory; one row alone always may try."""
        longest = max(
            len(row.request.ids) + min(row.request.sampling.max_new_tokens, EXPECTED)
            for row in rows
        )
        if self._fits(len(rows), longest):
            return True
        if len(rows) > 1:
            return False
        self._kept.clear()
        for layer in self._layers:  # one long row needs no room for others
            layer.free()
        return True

    def _fits(self, rows: int, tokens: int) -> bool:
        """Returns whether buffers for so many rows and tokens fit in memory."""
        room, length = self._layers[0].room
        slots, length = max(room, doubled(1, rows)), max(length, doubled(FIRST_TOKENS, tokens))
        return slots * bytes_of_row(self._module, length) <= self._cache_bytes

    def _leave(self) -> None:
        """Keeps the rows that have ended behind the others: each changes places with the last."""
        for slot in reversed(range(len(self._rows))):
            row = self._rows[slot]
            if not row.is_ended:
                continue
            last = self._rows.pop()
            if last is not row:
                self._rows[slot] = last
                self._swap(slot, len(self._rows), row, last)
            row.used = next(self._clock)
            self._kept.insert(0, row)
            if row.is_damaged:  # a masked NaN would still reach the row that gets this place
                for layer in self._layers:
                    layer.clear(len(self._rows))
                row.length = 0

    # ---- reading and drawing

    def _read_piece(self) -> list[TokenEvent]:
        """Reads the next piece of the prompts being read; returns their first tokens at the end."""
        rows = self._reading
        pieces = [row.request.ids[row.length : row.length + PIECE] for row in rows]
        logits_BV = self._forward(pieces, rows, len(self._rows))
        for row, piece in zip(rows, pieces, strict=True):
            row.length += len(piece)
        if rows[0].unread:
            return []
        self._rows, self._reading = [*self._rows, *rows], []
        return self._draw(rows, logits_BV)

    def _read_tokens(self) -> Tensor:
        """Returns the logits after the last token of each row, float32 `[B, V]`."""
        logits_BV = self._forward([row.tokens[-1:] for row in self._rows], self._rows, 0)
        for row in self._rows:
            row.length += 1
        return logits_BV

    def _forward(self, ids: Sequence[Sequence[int]], rows: list[Row], first: int) -> Tensor:
        """Returns the logits after new tokens of rows from place `first` on, `[B, V]`.

        Rows with fewer tokens than others get more behind them, which nothing sees: the next
        tokens of these rows are written over them.
        """
        counts = [len(new) for new in ids]
        table, most = self._table, max(counts)
        ids_BT = torch.tensor(
            [[*new, *(0,) * (most - len(new))] for new in ids], device=self._device
        )
        table.move(first, [row.length for row in rows], most, self._device)
        lasts_B = torch.tensor(counts, device=self._device) - 1
        # no position is beyond the last one that a model may have
        steps_BT = torch.arange(most, device=self._device).minimum(lasts_B[:, None])
        positions_BT = table.ends[:, None] + steps_BT
        seen_BTL = None
        if table.new > 1 or not table.is_even:  # else all keys are seen, and no mask is faster
            keys_L = torch.arange(table.width, device=self._device)
            seen_BTL = (keys_L <= positions_BT[..., None])[:, None]
        inputs: dict[str, Any] = {
            "attention_mask": seen_BTL,
            "position_ids": positions_BT,
            "past_key_values": self._cache,
        }
        adapters = [row.adapter for row in rows]
        scores_prompts = rows is self._reading and rows[0].request.scores_prompt
        with self._adapters.rows(adapters):
            is_plain = not scores_prompts and min(counts) == most
            if is_plain and not self._adapters.changes_head(adapters):
                return self._module.next_logits(ids_BT, **inputs)[0]
            hidden_BTD, _ = self._module.hidden_and_state(ids_BT, **inputs)
        if scores_prompts:
            self._score(rows, hidden_BTD)
        rows_B = torch.arange(len(rows), device=self._device)
        return self._logits(adapters, hidden_BTD[rows_B, lasts_B][:, None])[:, 0]

    def _score(self, rows: list[Row], hidden_BTD: Tensor) -> None:
        for row, hidden_TD in zip(rows, hidden_BTD, strict=True):
            targets = row.request.ids[row.length + 1 : row.length + 1 + self._table.new]
            count = row.request.sampling.top_logprobs
            logits_of = partial(self._logits_alone, row)
            row.scores += scores_of(logits_of, hidden_TD, targets, count)

    def _logits_alone(self, row: Row, hidden_TD: Tensor) -> Tensor:
        return self._logits([row.adapter], hidden_TD[None])[0]

    def _logits(self, adapters: Sequence[RowAdapter | None], hidden_BTD: Tensor) -> Tensor:
        """Returns the float32 logits `[B, T, V]` of rows with these adapters."""
        rows, tokens, _ = hidden_BTD.shape
        change_BTV = self._adapters.head_change(adapters, hidden_BTD)
        added = None if change_BTV is None else change_BTV.flatten(0, 1)
        return self._module.logits_of(hidden_BTD.flatten(0, 1), added).view(rows, tokens, -1)

    def _draw(self, rows: Sequence[Row], logits_BV: Tensor) -> list[TokenEvent]:
        damaged_B = (logits_BV.isnan() | logits_BV.isposinf()).any(-1)
        if damaged_B.any():
            logits_BV = logits_BV.masked_fill(damaged_B[:, None], 0)
            for row in (rows[index] for index in damaged_B.nonzero()[:, 0].tolist()):
                row.is_damaged = True
        logprobs_BV = logits_BV.log_softmax(-1)
        chosen_B = logprobs_BV.argmax(-1)
        blocked: set[int] = set()
        for index, row in enumerate(rows):
            if row.draws is not None and not row.is_ended and not row.is_damaged:
                try:
                    chosen_B[index] = row.draws.draw(logits_BV[index : index + 1])[0][0]
                except BlockedError:
                    blocked.add(row.number)
        drawn_B = logprobs_BV.gather(-1, chosen_B[:, None])[:, 0]
        events: list[TokenEvent] = []
        drawn = zip(rows, chosen_B.tolist(), drawn_B.tolist(), strict=True)
        for index, (row, token, logprob) in enumerate(drawn):
            row.tokens.append(token)
            if row.is_ended:
                continue
            if row.is_damaged or row.number in blocked:
                finish = FAILED if row.is_damaged else BLOCKED
                events.append(TokenEvent(row.number, token, 0.0, finish))
                row.is_ended = True
                continue
            count = row.request.sampling.top_logprobs
            tops = tops_of(logprobs_BV[index : index + 1], count) if count else ()
            events += row.answers.add([token], [logprob], tops)
            if row.scores:
                events[-1] = events[-1]._replace(prompt=tuple(row.scores))
                row.scores = []
            row.is_ended = not row.answers.unfinished
        return events


def _fit_together(unread: Sequence[int], *, scores: bool) -> bool:
    """Returns whether prompts with so many unread tokens are read together.

    Equal ones are, in pieces; others if they are one short piece that is less than half padding.
    """
    if len(set(unread)) == 1:
        return True
    room = len(unread) * max(unread)
    return not scores and room <= PIECE and room < 2 * sum(unread)


def _begins_alike(first: Row, second: Row) -> bool:
    """Returns whether two prompts with the same adapter begin with the same tokens."""
    same = first.adapter is second.adapter
    return same and first.request.ids[:LEAST_SHARED] == second.request.ids[:LEAST_SHARED]


def text_config(module: LossModule) -> Any:  # noqa: ANN401
    """Returns the config of the language model."""
    config: Any = module.model.config
    return config.get_text_config()
