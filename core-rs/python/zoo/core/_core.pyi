from collections.abc import Sequence
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "IdentityHasher",
    "OpenFile",
    "__version__",
    "add_float_gram",
    "add_hamming",
    "add_lowrank_gram",
    "add_product",
    "add_sign_gram",
    "apply_groups",
    "apply_signs",
    "available_isas",
    "base_identity",
    "dense_product",
    "digest",
    "discrete_gaussian",
    "file_digest",
    "krum_order",
    "limit_in_place",
    "limit_read",
    "majority",
    "mix_gram",
    "near_median",
    "nearest",
    "pack_codes2",
    "pack_groups",
    "pack_signs",
    "popcount_registers",
    "product_registers",
    "read_delta",
    "read_gguf_header",
    "read_header",
    "sign_mean",
    "sign_product",
    "trimmed_mean",
    "unpack_codes2",
    "unpack_signs",
    "use_threads",
    "weighted_mean",
    "whole_gram",
]

__version__: str

def available_isas() -> list[str]: ...
def pack_signs(
    base: tuple[NDArray[Any], str],
    tuned: tuple[NDArray[Any], str],
    cols: int,
    scale: tuple[str, int],
    bits: NDArray[np.uint8],
    scales: NDArray[np.float32],
    mask: NDArray[np.uint8] | None,
    isa: str | None,
    threads: int | None,
) -> None: ...
def unpack_signs(
    bits: NDArray[np.uint8],
    mask: NDArray[np.uint8] | None,
    cols: int,
    signs: NDArray[np.float32],
    isa: str | None,
    threads: int | None,
) -> None: ...
def apply_signs(
    weights: tuple[NDArray[Any], str],
    cols: int,
    scale: tuple[str, int],
    bits: NDArray[np.uint8],
    scales: NDArray[np.float32],
    mask: NDArray[np.uint8] | None,
    isa: str | None,
    threads: int | None,
) -> None: ...
def limit_read(
    first: NDArray[np.uint8], second: NDArray[np.uint8], isa: str | None, threads: int | None
) -> int: ...
def limit_in_place(data: NDArray[np.uint8], isa: str | None, threads: int | None) -> None: ...
def pack_codes2(
    values: NDArray[np.float32],
    cols: int,
    group: int,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint16],
    zeros: NDArray[np.uint8],
) -> None: ...
def unpack_codes2(
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint16],
    zeros: NDArray[np.uint8],
    cols: int,
    group: int,
    values: NDArray[np.float32],
) -> None: ...
def pack_groups(
    kind: str,
    base: tuple[NDArray[Any], str] | None,
    tuned: tuple[NDArray[Any], str],
    cols: int,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint16],
    isa: str | None,
    threads: int | None,
) -> None: ...
def apply_groups(
    kind: str,
    weights: tuple[NDArray[Any], str],
    cols: int,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint16],
    isa: str | None,
    threads: int | None,
) -> None: ...
def add_product(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    cols: int,
    total: NDArray[np.float32],
    isa: str | None,
    threads: int | None,
) -> None: ...
def read_header(
    file: str | PathLike[str] | OpenFile, finite: bool
) -> tuple[list[tuple[str, str, list[int], int, int]], dict[str, str]]: ...
def read_delta(
    file: str | PathLike[str] | OpenFile,
) -> tuple[str, str, list[tuple[str, str, list[int], int, int]]]: ...
def read_gguf_header(
    file: str | PathLike[str] | OpenFile,
) -> tuple[int, int, list[tuple[str, Any]], list[tuple[str, str, list[int], int, int]]]: ...
def base_identity(files: Sequence[str | PathLike[str]], names: Sequence[str]) -> str: ...
def digest(data: bytes | NDArray[np.uint8]) -> str: ...
def file_digest(file: str | PathLike[str] | OpenFile, zero_at: int, zero_len: int) -> str: ...

