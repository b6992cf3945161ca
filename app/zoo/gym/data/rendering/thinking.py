"""Splits the reasoning from an assistant's turn, and writes it back as one form of block."""

import re

_BLOCK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def split_thinking(content: str) -> tuple[str | None, str]:
    """Returns the reasoning at the start of an answer, and the answer.

    Args:
        content: what an assistant wrote, perhaps with `<think>...</think>` before the answer.

    Returns:
        The reasoning without the newlines around it, None where there is no block; the rest.
    """
    block = _BLOCK.match(content)
    if block is None:
        return None, content
    return block.group(1).strip("\n"), content[block.end() :]


def think_block(reasoning: str) -> str:
    """Returns reasoning as it stands before an answer, in the form of Qwen3's template."""
    return f"<think>\n{reasoning}\n</think>\n\n"
