"""What a soup becomes: a delta with a report."""

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.arguments import StrPath, model_folder, path_of
from zoo.gym.delta.apply import apply_delta
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.errors import InputError
from zoo.gym.files import storage_errors
from zoo.gym.paths import ensure_folder, folders


class Scratch:
    """A new folder in the cache, deleted with the last object that uses it.

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


@dataclass(frozen=True)
class AggregateResult:
    """The aggregate of a soup.

    Attributes:
        delta: the combined change of the base, a delta file that `load_delta` opens.
        report: rule, form, contributions, weights, refused ones and warnings.
        base: the folder of the base.
    """

    delta: Delta
    report: Mapping[str, Any]
    base: Path
    _kept: Scratch

    @property
    def digest(self) -> str:
        """The digest of the delta."""
        return self.delta.digest

    def save(self, path: StrPath) -> Path:
        """Copies the delta to a new file and returns its path.

        Raises:
            InputError: there is something at that path, or the result's file was changed.
            StorageError: it cannot be written.
        """
        out = path_of("path", path)
        if out.exists():
            raise InputError(
                f"{out}: expected a new file, got one that is there", code="published.bad_output"
            )
        self._check_file()
        beside = out.with_name(f".{out.name}.part")
        with storage_errors(out):
            shutil.copyfile(self.delta.path, beside)
            beside.replace(out)
        return out

    def apply_to(self, base: StrPath | None = None, out: StrPath | None = None) -> Path:
        """Writes base plus delta as a model folder and returns it.

        Args:
            base: the base's name or folder; by default the one of the contributions.
            out: a new folder; by default one among the models of zoo-gym.

        Raises:
            InputError: the base is another one, the folder is not empty, or the result's file was
                changed.
            StorageError: it cannot be written.
        """
        self._check_file()
        folder = self.base if base is None else model_folder("base", base)
        if out is None:
            models = ensure_folder(folders().data / "models")
            target = Path(tempfile.mkdtemp(prefix="soup-", dir=models))
        else:
            target = path_of("out", out)
        return apply_delta(self.delta.path, base=folder, out=target).folder

    def _check_file(self) -> None:
        digest = load_delta(self.delta.path).digest
        if digest != self.digest:
            raise InputError(
                f"{self.delta.path}: expected the result {self.digest[:12]}, got {digest[:12]}",
                hint="combine again: soup.aggregate()",
                code="published.other_result",
            )
