"""Digests of the Python files that a reward function consists of: its own, and what it imports."""

import hashlib
import site
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path


class Sources:
    """Finds the files of the user that this process has imported.

    Files of Python, of installed packages and of zoo-gym do not count.

    Args:
        place: the file or the module of the function, which counts wherever it is.
    """

    def __init__(self, place: str) -> None:
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        folders = [*map(sysconfig.get_path, names), site.getusersitepackages()]
        self._installed = tuple(Path(folder) for folder in folders)
        self._place, self._known = place, set[str]()
        self._modules = 0

    def new(self) -> dict[str, str]:
        """Returns the SHA-256 of each file that was imported since the last call."""
        if len(sys.modules) == self._modules:
            return {}
        self._modules = len(sys.modules)
        found: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name in self._known or not isinstance(file, str) or not self._is_of_user(name, file):
                continue
            with suppress(OSError):  # not a file, such as in an archive
                found[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._known |= sys.modules.keys()
        return found

    def _is_of_user(self, name: str, file: str) -> bool:
        if self._place in (name, file):
            return True
        path = Path(file)
        installed = any(path.is_relative_to(folder) for folder in self._installed)
        return not installed and name != "__main__" and name.partition(".")[0] != "zoo"
