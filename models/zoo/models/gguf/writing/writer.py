"""Writes a GGUF file, one tensor in memory at a time."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.models.gguf.writing.types import quantised, stored_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Content = tuple[str, tuple[int, ...], str, "Callable[[], NDArray[np.float32]]"]
"""A tensor: its name, its shape, its type and what returns its values."""


def write_file(path: Path, keys: Mapping[str, Any], contents: "Sequence[Content]") -> None:
    """Writes a file.

    Args:
        path: where; an existing file is replaced.
        keys: the header, `general.architecture` with it. Whole numbers are stored with 32 bits,
            lists of them too.
        contents: the tensors in their order; the values of one are asked for when it is written.

    Raises:
        InputError: a value cannot be stored in its tensor's type.
        OSError: the file cannot be written.
    """
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter

    writer = GGUFWriter(path, str(keys["general.architecture"]))
    for key, value in keys.items():
        if key != "general.architecture":
            _add_key(writer, key, value)
    for name, shape, kind, _ in contents:
        code = GGMLQuantizationType[kind]
        writer.add_tensor_info(
            name, shape, np.dtype(np.float32), stored_bytes(shape, kind), raw_dtype=code
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    try:
        for name, _, kind, values in contents:
            writer.write_tensor_data(quantised(values(), kind, name))
    except OSError as error:
        if error.errno is None:  # NumPy's, of a disk that is full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise
    finally:
        writer.close()


def _add_key(writer: Any, key: str, value: Any) -> None:  # noqa: ANN401
    from gguf import GGUFValueType

    if isinstance(value, list):
        writer.add_array(key, value)
        return
    kinds = {
        bool: GGUFValueType.BOOL,
        int: GGUFValueType.UINT32,
        float: GGUFValueType.FLOAT32,
        str: GGUFValueType.STRING,
    }
    writer.add_key_value(key, value, kinds[type(value)])
