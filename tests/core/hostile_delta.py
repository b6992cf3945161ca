"""Malformed delta files, each with the digest that its bytes call for unless that is the fault."""

import json
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.core.hostile import Hostile

JSON = dict[str, Any]
DIGEST_AT, DIGEST_BYTES = 35, 64
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U16": 2, "U8": 1}

SIGN = {"kind": "sign", "scale": "row", "zero": "minus"}
INT4 = {"kind": "int", "bits": 4, "group": 128}
TERNARY = {"kind": "ternary", "group": 128}
LOW = {"kind": "lowrank", "rank": 1, "group": 128, "bits": 2}
CODECS = {"kind": "lowrank", "rank": 1, "group": 128, "A": "f16", "B": "f16"}
SPARSE = {"kind": "sparse", "count": 1, "index": "U8", "steps": 1, "values": "BF16"}

Parts = Mapping[str, tuple[str, list[int]]]
"""The parts of a file: type and shape by name."""

SIGNS: Parts = {"w.scale": ("F32", [2]), "w.sign": ("U8", [2, 1])}


def header(terms: list[JSON] | None = None, **changes: Any) -> JSON:
    """Returns the header of a delta of one matrix of 2 rows and 3 columns."""
    tensor = {"name": "w", "shape": [2, 3], "terms": [SIGN] if terms is None else terms}
    return {
        "form": "dense",
        "base": {"identity": "0" * 64, "id": "base", "revision": None},
        "tensors": [tensor],
        "recipe": {},
        "seed": None,
        "data": None,
        "privacy": None,
        "tool": "by hand",
        "quality": None,
    } | changes


def sparse(*, values: int, steps: int) -> Parts:
    """Returns the parts of a sparse term."""
    return {"w.sparse.value": ("BF16", [values]), "w.sparse.index": ("U8", [steps])}


def without(key: str) -> JSON:
    """Returns a header that lacks a field."""
    return {name: value for name, value in header().items() if name != key}


def tensors(*told: JSON) -> JSON:
    """Returns a header of these tensors."""
    return header(tensors=list(told))


def delta(
    told: JSON | str, parts: Parts = SIGNS, *, fill: int | bytes = 0, **metadata: Any
) -> bytes:
    """Returns a delta file, its digest right; `fill` is each byte of its data, or all of them."""
    text = told if isinstance(told, str) else json.dumps(told)
    start = {"digest": "0" * DIGEST_BYTES, "format": "zoo-gym-delta", "version": "1"}
    entries: JSON = {"__metadata__": start | {"header": text} | metadata}
    at = 0
    for name, (dtype, shape) in parts.items():
        count = SIZES[dtype]
        for size in shape:
            count *= size
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    content = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    data = bytes([fill]) * at if isinstance(fill, int) else fill
    return sealed(struct.pack("<Q", len(content)) + content + data)


def sealed(content: bytes) -> bytes:
    """Returns a file with its digest put in."""
    from zoo.core import file_digest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        digest = file_digest(path, zero_at=DIGEST_AT, zero_len=DIGEST_BYTES).encode()
    return content[:DIGEST_AT] + digest + content[DIGEST_AT + DIGEST_BYTES :]


def of(told: JSON | str, phrase: str, parts: Parts = SIGNS, **more: Any) -> Hostile:
    """Returns the class of a file of this header."""
    return Hostile(lambda: delta(told, parts, **more), phrase)


def term(phrase: str, *terms: JSON) -> Hostile:
    """Returns the class of a file whose matrix has these terms."""
    return of(header(list(terms)), phrase)


def moved() -> bytes:
    """Returns a file in which the digest does not come first."""
    entries = {"__metadata__": {"format": "zoo-gym-delta", "digest": "0" * 64, "version": "1"}}
    entries["__metadata__"]["header"] = json.dumps(header())
    content = json.dumps(entries, separators=(",", ":")).encode()
    return struct.pack("<Q", len(content)) + content


def flipped(at: int) -> bytes:
    """Returns a sound file with one bit changed."""
    content = bytearray(delta(header()))
    content[at] ^= 1
    return bytes(content)


