"""Reads a delta file, version 1 or 2, and checks its digest, header, parts and values.

The metadata is first in the header and the digest first in the metadata, so its 64 characters are
always at bytes 35 to 99. It is the BLAKE3 hash of the file with these bytes read as ASCII '0'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from zoo.gym.arguments import StrPath, path_of
from zoo.gym.delta.file.header import FORMAT, VERSIONS, DeltaHeader, Version, check_version
from zoo.gym.delta.file.terms import TensorTerms, term_parts
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.terminal import one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.core import Header, OpenFile, TensorInfo

DIGEST_AT = 8 + len(b'{"__metadata__":{"digest":"')
DIGEST_LENGTH = 64
PART_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U16": "<u2", "U8": "|u1"}
"""The types of parts by their safetensors and NumPy names; bfloat16 is read as uint16."""


@dataclass(frozen=True)
class Delta:
    """A delta file whose digest, header and parts have been verified.

    Attributes:
        path: the path that the file was opened from.
        file: the open file that was verified, even if its path was replaced since.
        header: its header.
        digest: its digest, 64 hex characters.
        parts: each part's location in the file, by name.
        file_bytes: the size of the file.
        payload_bytes: the size of all parts, without the header.
    """

    path: Path
    file: "OpenFile"
    header: DeltaHeader
    digest: str
    parts: "Mapping[str, TensorInfo]"
    file_bytes: int
    payload_bytes: int

    def tensor(self, name: str) -> TensorTerms | None:
        """Returns the terms of a base tensor, None if it is not in the delta."""
        return next((tensor for tensor in self.header.tensors if tensor.name == name), None)


def load_delta(path: StrPath) -> Delta:
    """Reads and checks a delta file: format, digest, header, parts, finite values.

    Raises:
        NotAvailableError: there is no such file.
        InputError: the file is not a delta, damaged, of another version, or inconsistent.
    """
    path = path_of("path", path)
    file = open_delta(path)
    container = read_container(path, file)
    verify_digest(path, file, container)
    delta = parse(path, file, container)
    verify_whole(file)
    return delta


def is_delta(path: Path) -> bool:
    """Returns whether a file's metadata is that of a delta of a known version."""
    try:
        read_container(path, open_delta(path))
    except InputError:
        return False
    return True


def refuse_delta(source: Path) -> None:
    """Refuses a delta given as a fine-tune.

    Raises:
        InputError: `source` is a delta.
    """
    if source.is_file() and is_delta(source):
        hint = "rebuild the fine-tune first: zoo-gym delta apply"
        raise InputError(
            f"{source}: expected a fine-tune, got a delta", hint=hint, code="delta.already_a_delta"
        )


def open_delta(path: Path) -> "OpenFile":
    """Opens a delta file.

    Raises:
        NotAvailableError: there is no such file.
        InputError: the path is a folder.
    """
    from zoo.core import OpenFile

    if not path.is_file():
        if path.is_dir():
            raise InputError(
                f"{path}: expected a delta file, got a folder", code="delta.not_a_delta"
            )
        raise NotAvailableError(f"no such delta file: {str(path)!r}", code="delta.no_such_file")
    return OpenFile(path)


def read_container(path: Path, file: "OpenFile") -> "Header":
    """Reads the safetensors header of a delta file.

    Raises:
        InputError: the file is not a delta of this version.
    """
    from zoo.core import read_header

    container = read_header(file)
    metadata = container.metadata
    if metadata.get("format") != FORMAT:
        got = repr(metadata["format"]) if "format" in metadata else "none"
        raise InputError(
            f"{path} is not a delta: metadata format: expected {FORMAT!r}, got {got}",
            code="delta.not_a_delta",
        )
    if metadata.get("version") not in VERSIONS:
        hint = "a newer zoo-gym may read it"
        got = repr(metadata.get("version"))
        raise InputError(
            f"{path}: delta version: expected '1' or '2', got {got}",
            hint=hint,
            code="delta.unknown_version",
        )
    if set(metadata) != {"format", "version", "digest", "header"}:
        got = one_line(", ".join(sorted(metadata)))
        raise InputError(
            f"{path}: metadata: expected digest, format, header, version, got {got}",
            code="delta.bad_header",
        )
    return container


def verify_digest(path: Path, file: "OpenFile", container: "Header") -> None:
    """Checks that no bit of a file has changed since it was written.

    Raises:
        InputError: the digest does not match. One at another offset never does, because it would be
            part of its own input.
    """
    from zoo.core import file_digest

    stored = container.metadata["digest"]
    digest = file_digest(file, zero_at=DIGEST_AT, zero_len=DIGEST_LENGTH)
    if stored != digest:
        hint = "copy or download the file again"
        message = f"{path} is damaged: digest: expected {stored[:12]!r}..., got {digest[:12]!r}..."
        raise InputError(message, hint=hint, code="delta.damaged")


def parse(path: Path, file: "OpenFile", container: "Header") -> Delta:
    """Parses the header of a delta and checks that it fits the parts.

    Raises:
        InputError: a field is missing, unknown or invalid, or a part has another type or shape.
    """
    try:
        header = DeltaHeader.model_validate_json(container.metadata["header"])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        problem = one_line(f"{where}: {first['msg'].lower()}")
        raise InputError(f"{path}: header: {problem}", code="delta.bad_header") from error
    try:
        check_version(header, cast("Version", container.metadata["version"]))
    except ValueError as error:
        raise InputError(f"{path}: header: {error}", code="delta.bad_header") from None
    expected = {part.name: part for tensor in header.tensors for part in term_parts(tensor)}
    if set(expected) != set(container.tensors):
        name = min(set(expected) ^ set(container.tensors))
        where = "the header's terms" if name in container.tensors else "the file"
        raise InputError(f"{path}: part {name!r}: not in {where}", code="delta.bad_part")
    for name, part in expected.items():
        info = container.tensors[name]
        if (info.dtype, tuple(info.shape)) != (part.dtype, part.shape):
            got = f"{info.dtype} {list(info.shape)}"
            message = f"expected {part.dtype} {list(part.shape)} by its term, got {got}"
            raise InputError(f"{path}: part {name!r}: {message}", code="delta.bad_part")
    payload = sum(part.nbytes for part in expected.values())
    digest, size = container.metadata["digest"], file.length()
    return Delta(path, file, header, digest, container.tensors, size, payload)


def verify_whole(file: "OpenFile") -> None:
    """Checks a file completely: digest, header, parts, values and codes.

    The core's reader checks everything itself, so digest and header are checked twice; only it
    checks values and codes.

    Raises:
        InputError: the file is invalid.
    """
    from zoo.core import read_delta

    read_delta(file)


def read_part(delta: Delta, name: str) -> "NDArray[Any]":
    """Returns a part as a new array; bfloat16 as uint16.

    Raises:
        InputError: the file was truncated.
    """
    part = delta.parts[name]
    flat = delta.file.read(part.start, part.stop)
    return flat.view(PART_TYPES[part.dtype]).reshape(part.shape)


def tensor_parts(delta: Delta, tensor: TensorTerms) -> "dict[str, NDArray[Any]]":
    """Returns a tensor's parts by their names without the tensor's: `sign`, `A.codes`."""
    names = [part.name for part in term_parts(tensor)]
    return {name[len(tensor.name) + 1 :]: read_part(delta, name) for name in names}
