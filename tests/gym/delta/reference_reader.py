"""A reader written from docs/reference/delta-format.md alone: NumPy, json and safetensors."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file

F32 = Any  # an array of float32
RADIX = {"sign": (8, 2), "ternary": (5, 3), "int2": (4, 4), "int4": (2, 16), "int8": (1, 256)}
MIDDLE = {"ternary": 1, "int2": 1.5, "int4": 8, "int8": 128}


def read_differences(path: Path, base: dict[str, F32] | None = None) -> dict[str, F32]:
    """Returns what a delta file adds to each tensor of its base."""
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "zoo-gym-delta"
    assert metadata["version"] in {"1", "2"}
    parts = {
        k: v.float().numpy() if v.is_floating_point() else v.numpy()
        for k, v in load_file(path).items()
    }
    tensors = json.loads(metadata["header"])["tensors"]
    return {t["name"]: read_tensor(t, parts, (base or {}).get(t["name"])) for t in tensors}


def read_tensor(tensor: dict[str, Any], parts: dict[str, NDArray[Any]], base: F32 | None) -> F32:
    name, shape = tensor["name"], tensor["shape"]
    rows, columns = (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)
    total = np.zeros((rows, columns), np.float32)
    own = {k[len(name) + 1 :]: v for k, v in parts.items() if k.startswith(f"{name}.")}
    for term in tensor["terms"]:
        if term["kind"] == "raw":
            total += own["raw"].reshape(rows, columns)
        elif term["kind"] == "sign":
            for plane in ("", *(f".{number}" for number in range(2, term.get("planes", 1) + 1))):
                total += read_plane(term, own, plane, columns)
        elif term["kind"] in {"ternary", "int"}:
            codec = f"int{term['bits']}" if term["kind"] == "int" else "ternary"
            kind = term["kind"]
            total += read_groups(codec, own[f"{kind}.codes"], own[f"{kind}.scale"], columns)
        elif term["kind"] == "lowrank":
            A, B = read_factor(term, own, "A", columns), read_factor(term, own, "B", rows)
            product = np.zeros((rows, columns))
            for k in range(term["rank"]):
                product += B[k][:, None].astype(np.float64) * A[k].astype(np.float64)
            total += product.astype(np.float32)
        else:
            assert base is not None
            total = read_sparse(own, base.reshape(rows, columns)) - base.reshape(rows, columns)
    return total.reshape(shape)


def digits(codes: NDArray[np.uint8], per_byte: int, radix: int, columns: int) -> NDArray[Any]:
    places = radix ** np.arange(per_byte)
    return (codes[:, :, None] // places % radix).reshape(len(codes), -1)[:, :columns]


def read_plane(term: dict[str, Any], own: dict[str, NDArray[Any]], plane: str, columns: int) -> F32:
    signs = digits(own[f"sign{plane}"], 8, 2, columns).astype(np.float32) * 2 - 1
    scale = own[f"scale{plane}"]
    if term["scale"] == "group":
        scale = scale.repeat(128, axis=1)[:, :columns]
    mask = digits(own["mask"], 8, 2, columns) if term["zero"] == "mask" else 1
    return (signs * (scale[:, None] if term["scale"] == "row" else scale) * mask).astype(np.float32)


def read_groups(codec: str, codes: NDArray[np.uint8], scale: F32, columns: int) -> F32:
    found = digits(codes, *RADIX[codec], columns).astype(np.float32)
    value = found * 2 - 1 if codec == "sign" else found - np.float32(MIDDLE[codec])
    return value * scale.repeat(128, axis=1)[:, :columns]


def read_factor(term: dict[str, Any], own: dict[str, NDArray[Any]], side: str, length: int) -> F32:
    codec = term.get(side, "codes2")
    if codec in {"f16", "bf16", "f32"}:
        return own[f"{side}.values"]
    codes, scale = own[f"{side}.sign" if codec == "sign" else f"{side}.codes"], own[f"{side}.scale"]
    if codec != "codes2":
        return read_groups(codec, codes, scale, length)
    zero, scale = (x.repeat(128, axis=1)[:, :length] for x in (own[f"{side}.zero"], scale))
    return (digits(codes, 4, 4, length) - zero / np.float32(64)).astype(np.float32) * scale


def read_sparse(own: dict[str, NDArray[Any]], base: F32) -> F32:
    index = own["sparse.index"].astype(np.int64)
    largest = np.iinfo(own["sparse.index"].dtype).max
    places = np.cumsum(np.where(index == largest, largest, index + 1)) - 1
    tuned = base.copy()
    tuned.reshape(-1)[places[index != largest]] = own["sparse.value"]
    return tuned