QUALITY: JSON = {
    "rows": 1, "tokens": 1, "base": 1.0, "tuned": 0.5, "delta": 0.6, "recovered": 0.8, "kl": 0.0,
}  # fmt: skip

PRIVACY: JSON = {
    "mechanism": "discrete-gaussian", "unit": "contribution", "epsilon": 1.0, "delta": 1e-06,
    "sigma": 4.0, "clip": 1.0, "contributors": 8, "values": 4, "noise_to_signal": 1.0,
}  # fmt: skip


def second(**changes: Any) -> JSON:
    """Returns a header of version 2."""
    more = {"top1": 0.5, "drift": -0.25, "controls": [{"kind": "random-signs", "loss": 2.0}]}
    told: JSON = {"parents": ["1" * 64], "privacy": PRIVACY, "quality": QUALITY | more}
    return header() | told | changes


DELTA: dict[str, Hostile] = {
    "no delta": Hostile(
        lambda: struct.pack("<Q", 2) + b"{}", "metadata format: expected 'zoo-gym-delta', got none"
    ),
    "other format": of(header(), "expected 'zoo-gym-delta', got 'other'", format="other"),
    "other version": of(header(), "metadata version: expected '1' or '2', got '3'", version="3"),
    "another key": of(header(), "metadata: expected digest, format, header", extra="x"),
    "digest elsewhere": Hostile(moved, "first bytes of the header: expected the metadata"),
    "bit of a value": Hostile(lambda: flipped(-1), "damaged file: digest"),
    "bit of the digest": Hostile(lambda: flipped(40), "damaged file: digest"),
    "header no JSON": of("{", "header: EOF"),
    "header a list": of("[]", "expected an object"),
    "header nested deep": of("[" * 5000, "expected an object"),
    "recipe nested deep": of(
        json.dumps(header()).replace('"recipe": {}', '"recipe": {"x": ' + "[" * 5000),
        "recursion limit exceeded",
    ),
    "text behind the header": of(json.dumps(header()) + "x", "trailing characters"),
    "field twice": of(json.dumps(header())[:-1] + ', "seed": null}', "duplicate field `seed`"),
    "unknown field": of(header(extra=1), "unknown field `extra`"),
    "no base": of(without("base"), "missing field `base`"),
    "no seed": of(without("seed"), "missing field `seed`"),
    "base a list": of(header(base=["0" * 64, "b", None]), "expected an object"),
    "base without identity": of(
        header(base={"id": "b", "revision": None}), "missing field `identity`"
    ),
    "identity short": of(
        header(base={"identity": "00", "id": "b", "revision": None}),
        "base.identity: expected 64 hexadecimal digits in lower case, got '00'",
    ),
    "fingerprint in capitals": of(header(data="A" * 64), "data: expected 64 hexadecimal digits"),
    "privacy in version 1": of(header(privacy=PRIVACY), "privacy: expected none in version 1"),
    "parents in version 1": of(header(parents=[]), "parents: expected none in version 1"),
    "top1 in version 1": of(
        header(quality=QUALITY | {"top1": 1.0}), "quality.top1: expected none in version 1"
    ),
    "no parents": of(header(), "parents: expected a list, got none", version="2"),
    "parent short": of(second(parents=["1"]), "parents: expected 64", version="2"),
    "parent twice": of(second(parents=["1" * 64] * 2), "parents: expected each once", version="2"),
    "privacy empty": of(second(privacy={}), "missing field `mechanism`", version="2"),
    "amplification": of(
        second(privacy=PRIVACY | {"amplification": 0.1}),
        "unknown field `amplification`",
        version="2",
    ),
    "sum of nobody": of(
        second(privacy=PRIVACY | {"contributors": 0}),
        "privacy.contributors: expected at least 1",
        version="2",
    ),
    "control twice": of(
        second(quality=QUALITY | {"controls": [{"kind": "a", "loss": 1.0}] * 2}),
        "controls: expected each kind once",
        version="2",
    ),
    "seed a fraction": of(header(seed=0.5), "expected i64"),
    "recipe a list": of(header(recipe=[]), "expected an object"),
    "recipe with a key twice": of(
        json.dumps(header()).replace('"recipe": {}', '"recipe": {"x": [{"y": 1, "y": 2}]}'),
        "expected each key once, got 'y' twice",
    ),
    "quality of no rows": of(header(quality=QUALITY | {"rows": 0}), "quality.rows: expected at"),
    "quality not finite": of(
        json.dumps(header(quality=QUALITY | {"kl": float("nan")})), "expected value"
    ),
    "no tensors": of(tensors(), "expected at least one term, got none"),
    "no terms": of(header([]), "expected at least one term, got none"),
    "tensor without a name": of(
        tensors({"name": "", "shape": [], "terms": []}), "expected a name, got none"
    ),
    "tensor twice": of(
        tensors(*[{"name": "w", "shape": [2, 3], "terms": [SIGN]}] * 2), "each name once, in order"
    ),
    "tensors out of order": of(
        tensors(*[{"name": n, "shape": [2, 3], "terms": [SIGN]} for n in "ba"]), "each name once"
    ),
    "shape with a zero": of(
        tensors({"name": "w", "shape": [0], "terms": [SIGN]}), "expected a shape of at most 64"
    ),
    "shape that overflows": of(
        tensors({"name": "w", "shape": [2**33, 2**33], "terms": [SIGN]}), "a size below 2^61"
    ),
    "form of other terms": of(header(form="lowrank"), "form: expected 'dense' for these terms"),
    "form unknown": of(header(form="other"), "unknown variant"),
    "kind unknown": term("kind of term: expected raw, sign", {"kind": "magic"}),
    "kind missing": term("missing field `kind`", {}),
    "term a list": of(header([["raw"]]), "expected an object"),  # type: ignore[list-item]
    "term of two kinds": term("raw term: expected no scale, got one", SIGN | {"kind": "raw"}),
    "term twice": term("expected one term of a kind, got two", SIGN, SIGN),
    "scale unknown": term("unknown variant", SIGN | {"scale": "cube"}),
    "scale missing": term("expected a scale, got none", {"kind": "sign", "zero": "minus"}),
    "group for rows": term("group: expected none, got 128", SIGN | {"group": 128}),
    "group null": term("invalid type: null", SIGN | {"group": None}),
    "group of 64": term("group: expected 128, got 64", INT4 | {"group": 64}),
    "group missing": term("group: expected 128, got none", {"kind": "ternary"}),
    "planes without end": term("planes: expected 1 to 8, got 9", SIGN | {"planes": 9}),
    "no planes": term("planes: expected 1 to 8, got 0", SIGN | {"planes": 0}),
    "bits of 3": term("bits: expected 2, 4 or 8", INT4 | {"bits": 3}),
    "rank 0": term("rank: expected at least 1, got 0", LOW | {"rank": 0}),
    "both kinds of codecs": term("expected bits 2, or A and B", LOW | CODECS),
    "codec unknown": term("unknown variant", {**LOW, "A": "f8", "B": "f16"}),
    "low rank of a vector": of(
        header(tensors=[{"name": "w", "shape": [3], "terms": [LOW]}], form="lowrank"),
        "expected two dimensions, got 1",
    ),
    "sparse beside another": term("expected a sparse term to be the only one", SPARSE, SIGN),
    "sparse index unknown": term("sparse index: expected one of", SPARSE | {"index": "U32"}),
    "part missing": of(
        header(), "part 'w.scale': expected F32 [2] by its term", {"w.sign": ("U8", [2, 1])}
    ),
    "part too many": of(
        header(), "part 'x': expected a term that uses it", {**SIGNS, "x": ("U8", [1])}
    ),
    "part of another type": of(
        header(), "expected F32 [2] by its term, got F16 [2]", {**SIGNS, "w.scale": ("F16", [2])}
    ),
    "part of another shape": of(
        header(),
        "expected U8 [2, 1] by its term, got U8 [1, 2]",
        {**SIGNS, "w.sign": ("U8", [1, 2])},
    ),
    "part of two terms": of(
        tensors(
            {
                "name": "w",
                "shape": [2, 3],
                "terms": [CODECS | {"A": "sign"}],
            },
            {"name": "w.A", "shape": [1, 3], "terms": [SIGN]},
        ),
        "part 'w.A.sign': expected U8 [1, 1] by its term, got none",
        {"w.B.values": ("F16", [1, 2]), "w.A.scale": ("F16", [1, 1]), "w.A.sign": ("U8", [1, 1])},
    ),
    "scale not finite": of(header(), "tensor 'w.scale' is not finite", fill=255),
    "no five digits": of(
        header([TERNARY]),
        "part 'w.ternary.codes': expected bytes of at most 242, five digits in base 3, got 243",
        {"w.ternary.scale": ("F16", [2, 1]), "w.ternary.codes": ("U8", [2, 1])},
        fill=243,
    ),
    "signs outside the mask": of(
        header([SIGN | {"zero": "mask"}]),
        "part 'w.sign': expected 0 where the mask is 0, got 1",
        {**SIGNS, "w.mask": ("U8", [2, 1])},
        fill=bytes([*8 * [0], 5, 1, 7, 2]),
    ),
    "signs of a later plane outside the mask": of(
        header([SIGN | {"zero": "mask", "planes": 2}]),
        "part 'w.sign.2': expected 0 where the mask is 0, got 1",
        {**SIGNS, "w.scale.2": ("F32", [2]), "w.sign.2": ("U8", [2, 1]), "w.mask": ("U8", [2, 1])},
        fill=bytes([*8 * [0], 5, 2, *8 * [0], 5, 1, 7, 2]),
    ),
    "places too few": of(
        header([SPARSE | {"count": 2}]),
        "part 'w.sparse.index': expected 2 places, got 1",
        sparse(values=2, steps=1),
    ),
    "places too many": of(
        header([SPARSE | {"steps": 3}]),
        "part 'w.sparse.index': expected 1 places, got 3",
        sparse(values=1, steps=3),
    ),
    "place beyond the tensor": of(
        header([SPARSE]), "expected places below 6, got 9", sparse(values=1, steps=1), fill=9
    ),
}

