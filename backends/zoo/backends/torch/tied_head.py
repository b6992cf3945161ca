"""Reads a checkpoint without the copy of a tied head that some files store beside the embedding.

Such files repeat the embedding as `lm_head.weight`, bit for bit. Reading it would cost memory for
nothing: 311 MB of zen-nano's 1.5 GB. A head that differs from the embedding is not left out.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from zoo.backends.torch.compat import reads_slices
from zoo.core import TensorInfo, read_header

HEAD = "lm_head.weight"
EMBEDDING = "embed_tokens.weight"
PIECE_BYTES = 1 << 22


def repeats_head(files: list[Path], config: Any) -> bool:  # noqa: ANN401
    """Returns whether the files hold a tied head's values a second time, bit for bit."""
    if not getattr(config, "tie_word_embeddings", False):
        return False
    places = {
        name: (file, info) for file in files for name, info in read_header(file).tensors.items()
    }
    embeddings = [place for name, place in places.items() if name.endswith(EMBEDDING)]
    if HEAD not in places or len(embeddings) != 1:
        return False
    (head, embedding) = places[HEAD], embeddings[0]
    if (head[1].dtype, head[1].shape) != (embedding[1].dtype, embedding[1].shape):
        return False
    return all(a == b for a, b in zip_longest(_pieces(*head), _pieces(*embedding)))


def _pieces(path: Path, info: TensorInfo) -> Generator[bytes]:
    with path.open("rb") as file:
        file.seek(info.start)
        for start in range(info.start, info.stop, PIECE_BYTES):
            yield file.read(min(PIECE_BYTES, info.stop - start))


@contextmanager
def without_head(files: list[Path]) -> Generator[dict[str, Any]]:
    """Yields every tensor but the head by name, unread until it is used."""
    from safetensors import safe_open

    with ExitStack() as stack:
        found: dict[str, Any] = {}
        for path in files:
            file = stack.enter_context(safe_open(path, framework="pt", device="cpu"))
            read = file.get_slice if reads_slices() else file.get_tensor
            found |= {name: read(name) for name in file.keys() if name != HEAD}  # noqa: SIM118
        yield found
