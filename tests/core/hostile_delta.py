"""Malformed delta files."""

from tests.core.hostile import Hostile

DELTA: dict[str, Hostile] = {}

SOUND: dict[str, bytes] = {}
