"""What plain transformers computes from a model folder: the other implementation of our exports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def next_logprobs(
    folder: Path,
    prompts: Sequence[Sequence[int]],
    most: int,
    adapter: Path | None = None,
    dtype: str = "f32",
) -> list[dict[int, float]]:
    """Returns the log-probabilities of the most likely next tokens after each prompt.

    Args:
        folder: a model folder that transformers loads.
        prompts: token ids, at least one each.
        most: how many tokens, or all that there are.
        adapter: a peft folder, which peft applies.
        dtype: `f32`, or `auto`: as the weights are stored.
    """
    import torch

    model = load_plain(folder, adapter, dtype)
    rows: list[dict[int, float]] = []
    for prompt in prompts:
        with torch.inference_mode():
            logits = model(torch.tensor([list(prompt)])).logits[0, -1].float()
        top = torch.log_softmax(logits, -1).topk(min(most, len(logits)))
        rows.append(dict(zip(top.indices.tolist(), top.values.tolist(), strict=True)))
    return rows


def load_plain(folder: Path, adapter: Path | None = None, dtype: str = "f32") -> Any:  # noqa: ANN401
    """Returns the model of a folder, as transformers and peft load it."""
    import torch
    from transformers import AutoModelForCausalLM

    from zoo.backends.torch.quiet import peft_alone, quiet

    with quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=torch.float32 if dtype == "f32" else "auto", local_files_only=True
        )
        if adapter is not None:
            from peft import PeftModel

            with peft_alone():
                model = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
    return model.eval()


def merge_adapter(folder: Path, adapter: Path, out: Path) -> None:
    """Writes a model with an adapter merged into it, in float32, by peft.

    Args:
        folder: the base.
        adapter: a peft folder of any kind that peft can merge.
        out: a new folder for config and weights.

    Raises:
        ValueError: the adapter cannot be merged.
    """
    import torch

    from zoo.backends.torch.quiet import peft_alone

    with peft_alone():  # a head that differs from the embedding is untied, as the warning says
        merged = load_plain(folder, adapter).merge_and_unload(safe_merge=True)
    head, embedding = merged.get_output_embeddings(), merged.get_input_embeddings()
    if merged.config.tie_word_embeddings and not torch.equal(head.weight, embedding.weight):
        merged.config.tie_word_embeddings = False  # the adapter changed only one of both
    merged.save_pretrained(str(out))
