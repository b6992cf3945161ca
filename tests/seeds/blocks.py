"""Reads the code blocks of the published texts from the shared folder; none is copied here."""

import ast
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

DIGESTS = {
    "A": "dbfa88a1a9048622d391e2cc8264631649be2a18568adaec1450b1df4015b626",
    "B": "ba0c5d8723a4eedf1c7aa0df5f0c38b40bcf3f426086b528b229ba7c4642c8b3",
    "C": "4cc9b6edf0b0e44ce1dccb22296ee40f5e65b903b2b3d7ae592c0e2956bcf2b5",
    "D": "9971892283777e65ae4ee38f652b95be7b6be35816c5df2ceb520defde03e982",
    "E": "e412e02c69cc67c3cdf45ea0ff09f2367c6d7b5771a90e9826d6357c0c01716b",
}
"""The SHA-256 of each text."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def read_blocks(shared: Callable[[str], Path]) -> dict[str, str]:
    """Returns every code block by its number, `D4`: the text and the place of its fence in it."""
    texts = {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in shared("seeds").glob("*.txt")}
    blocks: dict[str, str] = {}
    for letter, digest in DIGESTS.items():
        text = texts[digest].read_text(encoding="utf-8")
        for place, (_, code) in enumerate(_FENCE.findall(text), 1):
            blocks[f"{letter}{place}"] = code
    return blocks


def commands(block: str) -> list[str]:
    """Returns the commands of a shell block, each on one line."""
    joined = re.sub(r"\\\n\s*", "", block)
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def with_our_import(code: str) -> str:
    """Returns Python code that imports from `zoo.gym` what it imported from `gym`."""
    return re.sub(r"^(\s*)from gym\b", r"\1from zoo.gym", code, flags=re.MULTILINE)


def part_of(code: str, name: str) -> str:
    """Returns the imports of Python code, what it assigns, and the calls of one name."""
    nodes = ast.parse(code).body
    calls = [node for node in nodes if f".{name}(" in ast.unparse(node)]
    assert calls, f"no call of {name}"
    kinds = (ast.Import, ast.ImportFrom, ast.Assign)
    return "\n".join(ast.unparse(one) for one in nodes if isinstance(one, kinds) or one in calls)
