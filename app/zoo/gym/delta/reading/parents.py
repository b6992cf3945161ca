"""The deltas that a base contains, by the note that is written beside its weights."""

import re
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object

PARENTS_FILE = "parents.json"
"""In a model folder: of which base and deltas it was made."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def parents_of(folder: Path) -> tuple[str, ...]:
    """Returns the digests of the deltas that a base contains, the oldest first.

    Raises:
        InputError: the note is damaged.
    """
    file = folder / PARENTS_FILE
    if not file.is_file():
        return ()
    fields = read_json_object(file)
    entries = cast("list[object]", fields.get("parents")) if fields else None
    if not isinstance(entries, list) or len(set(map(str, entries))) != len(entries):
        raise InputError(
            f"{file}: expected a list of parents, each once, got something else",
            code="delta.bad_parents",
        )
    for entry in entries:
        if not isinstance(entry, str) or not _DIGEST.fullmatch(entry):
            raise InputError(
                f"{file}: parents: expected digests, got {str(entry)!r:.80}",
                code="delta.bad_parents",
            )
    return tuple(cast("list[str]", entries))
