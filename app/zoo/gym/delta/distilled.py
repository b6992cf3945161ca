"""Writes a delta again after numbers of it were trained."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.file.header import DISTILLED_KEY, DeltaHeader
from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.delta.trainable import TrainableTensor

DELTA_FILE = "delta.safetensors"
"""The delta in the result of a run that trained it."""


@dataclass(frozen=True)
class Distilled:
    """A delta that was trained.

    Attributes:
        file: the delta.
        record: how it was trained, for the recipe.
        before: KL(fine-tune || delta) before training, on rows that were not learned from, in nats
            per token; None if there was only one row.
        after: the same after it.
        falls_at_end: whether the last of its steps was the best.
    """

    file: Path
    record: dict[str, JsonValue]
    before: float | None
    after: float | None
    falls_at_end: bool = False

    @property
    def is_better(self) -> bool:
        """Whether the divergence is known to have fallen."""
        return self.before is not None and self.after is not None and self.after < self.before

    def as_json(self) -> dict[str, JsonValue]:
        """Returns the record, and what the training gained."""
        figures: dict[str, JsonValue] = {"kl_before": self.before, "kl_after": self.after}
        return self.record | figures | {"used": self.is_better}


def with_trained(delta: Delta, tensors: Iterable[TrainableTensor], out: Path) -> Delta:
    """Writes a delta with other parts of some tensors, without its quality, and returns it.

    Raises:
        StorageError: the file cannot be written.
    """
    trained = {tensor.tensor.name: tensor for tensor in tensors}
    encoded = (
        trained[tensor.name].encoded()
        if tensor.name in trained
        else Encoded(tensor, tensor_parts(delta, tensor))
        for tensor in delta.header.tensors
    )
    return _written(out, delta.header.model_copy(update={"quality": None}), encoded)


def replace_trained(delta: Delta, distilled: Distilled) -> Delta:
    """Replaces a delta file by one that was trained, and records how.

    Raises:
        StorageError: the file cannot be written.
    """
    trained = load_delta(distilled.file)
    recipe = delta.header.recipe | {DISTILLED_KEY: distilled.record}
    tensors = trained.header.tensors
    header = delta.header.model_copy(update={"recipe": recipe, "tensors": tensors})
    encoded = (Encoded(tensor, tensor_parts(trained, tensor)) for tensor in tensors)
    return _written(delta.path, header, encoded)


def _written(out: Path, header: DeltaHeader, encoded: Iterable[Encoded]) -> Delta:
    with Spool(out.parent) as spool:
        for tensor in encoded:
            spool.add_tensor(tensor)
        write_delta(out, header, spool)
    return load_delta(out)
