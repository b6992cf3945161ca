"""Detects a tied head that a checkpoint stores a second time: bytes equal to the embedding's.

Whether the head is tied at all is the config's business (`tie_word_embeddings`).
"""

from collections.abc import Generator, Mapping
from itertools import zip_longest
from pathlib import Path

from zoo.core import TensorInfo

HEAD = "lm_head.weight"
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight")
"""Endings of an embedding's name, by the family of the model."""

_PIECE_BYTES = 1 << 22


def head_is_copy(tensors: Mapping[str, tuple[Path, TensorInfo]]) -> bool:
    """Says whether a stored head has the type, the shape and the bytes of the embedding.

    Args:
        tensors: by name, the file that holds the tensor and where in it.
    """
    embeddings = [tensor for name, tensor in tensors.items() if name.endswith(EMBEDDINGS)]
    if HEAD not in tensors or len(embeddings) != 1:
        return False
    head, embedding = tensors[HEAD], embeddings[0]
    if (head[1].dtype, head[1].shape) != (embedding[1].dtype, embedding[1].shape):
        return False
    return all(a == b for a, b in zip_longest(_pieces(*head), _pieces(*embedding)))


def _pieces(path: Path, info: TensorInfo) -> Generator[bytes]:
    with path.open("rb") as file:
        file.seek(info.start)
        for start in range(info.start, info.stop, _PIECE_BYTES):
            yield file.read(min(_PIECE_BYTES, info.stop - start))
