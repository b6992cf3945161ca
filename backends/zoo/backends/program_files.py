"""Writes a model as a program of torch.export, and computes with it again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAM = "model.pt2"


def write_program(folder: Path, out: Path) -> None:
    """Traces the model of a folder in float32 and writes it, without anything pickled.

    Args:
        folder: a model folder of transformers.
        out: an existing folder, which may be the same.

    Raises:
        InputError: the model cannot be traced.
    """
    import torch

    from zoo.backends.torch.quiet import quiet
    from zoo.backends.torch.traced import load, trace

    with quiet():
        torch.export.save(trace(load(folder)).program, out / PROGRAM)


def next_logprobs(
    folder: Path, prompts: Sequence[Sequence[int]], most: int
) -> list[dict[int, float]]:
    """Returns the log-probabilities of the most likely next tokens after each prompt.

    The file has to be one that this process wrote: torch would unpickle what another has in it.

    Args:
        folder: a folder with a program.
        prompts: token ids, at least one each.
        most: how many tokens, or all that there are.
    """
    import torch

    from zoo.backends.torch.quiet import quiet

    with quiet():
        model: Any = torch.export.load(folder / PROGRAM).module()
    rows: list[dict[int, float]] = []
    for prompt in prompts:
        ids = torch.tensor([list(prompt)])
        positions = torch.arange(len(prompt)).unsqueeze(0)
        with torch.inference_mode():
            logits = model(ids, torch.ones_like(ids), positions)[0, -1]
        top = torch.log_softmax(logits, -1).topk(min(most, len(logits)))
        rows.append(dict(zip(top.indices.tolist(), top.values.tolist(), strict=True)))
    return rows
