"""Reads a checkpoint without a redundant copy of a tied head.

Some files repeat the embedding as `lm_head.weight`, bit for bit. Reading it would waste memory: 311
MB of zen-nano's 1.5 GB. A head that differs from the embedding is not skipped.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from zoo.backends.torch.compat import reads_slices
from zoo.core import read_header
from zoo.models.tied_head import HEAD, head_is_copy


def repeats_head(files: list[Path], config: Any) -> bool:  # noqa: ANN401
    """Returns whether the files contain a copy of the embedding as the tied head, bit for bit."""
    if not getattr(config, "tie_word_embeddings", False):
        return False
    places = {
        name: (file, info) for file in files for name, info in read_header(file).tensors.items()
    }
    return head_is_copy(places)


@contextmanager
def without_head(files: list[Path]) -> Generator[dict[str, Any]]:
    """Yields all tensors but the head by name; each is read when it is used."""
    from safetensors import safe_open

    with ExitStack() as stack:
        state: dict[str, Any] = {}
        for path in files:
            file = stack.enter_context(safe_open(path, framework="pt", device="cpu"))
            read = file.get_slice if reads_slices() else file.get_tensor
            state |= {name: read(name) for name in file.keys() if name != HEAD}  # noqa: SIM118
        yield state
