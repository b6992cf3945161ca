"""Digests of the Python files that a reward function consists of.

Those are its own, what it imports, and what it reads to execute while it is loaded. Left out: data,
which may be a cache of the function's own, and code that a call reads.
"""

import hashlib
import site
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path


class Sources:
    """Finds the files of the user that this process has imported, or read to execute.

    Files of Python, of installed packages and of zoo-gym do not count.

    Args:
        place: the file or the module of the function, which counts wherever it is.
    """

    def __init__(self, path: str) -> None:
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        folders = [*map(sysconfig.get_path, names), site.getusersitepackages()]
        self._installed = tuple(Path(folder) for folder in folders)
        self._place, self._known = path, set[str]()
        self._modules = 0
        self._read = set[str]()
        self._is_loading = True
        sys.addaudithook(self._note)

    def new(self) -> dict[str, str]:
        """Returns the SHA-256 of each file that was imported since the last call.

        The first call ends the loading: it also returns the code that was read beside imports.
        """
        loaded = self._executed() if self._is_loading else dict[str, str]()
        if len(sys.modules) == self._modules:
            return loaded
        self._modules = len(sys.modules)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name in self._known or not isinstance(file, str) or not self._is_of_user(name, file):
                continue
            with suppress(OSError):  # not a file, such as in an archive
                loaded[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._known |= sys.modules.keys()
        return loaded

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        """Remembers each file of Python that is opened during the loading."""
        if event == "open" and self._is_loading and str(arguments[0]).endswith(".py"):
            self._read.add(str(Path.cwd() / str(arguments[0])))

    def _executed(self) -> dict[str, str]:
        """Returns the digests of the code that was read, as by `exec` or `runpy`."""
        self._is_loading = False
        loaded: dict[str, str] = {}
        imported = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        for file in sorted(self._read - imported):
            if self._is_of_user("", file):
                with suppress(OSError):  # gone
                    loaded[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return loaded

    def _is_of_user(self, name: str, file: str) -> bool:
        if self._place in (name, file):
            return True
        path = Path(file)
        installed = any(path.is_relative_to(folder) for folder in self._installed)
        return not installed and name != "__main__" and name.partition(".")[0] != "zoo"
