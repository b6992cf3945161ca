"""Converts a delta or a fine-tune to a form that a backend loads, for a measurement or a chat.

A low-rank delta becomes a small adapter for its base, and a dense one a full float32 model, in a
temporary folder that is deleted afterwards.
"""

import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from zoo.gym.delta.apply import apply_delta
from zoo.gym.delta.codecs.lowrank import decode_factors
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms
from zoo.gym.delta.reading.adapter import is_adapter, write_adapter
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.files import storage_errors
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE
from zoo.models.checkpoint_files import EXPLICIT_KEY, SINGLE_FILE
from zoo.models.folder import read_config

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Backend, Policy


Role: TypeAlias = Literal["base", "tuned", "delta"]
"""What a model is in a measurement."""


@dataclass(frozen=True)
class Loadable:
    """The arguments of `Backend.load`: a model folder, and its adapter or None."""

    folder: Path
    adapter: Path | None

    def load(self, backend: "Backend | None", dtype: str) -> "Policy":
        """Loads it; by default with the best engine of this machine."""
        from zoo.backends.base import LoadSpec
        from zoo.gym.engine import engine_for

        engine = backend or engine_for(self.folder, self.adapter)
        return engine.load(self.folder, LoadSpec(adapter=self.adapter, dtype=dtype))


def dtype_of(delta: Delta) -> str:
    """Returns the type to load a delta, its base and its fine-tune in, so that they compare.

    Low-rank deltas are adapters on the base as stored; dense ones need float32, the type that a
    full fine-tune is saved in.
    """
    return "f32" if delta.header.form == "dense" else "auto"


@contextmanager
def delta_model(delta: Delta, base: Path, *, scaled: float = 1.0) -> Generator[Loadable]:
    """Yields base plus delta in a form to load, valid inside the block.

    Args:
        delta: the delta.
        base: the model folder it was made from.
        scaled: the factor for the delta.

    Raises:
        InputError: the delta belongs to another base.
        StorageError: the temporary folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        folder = Path(scratch)
        if delta.header.form == "dense":
            apply_delta(delta.path, base=base, out=folder / "model", scaled=scaled)
            with warnings.catch_warnings(), _named(folder / "model", delta.path):
                # Warnings about unused tensors are for the base itself, not for this copy.
                warnings.filterwarnings("ignore", re.escape(scratch), GymWarning)
                yield Loadable(folder / "model", None)
        else:
            weights = open_weights(base)
            verify_base(delta, weights)
            write_adapter(
                folder,
                ((t.name, *_factors(delta, t)) for t in delta.header.tensors if t.terms),
                delta.header.base.id,
                scaled,
                base=weights,
            )
            with _named(folder, delta.path):
                yield Loadable(base, folder)


@contextmanager
def tuned_model(source: Path, base: Path) -> Generator[Loadable]:
    """Yields a fine-tune, in any form that `create_delta` accepts, in a form to load.

    Raises:
        StorageError: the temporary folder cannot be written.
    """
    if source.is_dir():
        yield Loadable(base, source) if is_adapter(source) else Loadable(source, None)
        return
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        folder = Path(scratch)
        adapter = is_adapter(source)
        with storage_errors(folder):
            shutil.copyfile(source, folder / (WEIGHTS_FILE if adapter else SINGLE_FILE))
            if adapter:
                shutil.copyfile(source.parent / CONFIG_FILE, folder / CONFIG_FILE)
            else:  # the base's weight file may have another name, this one has the usual name
                config = read_config(base)
                config.pop(EXPLICIT_KEY, None)
                (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with _named(folder, source):
            yield Loadable(base, folder) if adapter else Loadable(folder, None)


@contextmanager
def _named(copy: Path, source: Path) -> Generator[None]:
    """Replaces the path of a temporary copy in error messages by that of the original file."""
    try:
        yield
    except InputError as error:
        if str(copy) not in error.message:
            raise
        message = error.message.replace(str(copy), str(source))
        raise InputError(message, hint=error.hint, code="delta.not_loadable") from error


def _factors(
    delta: Delta, tensor: TensorTerms
) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    (term,) = tensor.terms
    assert isinstance(term, LowRankTerm)
    return decode_factors(term, tensor_parts(delta, tensor), tensor.shape)
