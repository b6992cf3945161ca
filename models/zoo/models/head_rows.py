"""Finds tokens with equal rows in a head, which nothing that the head reads can tell apart."""

from pathlib import Path

from zoo.core import TensorInfo, read_header
from zoo.models.checkpoint_files import checkpoint_files
from zoo.models.tied_head import EMBEDDINGS, HEAD


def tokens_like(folder: Path, token: int) -> int:
    """Returns how many other tokens have the row of `token` in the head, or in a tied embedding.

    Rows that were never trained often are equal, such as those of a base's unused special tokens.
    It is 0 where the head is not stored as one matrix with a row for each token.

    Args:
        folder: the model.
        token: the id.
    """
    tensors = {
        name: (file, info)
        for file in checkpoint_files(folder)
        for name, info in read_header(file).tensors.items()
    }
    tied = [tensor for name, tensor in tensors.items() if name.endswith(EMBEDDINGS)]
    tensor = tensors.get(HEAD) or (tied[0] if len(tied) == 1 else None)
    return 0 if tensor is None else _equal_rows(*tensor, token)


def _equal_rows(file: Path, info: TensorInfo, token: int) -> int:
    import numpy as np

    rows = info.shape[0] if len(info.shape) == 2 else 0
    if not 0 <= token < rows:
        return 0
    shape = (rows, (info.stop - info.start) // rows)
    head_VB = np.memmap(file, dtype=np.uint8, mode="r", offset=info.start, shape=shape)
    return int((head_VB == head_VB[token]).all(axis=1).sum()) - 1
