"""Computes a round of signs again in plain Python, from its folder and docs/reference/rounds.md.

No NumPy, no library but Python's own: what a stranger needs to distrust us. It takes the rules
`mean` and `byzantine_robust`, and rounds without refused contributions; signatures are not checked.
"""

import json
import struct
from math import frexp
from pathlib import Path
from typing import Any


def bytes_of(folder: Path, chunks: str) -> bytes:
    def chunk(name: str) -> bytes:
        return (folder / "chunks" / name[:2] / name).read_bytes()

    return b"".join(chunk(name) for name in json.loads(chunk(chunks)))


def entries(folder: Path) -> list[dict[str, Any]]:
    size = int((folder / "log/checkpoint").read_text().splitlines()[1])
    content = (folder / f"log/tile/entries/000.p/{size}").read_bytes()  # up to 255 of them
    found = []
    while content:
        stop = 2 + struct.unpack(">H", content[:2])[0]
        found.append(json.loads(content[2:stop]))
        content = content[stop:]
    return found


def tensors(file: bytes) -> dict[str, bytes]:
    length = struct.unpack("<Q", file[:8])[0]
    header, data = json.loads(file[8 : 8 + length]), file[8 + length :]
    return {n: data[slice(*t["data_offsets"])] for n, t in header.items() if n != "__metadata__"}


def f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def f16(value: float) -> float:
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


def fixed(numbers: list[float]) -> tuple[list[int], float]:
    largest = max(numbers)
    if not largest:
        return [0] * len(numbers), 0.0
    exponent = frexp(largest)[1] - min(50, 62 - len(numbers).bit_length())
    return [round(number * 2.0**-exponent) for number in numbers], 2.0**exponent


def gram_of(
    signs: list[dict[str, int]], scales: list[dict[str, float]], sizes: dict[str, int]
) -> list[list[int]]:
    n, total = len(signs), [[0] * len(signs) for _ in signs]
    for name, size in sizes.items():
        for i in range(n):
            for j in range(n):
                differ = (signs[i][name] ^ signs[j][name]).bit_count()
                product = scales[i][name] * scales[j][name] * (size - 2 * differ)
                total[i][j] += round(product * 2.0**80)
    return total


def weights_of(gram: list[list[int]], method: str, f: int) -> list[int]:
    n = len(gram)
    if method == "mean":
        return [1] * n
    shift = max(0, max(gram[i][i] for i in range(n)).bit_length() - (60 - 2 * n.bit_length()))
    whole = [[(value + (1 << shift >> 1)) >> shift for value in row] for row in gram]

    def distances(g: list[list[int]], i: int) -> list[int]:
        return [max(0, g[i][i] + g[j][j] - 2 * g[i][j]) for j in range(n)]

    near = []
    for i in range(n):
        apart = distances(whole, i)
        near.append(sorted(range(n), key=apart.__getitem__)[: n - f])
    mixed = [
        [sum(whole[a][b] for a in near[i] for b in near[j]) for j in range(n)] for i in range(n)
    ]
    score = [
        sum(sorted(d for j, d in enumerate(distances(mixed, i)) if j != i)[: n - f - 2])
        for i in range(n)
    ]
    seats = sorted(range(n), key=lambda i: (score[i], i))[: n - f]
    return [sum(i in near[seat] for seat in seats) for i in range(n)]


def int8(values: list[float]) -> tuple[bytes, bytes]:
    codes, scales = b"", b""
    for start in range(0, len(values), 128):
        group = values[start : start + 128]
        largest = max(map(abs, group))
        scale = f16(f32(largest / 127))
        if 127 * scale < largest:
            scale = struct.unpack(
                "<e", struct.pack("<H", struct.unpack("<H", struct.pack("<e", scale))[0] + 1)
            )[0]
        scales += struct.pack("<e", scale)
        codes += bytes(128 + round(f32(v / scale)) if scale else 128 for v in group)
    return codes, scales


def factor_of(log: list[dict[str, Any]]) -> float:
    refits = [e["body"]["values"] for e in log if e["body"].get("kind") == "refit"]
    if not refits:
        return 1.0
    losses = refits[0]["losses"]
    return (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)[losses.index(min(losses))]


def redo(folder: Path) -> tuple[list[int], dict[str, bytes]]:
    """Returns the weights of the contributions, and the parts of the result's file."""
    log = entries(folder)
    terms = log[0]["body"]
    reveals = sorted(
        (e["body"] for e in log if e["context"] == "round reveal"), key=lambda b: b["digest"]
    )
    files = [tensors(bytes_of(folder, body["chunks"])) for body in reveals]
    shapes = {tensor["name"]: tensor["shape"] for tensor in terms["tensors"]}
    signs = [{n: int.from_bytes(file[f"{n}.sign"], "little") for n in shapes} for file in files]
    scales = [{n: struct.unpack("<f", file[f"{n}.scale"])[0] for n in shapes} for file in files]
    sizes = {name: rows * columns for name, (rows, columns) in shapes.items()}
    n, f = len(files), terms["f"]
    f = max(0, min(3 * n // 10, (n - 3) // 2)) if f is None else f
    weights = weights_of(gram_of(signs, scales, sizes), terms["method"], f)
    factor = factor_of(log)
    parts: dict[str, bytes] = {}
    for name, (rows, columns) in shapes.items():
        products = [w * s[name] for w, s in zip(weights, scales, strict=True)]
        multiples, unit = fixed([*products, 0.0])
        codes, sizes_of_groups = b"", b""
        for row in range(rows):
            first = row * (-(-columns // 8) * 8)
            values = []
            for column in range(first, first + columns):
                total = sum(
                    m if s[name] >> column & 1 else -m
                    for m, s in zip(multiples, signs, strict=False)
                )
                values.append(f32(f32(total * unit / sum(weights)) * factor))
            more = int8(values)
            codes, sizes_of_groups = codes + more[0], sizes_of_groups + more[1]
        parts |= {f"{name}.int.codes": codes, f"{name}.int.scale": sizes_of_groups}
    return weights, parts
