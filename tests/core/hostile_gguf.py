"""Malformed GGUF files, among them the classes of CVE-2025-53630, CVE-2026-27940 and CVE-2026-7482:
sums and products that overflow, counts without end, tensors that lie beyond the file."""

import struct

from tests.core.hostile import Hostile, of

U8, U32, BOOL, TEXT, ARRAY, U64 = 0, 4, 7, 8, 9, 10
F32, Q4_0, Q4_K, F64 = 0, 2, 12, 28
MAX = 2**64 - 1


def head(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    """Returns the first 24 bytes."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def text(content: bytes | str) -> bytes:
    """Returns a string."""
    content = content.encode() if isinstance(content, str) else content
    return struct.pack("<Q", len(content)) + content


def pair(kind: int, value: bytes, key: str = "k") -> bytes:
    """Returns a key and its value."""
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, content: bytes = b"") -> bytes:
    """Returns an array without the type in front of it."""
    return struct.pack("<IQ", kind, count) + content


def tensor(name: str, shape: list[int], kind: int = F32, offset: int = 0) -> bytes:
    """Returns what a file says of a tensor."""
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sizes + struct.pack("<IQ", kind, offset)


def alone(value: bytes, kind: int = ARRAY) -> bytes:
    """Returns a file of one pair."""
    return head(pairs=1) + pair(kind, value)


def only(shape: list[int], kind: int = F32, offset: int = 0, data: int = 4) -> bytes:
    """Returns a file of one tensor."""
    return padded(head(tensors=1) + tensor("x", shape, kind, offset), data)


def padded(header: bytes, data: int) -> bytes:
    """Returns a file of this header, padded to 32, and so many bytes."""
    return header + bytes(-len(header) % 32 + data)


def both(first: int, second: int, data: int) -> bytes:
    """Returns a file of a tensor of 4 bytes and one of 36 at these offsets."""
    entries = tensor("x", [1], offset=first) + tensor("y", [9], offset=second)
    return padded(head(tensors=2) + entries, data)


def alignment(value: int) -> bytes:
    """Returns a file that names its alignment."""
    return head(pairs=1) + pair(U32, struct.pack("<I", value), "general.alignment")


SMALL = struct.pack("<Q", 0)

GGUF: dict[str, Hostile] = {
    "empty file": of(b"", "got an empty file"),
    "cut in the first word": of(b"GGU", "got 'GGU'"),
    "another format": of(b"PK\x03\x04" + bytes(60), "expected it to begin with GGUF"),
    "version 0": of(head(version=0), "expected 2 or 3, got 0"),
    "version 1": of(head(version=1), "expected 2 or 3, got 1"),
    "version 4": of(head(version=4), "expected 2 or 3, got 4"),
    "big-endian": of(b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian GGUF file"),
    "cut in the counts": of(head()[:20], "truncated file"),
    "tensors without end": of(head(tensors=MAX), "too many tensors: expected at most 0"),
    "keys without end": of(head(pairs=MAX), "too many keys: expected at most 0"),
    "negative count": of(head(tensors=2**63) + bytes(99), "too many tensors"),
    "more tensors than room": of(
        head(tensors=5) + bytes(99), "too many tensors: expected at most 3"
    ),
    "a million keys": Hostile(
        lambda: head(pairs=10**6) + bytes(15 * 10**6), "too many keys: expected at most 16384"
    ),
    "a million tensors": Hostile(
        lambda: head(tensors=10**6) + bytes(26 * 10**6), "too many tensors: expected at most 65536"
    ),
    "key beyond the file": of(
        head(pairs=1) + struct.pack("<Q", 99) + bytes(20), "expected at least 131 bytes for a key"
    ),
    "key without end": of(head(pairs=1) + struct.pack("<Q", MAX) + bytes(20), "key is too long"),
    "key that wraps around": of(
        head(pairs=1) + struct.pack("<Q", MAX - 31) + bytes(20), "key is too long"
    ),
    "empty key": of(head(pairs=1) + pair(U8, bytes(2), ""), "key '' is not plain"),
    "key with NUL": of(head(pairs=1) + pair(U8, b"\0", "a\0"), "is not plain"),
    "key no UTF-8": of(head(pairs=1) + text(b"\xff") + bytes(5), "a key is not text"),
    "key twice": of(head(pairs=2) + 2 * pair(U8, b"\0"), "key 'k' is duplicated"),
    "unknown type of value": of(alone(bytes(8), 13), "expected 0 to 12, got 13"),
    "string beyond the file": of(alone(struct.pack("<Q", 9) + b"abc", TEXT), "truncated file"),
    "string that wraps around": of(alone(struct.pack("<Q", MAX - 40), TEXT), "truncated file"),
    "string no UTF-8": of(alone(text(b"a\xc3"), TEXT), "got byte 0xc3 at position 1"),
    "truth of two": of(alone(b"\x02", BOOL), "expected 0 or 1, got 2"),
    "number cut": of(alone(bytes(7), U64), "truncated file"),
    "array of unknown type": of(alone(array(99, 1, SMALL)), "got 99"),
    "array beyond the file": of(alone(array(U32, 3, SMALL)), "truncated file"),
    "array whose size overflows": of(alone(array(U64, 2**61 + 1, SMALL)), "truncated file"),
    "array without end": of(alone(array(U8, MAX, SMALL)), "truncated file"),
    "strings without end": of(alone(array(TEXT, 2**61, SMALL)), "truncated file"),
    "arrays without end": of(alone(array(ARRAY, MAX // 12, SMALL)), "truncated file"),
    "arrays nested deep": of(
        alone(array(ARRAY, 1) * 5 + array(U8, 0)), "nested too deeply: expected at most 4"
    ),
    "arrays nested a million deep": Hostile(
        lambda: alone(array(ARRAY, 1) * 10**6), "nested too deeply: expected at most 4"
    ),
    "too many strings": Hostile(
        lambda: alone(array(TEXT, 2**21 + 1, bytes(8 * 2**21 + 8))), "too many strings"
    ),
    "too many small arrays": Hostile(
        lambda: alone(array(ARRAY, 2**14 + 1, array(U8, 0) * (2**14 + 1))),
        "too many arrays in arrays",
    ),
    "alignment 0": of(alignment(0), "expected a power of two from 8 to 65536 as UINT32, got 0"),
    "alignment no power of two": of(alignment(24), "expected a power of two"),
    "alignment without end": of(alignment(2**31), "expected a power of two"),
    "alignment of another type": of(
        head(pairs=1) + pair(TEXT, text("32"), "general.alignment"), "got another type"
    ),
    "name of 65 bytes": of(
        padded(head(tensors=1) + tensor("n" * 65, [1]), 4), "expected at most 64 bytes, got 65"
    ),
    "empty name": of(padded(head(tensors=1) + tensor("", [1]), 4), "tensor name '' is not plain"),
    "name with an escape sequence": of(
        padded(head(tensors=1) + tensor("\x1b[2J", [1]), 4), "is not plain"
    ),
    "tensor twice": of(
        padded(head(tensors=2) + tensor("x", [1]) + tensor("x", [1], offset=32), 36),
        "tensor name 'x' is duplicated",
    ),
    "five dimensions": of(only([1] * 5), "too many dimensions: expected at most 4, got 5"),
    "dimensions without end": of(
        head(tensors=1) + text("x") + struct.pack("<I", 2**32 - 1) + bytes(64),
        "too many dimensions",
    ),
    "unknown type": of(only([1], 99), "expected one of ggml's, got number 99"),
    "type of old": of(only([32], 4), "expected one of ggml's, got number 4"),
    "row no whole blocks": of(only([31], Q4_0, data=18), "expected whole blocks of 32 values"),
    "row of half a super-block": of(only([128], Q4_K, data=72), "expected whole blocks of 256"),
    "values overflow": of(only([2**32, 2**32]), "impossible dimensions"),
    "values overflow to a small number": of(only([2**32 + 1, 2**32]), "impossible dimensions"),
    "bytes overflow": of(only([2**61], F64), "impossible dimensions"),
    "negative dimension": of(only([2**63]), "impossible dimensions"),
    "tensor beyond the file": of(only([2]), "bytes for tensor 'x', got"),
    "tensor far beyond the file": of(only([2**58]), "bytes for tensor 'x', got"),
    "offset beyond the file": of(only([1], offset=2**40), "gap before tensor 'x'"),
    "offset that wraps around": of(only([1], offset=MAX - 31), "gap before tensor 'x'"),
    "offset not aligned": of(only([1], offset=4), "expected an offset in steps of 32"),
    "overlap": of(both(0, 0, 36), "tensor 'y' overlaps another"),
    "hole": of(both(0, 64, 100), "gap before tensor 'y'"),
    "hole at the start": of(both(32, 64, 100), "gap before tensor 'x'"),
    "bytes behind the data": of(both(0, 32, 97), "bytes after the last tensor"),
    "bytes without tensors": of(head() + bytes(99), "bytes after the last tensor"),
}

SOUND: dict[str, bytes] = {
    "empty": head(),
    "version 2": head(version=2),
    "one": only([1]),
    "two": both(0, 32, 68),
    "no bytes": only([0, 7], data=0),
    "blocks": only([256, 2], Q4_K, data=288),
    "text": alone(text("ü"), TEXT),
    "tokens": alone(array(TEXT, 3, text("a") + text("") + text("bc"))),
    "scores": alone(array(6, 2, bytes(8))),
    "nested": alone(array(ARRAY, 2, array(U8, 1, b"\7") + array(TEXT, 1, text("a")))),
    "aligned": alignment(64),
    "truth": alone(b"\1", BOOL),
}
