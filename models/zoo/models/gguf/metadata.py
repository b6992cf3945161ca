"""The values in a GGUF header, each read as the type that its key has or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_CHARACTERS = 60


@dataclass(frozen=True)
class Metadata:
    """The values of a header by key.

    The methods named by a type return None for an absent key, and raise an InputError for a value
    of another type.

    Attributes:
        path: the file, for messages.
        values: numbers, texts, arrays of numbers, and lists of texts, arrays or lists.
    """

    path: Path
    values: Mapping[str, Any]

    def text(self, key: str) -> str | None:
        """Returns a text."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.unlike(key, "a text", value)
        return value

    def boolean(self, key: str) -> bool | None:
        """Returns true or false; 1 and 0 are neither."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.unlike(key, "true or false", value)
        return value

    def integer(self, key: str) -> int | None:
        """Returns a whole number stored as such; neither 1.0 nor true is one."""
        value = self.values.get(key)
        if value is not None and type(value) is not int:
            raise self.unlike(key, "a whole number", value)
        return value

    def number(self, key: str) -> float | None:
        """Returns a number, which may be infinite or NaN; true and false are not numbers."""
        value = self.values.get(key)
        if value is not None and not is_number(value):
            raise self.unlike(key, "a number", value)
        return value

    def texts(self, key: str) -> list[str] | None:
        """Returns a list of texts."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.unlike(key, "a list of texts", value)
        return value

    def integers(self, key: str) -> "NDArray[Any] | None":
        """Returns an array of whole numbers."""
        return self._array(key, "iu", "a list of whole numbers")

    def numbers(self, key: str) -> "NDArray[Any] | None":
        """Returns an array of numbers, which may be infinite or NaN."""
        return self._array(key, "iuf", "a list of numbers")

    def unlike(self, key: str, expected: str, got: object) -> InputError:
        """Returns the error for a value."""
        return InputError(
            f"'{self.path}': {key}: expected {expected}, got {shown(got)}",
            code="models.gguf_setting",
        )

    def _array(self, key: str, kinds: str, expected: str) -> "NDArray[Any] | None":
        """Returns an array with values of NumPy's `kinds`; a list is no array of numbers."""
        array: NDArray[Any] | None = self.values.get(key)
        if array is not None and getattr(getattr(array, "dtype", None), "kind", "") not in {*kinds}:
            raise self.unlike(key, expected, array)
        return array


def is_number(value: object) -> bool:
    """Returns whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_equal(value: Any, other: Any) -> bool:  # noqa: ANN401
    """Returns whether two values of headers are of one type and equal."""
    if type(value) is not type(other):
        return False
    if isinstance(value, list):
        return len(value) == len(other) and all(map(is_equal, value, other))
    if hasattr(value, "dtype"):
        return bool(value.dtype == other.dtype and value.tobytes() == other.tobytes())
    return repr(value) == repr(other)  # so that NaN equals NaN


def shown(value: Any) -> str:  # noqa: ANN401
    """Returns a value for a message, cut to one short line."""
    if value is None:
        return "none"
    if type(value) is int:
        return f"{value:,}"
    if hasattr(value, "dtype"):
        value = value[:_MOST_CHARACTERS].tolist() if value.ndim else value.item()
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
