"""Reads a fine-tune on its base: what it changes, how it is asked, and the weights of both.

    tuned = open_tuned(resolve_tuned("last"), base)
    for name, values in tuned.merged_tensors():
        ...

Nothing is read before it is used. Merging needs no engine; `loadable` is for those that have one.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.own_tokenizer import states_template
from zoo.gym.delta.codecs.floats import refuse_not_finite
from zoo.gym.delta.loadable import Loadable, delta_model, tuned_model
from zoo.gym.delta.origin.digests import warn_of_other_form
from zoo.gym.delta.reading.weights import (
    Weights,
    float_config,
    is_tied,
    open_weights,
    own_tensors,
    read_array,
    read_float32,
)
from zoo.gym.delta.rebuild import Rebuild
from zoo.gym.delta.sanity import warn_of_other_base
from zoo.gym.tuned.changes import Changes, read_changes
from zoo.gym.tuned.record import Record
from zoo.gym.tuned.source import Source, source_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Tuned:
    """A fine-tune and its base.

    Attributes:
        source: the fine-tune.
        base: the folder of the base; whole weights are merged and loaded without it.
    """

    source: Source
    base: Path

    @cached_property
    def record(self) -> Record:
        """How it was trained and is asked."""
        return Record(self.source)

    @cached_property
    def weights(self) -> Weights:
        """The base's weights, see `open_weights`."""
        return open_weights(self.base)

    @cached_property
    def changes(self) -> Changes:
        """What it changes in the base, tensor by tensor, also as factors; see `read_changes`."""
        return read_changes(self.source, self.weights)

    def merged_tensors(self) -> "Iterator[tuple[str, NDArray[Any]]]":
        """Yields name and values of each tensor of base plus fine-tune, sorted by name.

        One tensor is in memory at a time: floats as float32, others as they are stored. Names are
        those of the files, without a tied head. A delta gives the bytes that `apply_delta` writes.

        Raises:
            NotAvailableError: a file is missing.
            InputError: see `read_changes`; or the weights are quantised, or a sum is not finite.
        """
        for name in self.merged_shapes:
            yield name, self.merged(name)

    @cached_property
    def merged_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of base plus fine-tune by name, sorted, without a tied head.

        Raises:
            NotAvailableError: a file is missing.
            InputError: the weights are quantised.
        """
        weights = self._all
        if weights.source.is_dir():
            float_config(weights.source)
        names = sorted(own_tensors(weights, tied=is_tied(weights)))
        return {name: weights.shape(name) for name in names}

    def merged(self, name: str) -> "NDArray[Any]":
        """Returns a tensor of base plus fine-tune, see `merged_tensors`.

        Raises:
            InputError: see `read_changes`; or a sum is not finite.
        """
        is_changed = self.source.artifact != "model" and name in self._changed
        return self._merged(name) if is_changed else read_array(self._all, name)

    @cached_property
    def _all(self) -> Weights:
        """The weights that have every tensor."""
        return open_weights(self.source.path) if self.source.artifact == "model" else self.weights

    @cached_property
    def _changed(self) -> frozenset[str]:
        return frozenset(self.changes.names)

    def _merged(self, name: str) -> "NDArray[np.float32]":
        import numpy as np

        if self.source.artifact == "delta":
            pieces = list(Rebuild(self.source.delta, self.weights, "f32", 1.0).pieces(name))
            return np.concatenate(pieces).reshape(self.weights.shape(name))
        merged = self.changes.change(name)
        merged += read_float32(self.weights, name)
        refuse_not_finite(merged, f"{self.source.path}: tensor {name!r} on the base")
        return merged

    def loadable(self) -> AbstractContextManager[Loadable]:
        """Returns what an engine loads, valid inside a `with` block.

        Raises:
            InputError: the delta belongs to another base.
            StorageError: the temporary folder cannot be written.
        """
        if self.source.artifact == "delta":
            return delta_model(self.source.delta, self.base)
        return tuned_model(self.source.path, self.base)

    def warn_of_base(self, *, has_template: bool = False) -> None:
        """Warns if the base is not the one of training, as far as the fine-tune records it.

        Args:
            has_template: whether a chat template is used that is not the base's.

        Warns:
            GymWarning: its tokenizer or chat template differs, or an adapter is of another base.
        """
        if self.source.artifact == "adapter":
            warn_of_other_base(self.source.path, self.base)
            has_template = has_template or states_template(self.source.folder)
        if self.source.artifact != "model":
            warn_of_other_form(self.record.stored, self.base, has_template=has_template)


def open_tuned(source: Source | Path, base: Path) -> Tuned:
    """Returns a fine-tune on a base.

    Args:
        source: see `resolve_tuned`; or its path, see `source_at`.
        base: the folder of the base, see `resolve_base`; of whole weights that are only merged or
            loaded, their own folder will do.

    Raises:
        InputError: the path is no fine-tune.
    """
    return Tuned(source_at(source) if isinstance(source, Path) else source, base)