@final
class OpenFile:
    def __new__(cls, path: str | PathLike[str]) -> OpenFile: ...
    def length(self) -> int: ...
    def read_at(self, room: NDArray[np.uint8], at: int) -> None: ...

@final
class IdentityHasher:
    def __new__(cls) -> IdentityHasher: ...
    def add(self, name: str, dtype: str, shape: Sequence[int], data: NDArray[np.uint8]) -> None: ...
    def finish(self) -> str: ...

def discrete_gaussian(
    values: NDArray[np.int64], sigma: int, key: bytes, threads: int | None
) -> None: ...
def sign_product(
    x: NDArray[np.float32],
    bits: NDArray[np.uint8],
    scales: NDArray[np.float32],
    cols: int,
    y: NDArray[np.float32],
    *,
    exact: bool,
    add: bool,
    isa: str | None = None,
    threads: int | None = None,
) -> None: ...
def product_registers(steps: int, *, exact: bool, isa: str | None) -> int: ...
def dense_product(
    x: NDArray[np.float32],
    weights: NDArray[np.uint16],
    y: NDArray[np.float32],
    tokens: int,
    *,
    isa: str | None = None,
    threads: int | None = None,
) -> None: ...
def add_hamming(
    rows: Sequence[NDArray[np.uint8]],
    cols: int,
    total: NDArray[np.uint64],
    how: tuple[str | None, int | None],
) -> None: ...
def majority(
    rows: Sequence[NDArray[np.uint8]],
    cols: int,
    bits: NDArray[np.uint8],
    how: tuple[str | None, int | None],
) -> None: ...
def sign_mean(
    rows: Sequence[NDArray[np.uint8]],
    cols: int,
    scales: NDArray[np.float32],
    weights: NDArray[np.float32],
    means: NDArray[np.float32],
    how: tuple[str | None, int | None],
) -> None: ...
def trimmed_mean(
    rows: Sequence[NDArray[Any]],
    dtype: str,
    trim: int,
    means: NDArray[np.float32],
    how: tuple[str | None, int | None],
) -> None: ...
def near_median(
    rows: Sequence[NDArray[Any]],
    dtype: str,
    keep: int,
    means: NDArray[np.float32],
    how: tuple[str | None, int | None],
) -> None: ...
def weighted_mean(
    rows: Sequence[NDArray[Any]],
    dtype: str,
    weights: NDArray[np.float32],
    means: NDArray[np.float32],
    how: tuple[str | None, int | None],
) -> None: ...
def add_float_gram(
    rows: Sequence[NDArray[Any]],
    dtype: str,
    total: NDArray[np.uint64],
    how: tuple[str | None, int | None],
) -> None: ...
def add_sign_gram(
    hamming: NDArray[np.uint64],
    cols: int,
    scales: NDArray[np.float32],
    total: NDArray[np.uint64],
) -> None: ...
def add_lowrank_gram(
    a: Sequence[NDArray[np.float32]],
    b: Sequence[NDArray[np.float32]],
    sides: tuple[int, int],
    total: NDArray[np.uint64],
    threads: int | None,
) -> None: ...
def whole_gram(exact: NDArray[np.uint64], count: int, whole: NDArray[np.int64]) -> int: ...
def nearest(
    gram: NDArray[np.int64],
    sizes: tuple[int, int],
    chosen: NDArray[np.uint8],
    threads: int | None,
) -> None: ...
def mix_gram(
    gram: NDArray[np.int64],
    chosen: NDArray[np.uint8],
    count: int,
    mixed: NDArray[np.int64],
    how: tuple[str | None, int | None],
) -> None: ...
def krum_order(
    gram: NDArray[np.int64],
    sizes: tuple[int, int],
    order: NDArray[np.uint64],
    threads: int | None,
    *,
    one_by_one: bool,
) -> None: ...
def popcount_registers(steps: int, isa: str | None) -> int: ...
def use_threads(count: int) -> None: ...
