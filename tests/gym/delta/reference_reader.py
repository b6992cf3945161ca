"""A reader written from docs/reference/delta-format.md alone: NumPy, json and struct."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"U8": np.uint8, "F16": np.float16, "F32": np.float32}


def read_differences(path: Path) -> dict[str, NDArray[np.float32]]:
    """Returns what a delta file adds to each tensor of its base."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    file = json.loads(data[8 : 8 + length])
    metadata = file.pop("__metadata__")
    assert metadata["format"] == "zoo-gym-delta"
    assert metadata["version"] == "1"
    parts = {name: read_part(data[8 + length :], **info) for name, info in file.items()}
    tensors = json.loads(metadata["header"])["tensors"]
    return {tensor["name"]: read_tensor(tensor, parts) for tensor in tensors}


def read_part(data: bytes, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    start, stop = data_offsets
    return np.frombuffer(data[start:stop], TYPES[dtype]).reshape(shape)


def read_tensor(tensor: dict[str, Any], parts: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    name, shape = tensor["name"], tensor["shape"]
    total = np.zeros(shape, np.float32)
    for term in tensor["terms"]:
        if term["kind"] == "raw":
            total += parts[f"{name}.raw"]
        elif term["kind"] == "sign":
            matrix = (math.prod(shape[:-1]), shape[-1])
            total += read_signs(parts[f"{name}.sign"], parts[f"{name}.scale"], matrix).reshape(
                shape
            )
        else:
            A = read_factor(f"{name}.A", parts, shape[1], term["group"])
            B = read_factor(f"{name}.B", parts, shape[0], term["group"])
            product = B.T.astype(np.float64) @ A.astype(np.float64)
            total += product.astype(np.float32)
    return total


def read_signs(
    plane: NDArray[np.uint8], scales: NDArray[np.float32], matrix: tuple[int, int]
) -> NDArray[np.float32]:
    signs = np.empty(matrix, np.float32)
    for row in range(matrix[0]):
        for column in range(matrix[1]):
            bit = plane[row, column // 8] >> (column % 8) & 1
            signs[row, column] = 1 if bit else -1
    return signs * scales[:, None]


def read_factor(
    stem: str, parts: dict[str, NDArray[Any]], length: int, group: int
) -> NDArray[np.float32]:
    codes, scales, zeros = (parts[f"{stem}.{kind}"] for kind in ("codes", "scale", "zero"))
    values = np.empty((len(codes), length), np.float32)
    for row in range(len(codes)):
        for column in range(length):
            code = np.float32(codes[row, column // 4] >> (column % 4 * 2) & 3)
            zero = np.float32(zeros[row, column // group]) / np.float32(64)
            scale = np.float32(scales[row, column // group])
            values[row, column] = (code - zero) * scale
    return values
