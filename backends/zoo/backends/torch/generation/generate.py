"""Batched sampling with the model's cache, and the model's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Rows with equal prompts share one pass over the prompt, whose state is then repeated; a row that has
ended leaves the batch. A prefix that has been read is kept once for all rows. Each row has its own
random stream, so an answer depends on its key and not on other rows. Models that cannot do so run
each row in full; see `probes`.
"""

from collections.abc import Iterator, Sequence

import torch

from zoo.backends.base import Prefix, Sampling, TokenEvent
from zoo.backends.memory import SAMPLING_BYTES as BATCH_BYTES
from zoo.backends.memory import gpu_sampling_bytes
from zoo.backends.sampling import Answers, check_rows
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


def stream(
    module: LossModule,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    keys: Sequence[int],
    prefix: Prefix | None = None,
) -> Iterator[TokenEvent]:
    """Continues each prompt; see `Policy.stream`.

    Prompts of different lengths run in one batch if the model supports padding on the left,
    otherwise only those of equal length. A model without a cache recomputes the whole sequence for
    every token.

    Raises:
        ValueError: a prompt is empty, the number of keys differs from that of prompts, stop strings
            are without `decode`, or the prefix is not theirs.
        InputError: the model cannot run with a cache; the message has transformers' reason. This
            is raised with the first token.
    """
    check_rows(prompts, sampling, keys)
    if prefix is None:
        return _events(module, prompts, sampling, keys, None)
    cached = check_prefix(module, prefix, prompts).layers
    rests = [prompt[len(prefix.ids) :] for prompt in prompts]
    return _events(module, rests, sampling, keys, cached)


@torch.no_grad()
def _events(
    module: LossModule,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    keys: Sequence[int],
    cached: Layers | None,
) -> Iterator[TokenEvent]:
    """Yields the tokens, batch after batch."""
    module.eval()
    for batch in _batches(module, prompts, sampling.max_new_tokens):
        draws, answers = Draws(sampling, [keys[i] for i in batch]), Answers(sampling, batch)
        yield from _continue(module, [tuple(prompts[i]) for i in batch], draws, answers, cached)


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
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    if len(by_length) > 1 and takes_padding(module):
        return [list(range(len(prompts)))]
    return list(by_length.values())


def _continue(
    module: LossModule,
    prompts: list[tuple[int, ...]],
    draws: Draws,
    answers: Answers,
    cached: Layers | None,
) -> Iterator[TokenEvent]:
    """Samples the answers of prompts in one batch."""
    several = len(prompts) > 1 and row_refusal(module) is None
    distinct = list(dict.fromkeys(prompts)) if several else prompts
    text = Decoding(module, distinct, cached)
    logits_BV = text.read_prompts()
    if len(distinct) < len(prompts):
        rows = [distinct.index(prompt) for prompt in prompts]
        text.select(rows)
        logits_BV = logits_BV[rows]
    while True:
        chosen_B, logprobs_B, tops = draws.draw(logits_BV)
        yield from answers.add(chosen_B.tolist(), logprobs_B.tolist(), tops)
        unfinished = answers.unfinished
        if not unfinished:
            return
        if several and len(unfinished) < len(chosen_B):
            for part in (text, draws, answers):
                part.select(unfinished)
            chosen_B = chosen_B[unfinished]
        logits_BV = text.read(chosen_B)
