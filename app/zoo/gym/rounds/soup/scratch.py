"""A folder for the files of a soup, deleted with the last object that uses it."""

import itertools
import shutil
import tempfile
import weakref
from pathlib import Path

from zoo.gym.paths import ensure_folder, folders


class Scratch:
    """A new folder in the cache.

    Attributes:
        folder: its path.

    Raises:
        StorageError: it cannot be made.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="soup-", dir=ensure_folder(folders().cache)))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._results = itertools.count()

    def new_result(self) -> Path:
        """Returns the path of one more result: a soup can have several, of which each stays."""
        return self.folder / f"result-{next(self._results)}.safetensors"
