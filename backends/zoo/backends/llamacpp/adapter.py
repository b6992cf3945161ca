"""Refuses adapters that llama.cpp would apply otherwise than they were trained, or not at all."""

from pathlib import Path

from zoo.core import read_gguf_header
from zoo.core.errors import InputError
from zoo.models.gguf.metadata import Metadata

ALPHA = "adapter.lora.alpha"


def check_adapter(path: Path, architecture: str | None) -> None:
    """Checks the header of a LoRA adapter in GGUF.

    Args:
        path: the file.
        architecture: that of the base.

    Raises:
        InputError: it is no LoRA adapter in GGUF, of another architecture, or without its alpha.
        StorageError: it cannot be read.
    """
    metadata = Metadata(path, read_gguf_header(path).metadata)
    kinds = metadata.text("general.type"), metadata.text("adapter.type")
    if kinds != ("adapter", "lora"):
        raise InputError(
            f"'{path}': expected a LoRA adapter in GGUF, got {kinds[1] or kinds[0] or 'a model'}",
            code="llamacpp.not_an_adapter",
        )
    if (got := metadata.text("general.architecture")) != architecture:
        raise InputError(
            f"'{path}': expected an adapter of {architecture}, got one of {got}",
            code="backends.adapter_does_not_fit",
        )
    alpha = metadata.number(ALPHA)
    if alpha is None or not alpha > 0:  # llama.cpp would take 1 for alpha / rank, silently
        raise metadata.unlike(ALPHA, "more than 0", alpha)