SOUND: dict[str, bytes] = {
    "signs": delta(header()),
    "planes and mask": delta(
        header([SIGN | {"planes": 2, "zero": "mask", "scale": "group", "group": 128}]),
        {
            "w.scale": ("F32", [2, 1]), "w.scale.2": ("F32", [2, 1]),
            "w.sign": ("U8", [2, 1]), "w.sign.2": ("U8", [2, 1]), "w.mask": ("U8", [2, 1]),
        },
    ),
    "ternary and int": delta(
        header([TERNARY, INT4]),
        {
            "w.ternary.scale": ("F16", [2, 1]), "w.int.scale": ("F16", [2, 1]),
            "w.ternary.codes": ("U8", [2, 1]), "w.int.codes": ("U8", [2, 2]),
        },
    ),
    "sparse": delta(header([SPARSE]), sparse(values=1, steps=1)),
    "low rank": delta(
        header([LOW], form="lowrank", quality=QUALITY, recipe={"a": [1, {"b": None}]}, seed=7),
        {
            "w.A.scale": ("F16", [1, 1]), "w.B.scale": ("F16", [1, 1]),
            "w.A.codes": ("U8", [1, 1]), "w.A.zero": ("U8", [1, 1]),
            "w.B.codes": ("U8", [1, 1]), "w.B.zero": ("U8", [1, 1]),
        },
    ),
    "codecs and raw": delta(
        header([{**{k: LOW[k] for k in ("kind", "rank", "group")}, "A": "int8", "B": "bf16"},
                {"kind": "raw"}]),
        {
            "w.raw": ("F32", [2, 3]), "w.A.scale": ("F16", [1, 1]),
            "w.B.values": ("BF16", [1, 2]), "w.A.codes": ("U8", [1, 3]),
        },
    ),
    "version 2": delta(second(), version="2"),
    "header of signs": json.dumps(header()).encode(),
    "header of version 2": json.dumps(second()).encode(),
    "header of low rank": json.dumps(header([LOW], form="lowrank", quality=QUALITY)).encode(),
    "header of all": json.dumps(
        tensors(
            {"name": "a", "shape": [2, 3], "terms": [LOW, SIGN, INT4, TERNARY, {"kind": "raw"}]},
            {"name": "b", "shape": [], "terms": [SPARSE]},
        )
    ).encode(),
}  # fmt: skip
