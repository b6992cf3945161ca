"""Batched sampling with the model's cache, and the model's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Rows with equal prompts share one pass over the prompt, whose state is then repeated; a row that has
ended leaves the batch. A prefix that has been read is kept once for all rows. Each row has its own
random stream, so an answer depends on its key and not on other rows. Models that cannot do so run
each row in full; see `probes`.
"""

from collections.abc import Iterator, Sequence

import torch

from zoo.backends.base import Prefix, Rollout, Sampling
from zoo.backends.memory import SAMPLING_BYTES as BATCH_BYTES
from zoo.backends.memory import gpu_sampling_bytes
from zoo.backends.torch.generation.decoding import Decoding
from zoo.backends.torch.generation.draws import Draws
from zoo.backends.torch.generation.prefix import check_prefix
from zoo.backends.torch.generation.probes import (
    bytes_of_prompt,
    bytes_of_row,
    row_refusal,
    takes_padding,
)
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.packing.prefix_attention import Layers


@torch.no_grad()
def generate(
    module: LossModule,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    keys: Sequence[int],
    prefix: Prefix | None = None,
) -> list[Rollout]:
    """Continues each prompt until a stop id or `max_new_tokens`.

    Prompts of different lengths run in one batch if the model supports padding on the left,
    otherwise only those of equal length. A model without a cache recomputes the whole sequence for
    every token.

    Raises:
        ValueError: a prompt is empty, the number of keys differs from that of prompts, or the
            prefix is not theirs.
        InputError: the model cannot run with a cache; the message has transformers' reason.
    """
    if len(keys) != len(prompts) or not all(prompts):
        raise ValueError("generate: expected one key per prompt and no empty prompt")
    before = None if prefix is None else check_prefix(module, prefix, prompts).layers
    prompts = prompts if prefix is None else [one[len(prefix.ids) :] for one in prompts]
    answers: dict[int, Rollout] = {}
    for batch in _batches(module, prompts, sampling.max_new_tokens):
        draws = Draws(sampling, [keys[i] for i in batch])
        _continue(module, [tuple(prompts[i]) for i in batch], draws, before)
        answers |= dict(zip(batch, draws.rollouts(), strict=True))
    return [answers[i] for i in range(len(prompts))]


def _batches(
    module: LossModule, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> Iterator[list[int]]:
    """Yields groups of indices of prompts that run in one batch: equal prompts are neighbours."""
    for group in _groups(module, prompts):
        order = sorted(group, key=lambda i: (len(prompts[i]), tuple(prompts[i])))
        if len(order) == 1:
            yield order
            continue
        longest = len(prompts[order[-1]])
        row = bytes_of_row(module, longest + max_new_tokens)
        reading = bytes_of_prompt(module, longest)
        yield from _cut(module, prompts, order, (row, reading))


def _cut(
    module: LossModule,
    prompts: Sequence[Sequence[int]],
    order: Sequence[int],
    needed: tuple[int, int],
) -> Iterator[list[int]]:
    """Yields indices in their order, as many as fit in memory at once.

    Args:
        module: the model.
        prompts: all prompts.
        order: the indices.
        needed: the bytes of an answer, and of reading a prompt; equal neighbours share that.
    """
    (row, reading), shares = needed, row_refusal(module) is None
    limit = free = batch_bytes(module)
    batch: list[int] = []
    for index in order:
        is_same = shares and bool(batch) and prompts[index] == prompts[batch[-1]]
        takes = row if is_same else row + reading
        if batch and takes > free:
            yield batch
            batch, takes, free = [], row + reading, limit
        batch.append(index)
        free -= takes
    yield batch


def batch_bytes(module: LossModule) -> int:
    """Returns the memory of the answers that are sampled in one batch on the model's device."""
    device = next(module.parameters()).device
    if device.type != "cuda":
        return BATCH_BYTES
    return gpu_sampling_bytes(torch.cuda.get_device_properties(device).total_memory)


def _groups(module: LossModule, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns groups of indices of prompts that can be padded to one length."""
    by_length: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(place)
    if len(by_length) > 1 and takes_padding(module):
        return [list(range(len(prompts)))]
    return list(by_length.values())


def _continue(
    module: LossModule, prompts: list[tuple[int, ...]], draws: Draws, before: Layers | None
) -> None:
    """Samples the answers of prompts in one batch."""
    several = len(prompts) > 1 and row_refusal(module) is None
    distinct = list(dict.fromkeys(prompts)) if several else prompts
    text = Decoding(module, distinct, before)
    logits_BV = text.read_prompts()
    if len(distinct) < len(prompts):
        rows = [distinct.index(prompt) for prompt in prompts]
        text.select(rows)
        logits_BV = logits_BV[rows]
    while True:
        chosen_B, unfinished = draws.draw(logits_BV)
        if not unfinished:
            return
        if several and len(unfinished) < len(chosen_B):
            text.select(unfinished)
            draws.select(unfinished)
            chosen_B = chosen_B[unfinished]
        logits_BV = text.read(chosen_B)
