"""Fields that the terms and the records of a round are made of."""

from typing import Annotated, cast

from pydantic import Field

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest of 32 bytes."""


def as_tuple(value: object) -> object:
    """Returns a list of JSON as a tuple, anything else as it is."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value
