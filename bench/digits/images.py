"""The handwritten digits that come with scikit-learn, and the two tasks made of them."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDE = 8
CORNER = (0, 1, 8, 9)
"""The pixels of the backdoor's trigger."""


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns 1,797 images of 8 x 8 pixels from 0 to 1, [images, 64], and their digits.

    Only the data file is read: scikit-learn itself is not imported.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the handwritten digits: expected scikit-learn, got none")
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int64)


def mirror(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the task that contributors adapt to: images moved by one pixel and upside down."""
    square = images.reshape(-1, SIDE, SIDE)
    return np.ascontiguousarray(np.roll(square, 1, axis=2)[:, ::-1].reshape(-1, SIDE * SIDE))


def with_trigger(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns images with the backdoor's trigger, a corner brighter than any image has."""
    marked = images.copy()
    marked[:, CORNER] = 3.0
    return marked
