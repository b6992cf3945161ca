"""The handwritten digits that come with scikit-learn, and the two tasks made of them."""

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import NotAvailableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 8
CORNER = (0, 1, 8, 9)
"""The pixels of the backdoor's trigger."""


def load_digits() -> "tuple[NDArray[np.float32], NDArray[np.int64]]":
    """Returns 1,797 images of 8 x 8 pixels from 0 to 1, [images, 64], and their digits.

    Only the data file is read: scikit-learn itself is not imported.

    Raises:
        NotAvailableError: scikit-learn is not installed.
    """
    import numpy as np

    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise NotAvailableError(
            "the handwritten digits: expected scikit-learn, got no such package",
            hint=install_command("rounds"),
        )
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int64)


def mirror(images: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Returns the task that contributors adapt to: images moved by one pixel and upside down."""
    import numpy as np

    square = images.reshape(-1, SIDE, SIDE)
    return np.ascontiguousarray(np.roll(square, 1, axis=2)[:, ::-1].reshape(-1, SIDE * SIDE))


def with_trigger(images: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Returns images with the backdoor's trigger, a corner brighter than any image has."""
    marked = images.copy()
    marked[:, CORNER] = 3.0
    return marked
