"""Delta files with a fault of our choosing under a right digest."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zoo.core

Edit = Callable[[dict[str, Any], dict[str, Any], bytearray], None]


def forge(source: Path, out: Path, edit: Edit) -> Path:
    """Copies a delta with `edit(file header, delta header, data)` applied, and seals it again."""
    content = source.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    file, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    header = json.loads(file["__metadata__"]["header"])
    edit(file, header, data)
    file["__metadata__"] |= {"digest": "0" * 64, "header": json.dumps(header)}
    text = json.dumps(file, separators=(",", ":")).encode()
    out.write_bytes(struct.pack("<Q", len(text)) + text + data)
    digest = zoo.core.file_digest(out, zero_at=35, zero_len=64)
    out.write_bytes(out.read_bytes().replace(b"0" * 64, digest.encode(), 1))
    return out
