"""Malformed safetensors files."""

import json
import struct
from typing import Any

from tests.core.hostile import Hostile, of

ONE: dict[str, Any] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
NONE: dict[str, Any] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def file_of(header: Any, data: bytes = b"") -> bytes:
    """Returns a file of this header, given as text or to be made JSON of, and these data."""
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(**changes: Any) -> bytes:
    """Returns a file of one tensor whose entry is changed."""
    return file_of({"a": ONE | changes}, bytes(4))


def two(first: list[int], second: list[int], size: int) -> bytes:
    """Returns a file of two tensors at these offsets."""
    entries = {"a": ONE | {"data_offsets": first}, "b": ONE | {"data_offsets": second}}
    return file_of(entries, bytes(size))


def named(name: str) -> bytes:
    """Returns a file whose one tensor has this name."""
    return file_of({name: ONE}, bytes(4))


def repeated(first: str, second: str) -> bytes:
    """Returns a file with two entries of which JSON keeps the last."""
    a, b = (json.dumps(ONE | {"data_offsets": at}) for at in ([0, 4], [0, 4]))
    return file_of(f'{{"{first}":{a},"{second}":{b}}}', bytes(4))


def many_empty(count: int) -> bytes:
    """Returns a file of many tensors without bytes."""
    entry = '":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return file_of("{" + ",".join(f'"{n:x}{entry}' for n in range(count)) + "}")


def accepted(content: bytes, phrase: str, *, finite: bool = False) -> Hostile:
    """Returns a class that the safetensors library takes."""
    return Hostile(lambda: content, phrase, accepted=True, finite=finite)


def metadata(text: str) -> bytes:
    """Returns a file without tensors."""
    return file_of(f'{{"__metadata__":{text}}}')


TEN: dict[str, Hostile] = {
    "names twice": accepted(repeated("a", "a"), "'a' is duplicated"),
    "extra field": accepted(one(extra=1), "unknown field 'extra'"),
    "name out of the folder": accepted(named("../../x"), "no path that leads out of a folder"),
    "name with NUL": accepted(named("a\0b"), "no control characters"),
    "name of a megabyte": Hostile(
        lambda: named("n" * 1_000_000), "is too long: expected at most 1024 bytes", accepted=True
    ),
    "empty tensor sharing an offset": accepted(
        file_of({"a": ONE, "b": NONE}, bytes(4)), "has no bytes and shares its offset with 'a'"
    ),
    "NaN payload": accepted(
        file_of({"a": ONE}, struct.pack("<f", float("nan"))), "got NaN at [0]", finite=True
    ),
    "leading space": accepted(
        file_of(" " + json.dumps({"a": ONE}), bytes(4)), "expected '{', got ' '"
    ),
    "a million empty tensors": Hostile(
        lambda: many_empty(1_000_000), "too many tensors: expected at most 262144", accepted=True
    ),
    "metadata of 50 million bytes": Hostile(
        lambda: metadata('{"k":"' + "x" * 50_000_000 + '"}'),
        "metadata are too long",
        accepted=True,
    ),
}
"""The classes that the safetensors library was found to take."""

