"""Contributions as the rules see them: views of the mapped files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.file.terms import term_parts
from zoo.gym.errors import InputError
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.forms.floats import Floats
from zoo.gym.rounds.forms.lowrank import Factors, LowRank
from zoo.gym.rounds.forms.signs import Signs, SignTensor
from zoo.gym.rounds.protocol.manifest import Coding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def views_of(deltas: Sequence[Delta], manifest: Coding) -> Contributions:
    """Returns contributions as the rules see them.

    Args:
        deltas: their files, at least one.
        manifest: what decided their bytes.
    """
    files = [_Mapped(delta) for delta in deltas]
    match manifest.form:
        case "signs":
            return Signs({tensor.name: _signs(files, tensor.name) for tensor in manifest.tensors})
        case "lowrank":
            return LowRank(
                {
                    tensor.name: Factors(
                        [file.part(f"{tensor.name}.A.values") for file in files],
                        [file.part(f"{tensor.name}.B.values") for file in files],
                    )
                    for tensor in manifest.tensors
                }
            )
        case "float":
            names = [tensor.name for tensor in manifest.tensors]
            return Floats(
                {name: [file.part(f"{name}.raw").reshape(-1) for file in files] for name in names}
            )
        case "lessons":
            raise InputError("form: expected one of weights, got lessons")


class _Mapped:
    """The parts of a file as views of its pages."""

    def __init__(self, delta: Delta) -> None:
        import numpy as np

        self._bytes = np.memmap(delta.path, np.uint8, "r")
        self._delta = delta
        self._shapes = {
            part.name: part.shape for tensor in delta.header.tensors for part in term_parts(tensor)
        }

    def part(self, name: str) -> "NDArray[np.float32]":
        found: NDArray[np.float32] = self._view(name, "<f4")
        return found

    def bits(self, name: str) -> "NDArray[np.uint8]":
        found: NDArray[np.uint8] = self._view(name, "|u1").reshape(-1)
        return found

    def _view(self, name: str, kind: str) -> "NDArray[Any]":
        info = self._delta.parts[name]
        return self._bytes[info.start : info.stop].view(kind).reshape(self._shapes[name])

    def shape(self, name: str) -> tuple[int, ...]:
        tensor = self._delta.tensor(name)
        assert tensor is not None
        return tensor.shape


def _signs(files: Sequence[_Mapped], name: str) -> SignTensor:
    import numpy as np

    rows, columns = files[0].shape(name)
    bits = [file.bits(f"{name}.sign") for file in files]
    scales = np.concatenate([file.part(f"{name}.scale").reshape(-1) for file in files])
    return SignTensor(bits, scales, (rows, columns))
