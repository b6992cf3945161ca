"""Splits the reasoning off an assistant's turn, and writes it back as a think block."""

import re

_BLOCK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def split_thinking(content: str) -> tuple[str | None, str]:
    """Returns the reasoning at the start of an answer, and the answer.

    Args:
        content: the assistant's text, possibly with `<think>...</think>` before the answer.

    Returns:
        The reasoning without surrounding newlines (None if there is no block), and the rest.
    """
    block = _BLOCK.match(content)
    if block is None:
        return None, content
    return block.group(1).strip("\n"), content[block.end() :]


def think_block(reasoning: str) -> str:
    """Returns reasoning as a block before an answer, in the form of Qwen3's template."""
    return f"<think>\n{reasoning}\n</think>\n\n"