SAFETENSORS: dict[str, Hostile] = TEN | {
    "empty file": of(b"", "expected at least 8 bytes, got 0"),
    "shorter than its length": of(b"1234567", "expected at least 8 bytes, got 7"),
    "header beyond the file": of(struct.pack("<Q", 100) + b"{}", "expected a header of 100 bytes"),
    "header beyond the limit": of(struct.pack("<Q", 10**8 + 1), "a header of 100000001 bytes"),
    "length of all ones": of(b"\xff" * 16, "expected at most 100000000"),
    "no UTF-8": of(struct.pack("<Q", 4) + b'{"\xff"', "got byte 0xff at position 2"),
    "surrogate in UTF-8": of(struct.pack("<Q", 5) + b'{"\xed\xa0\x80', "got byte 0xed"),
    "byte order mark": of(file_of("\ufeff{}"), "expected '{', got"),
    "a list": of(file_of("[]"), "expected '{', got '['"),
    "empty header": of(file_of(""), "expected '{', got nothing"),
    "header cut": of(file_of('{"a":{"dtype'), "got the header's end"),
    "text behind the header": of(file_of("{}x"), "only spaces after"),
    "NUL behind the header": of(file_of("{}\0\0"), "only spaces after"),
    "comma at the end": of(file_of('{"a":{},}'), "no data_offsets"),
    "raw control character": of(file_of('{"a\n":{}}'), "control characters to be escaped"),
    "escaped escape sequence": accepted(named("\x1b[2J"), "no control characters"),
    "half a surrogate pair": of(file_of('{"\\ud800":{}}'), "both halves of a surrogate pair"),
    "escape unknown": of(file_of('{"\\x":{}}'), "an escape of JSON"),
    "name twice by escape": accepted(repeated("a", "\\u0061"), "'a' is duplicated"),
    "absolute name": accepted(named("/etc/passwd"), "no path that leads out of a folder"),
    "name with backslashes": accepted(named("..\\x"), "no path that leads out of a folder"),
    "tensor a number": of(file_of({"a": 1}), "'a': expected an object"),
    "tensor null": of(file_of({"a": None}), "'a': expected an object"),
    "tensor a list": of(file_of({"a": ["F32", [1], [0, 4]]}), "'a': expected an object"),
    "no dtype": of(file_of({"a": {"shape": [1], "data_offsets": [0, 4]}}, bytes(4)), "no dtype"),
    "no shape": of(file_of({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, bytes(4)), "no shape"),
    "dtype twice": of(file_of('{"a":{"dtype":"U8","dtype":"U8"}}'), "'dtype' is duplicated"),
    "unknown dtype": of(one(dtype="F128"), "expected one like F32 or BF16, got 'F128'"),
    "dtype a number": of(one(dtype=32), "expected '\"', got '3'"),
    "negative shape": of(one(shape=[-1]), "expected a whole number, got '-'"),
    "fraction in a shape": of(one(shape=[1.0]), "expected a whole number, got '.'"),
    "shape beyond 64 bits": of(one(shape=[2**64]), "expected a whole number below 2^64"),
    "overflowing shape": of(one(shape=[2**40, 2**40]), "impossible shape"),
    "shape without end": accepted(one(shape=[1] * 65), "at most 64 dimensions"),
    "half a byte": of(one(dtype="F4", shape=[7]), "impossible shape"),
    "negative offset": of(one(data_offsets=[-4, 0]), "expected a whole number, got '-'"),
    "one offset": of(one(data_offsets=[0]), "expected ',' and a second number"),
    "three offsets": of(one(data_offsets=[0, 4, 4]), "expected ']' after two numbers"),
    "reversed offsets": of(one(data_offsets=[4, 0]), "expected a start before its end"),
    "offsets at the end of 64 bits": of(
        one(data_offsets=[2**64 - 5, 2**64 - 1]), "impossible offsets"
    ),
    "size of another shape": of(one(shape=[2]), "expected 8 bytes for [2] of F32, got 4"),
    "data cut": of(file_of({"a": ONE}, bytes(3)), "truncated file: expected at least"),
    "data too long": of(file_of({"a": ONE}, bytes(5)), "bytes after the last tensor"),
    "data without tensors": of(file_of({}, bytes(5)), "bytes after the last tensor"),
    "overlap": of(two([0, 4], [2, 6], 6), "tensor 'b' overlaps another"),
    "the same bytes twice": of(two([0, 4], [0, 4], 4), "tensor 'b' overlaps another"),
    "hole": of(two([0, 4], [8, 12], 12), "gap before tensor 'b'"),
    "hole at the start": of(two([4, 8], [8, 12], 12), "gap before tensor 'a'"),
    "metadata a list": of(metadata("[]"), "'__metadata__': expected an object"),
    "metadata a number": of(metadata('{"k":1}'), "'__metadata__': 'k': expected '\"'"),
    "metadata nested": of(metadata('{"k":{"k":"v"}}'), "'__metadata__': 'k': expected '\"'"),
    "metadata twice": of(file_of('{"__metadata__":{},"__metadata__":{}}'), "is duplicated"),
    "key of the metadata twice": accepted(metadata('{"k":"1","k":"2"}'), "'k' is duplicated"),
    "metadata of many entries": Hostile(
        lambda: metadata("{" + ",".join(f'"{n}":""' for n in range(20_000)) + "}"),
        "metadata are too long: expected at most 16384 entries",
        accepted=True,
    ),
    "brackets nested deep": Hostile(
        lambda: file_of('{"a":' + "[" * 10**6), "'a': expected an object"
    ),
    "number of a million digits": Hostile(
        lambda: file_of('{"a":{"shape":[' + "9" * 10**6 + "]}}"), "a whole number below 2^64"
    ),
    "key of a million bytes": Hostile(
        lambda: metadata('{"' + "k" * 10**6 + '":""}'), "is too long", accepted=True
    ),
    "git LFS pointer": of(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        "git LFS pointer instead of the file itself",
    ),
    "pickle in a zip": of(b"PK\x03\x04" + bytes(60), "got a zip archive"),
    "GGUF": of(b"GGUF\x03" + bytes(60), "got GGUF"),
    "web page": of(b"<!doctype html>" + bytes(60), "got a web page"),
}

SOUND: dict[str, bytes] = {
    "no tensors": file_of({}),
    "one": file_of({"a": ONE}, bytes(4)),
    "two": two([0, 4], [4, 8], 8),
    "empty tensor": file_of({"a": NONE}),
    "scalar and metadata": file_of(
        {"__metadata__": {"format": "pt"}, "ü": ONE | {"shape": []}}, bytes(4)
    ),
    "null metadata": file_of({"__metadata__": None, "a": ONE}, bytes(4)),
    "types": file_of(
        {
            "a": {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 8]},
            "b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
            "c": {"dtype": "F4", "shape": [8], "data_offsets": [12, 16]},
        },
        bytes(16),
    ),
    "spaces": file_of(json.dumps({"a": ONE}, indent=1) + "    ", bytes(4)),
}
