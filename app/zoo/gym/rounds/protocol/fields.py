"""Fields that the terms and the records of a round are made of."""

import unicodedata
from typing import Annotated, cast

from pydantic import Field

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest of 32 bytes."""


def as_tuple(value: object) -> object:
    """Returns a list of JSON as a tuple, anything else as it is."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def is_known_everywhere(text: str) -> bool:
    """Returns whether a text has characters of Unicode 3.2 alone.

    What a later character is (a letter, printable, the lower case of which) differs among versions
    of Python, and so would what they decide about the text.
    """
    return all(unicodedata.ucd_3_2_0.category(one) != "Cn" for one in text)
