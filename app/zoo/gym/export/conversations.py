"""The conversations and texts on which an export is compared with its source."""

from zoo.gym.data import Message

_RANGES = (
    *((0x61, 0x7B), (0x61, 0x7B), (0x41, 0x5B), (0x30, 0x3A), (0x21, 0x40), (0x20, 0x21)),
    *((0x20, 0x21), (0x0A, 0x0B), (0xC0, 0x17F), (0x3B1, 0x3CA), (0x410, 0x450)),
    *((0x4E00, 0x4F00), (0x1F600, 0x1F640)),
)
"""Letters, digits, signs and spaces, mostly ASCII, then Latin, Greek, Cyrillic, Chinese, faces."""

CONVERSATIONS: tuple[tuple[Message, ...], ...] = (
    (Message("user", "Hello! What is your name?"),),
    (Message("system", "Answer in one short sentence."), Message("user", "Why is the sky blue?")),
    (
        Message("user", "Spell cat backward."),
        Message("assistant", "tac"),
        Message("user", "And dog?"),
    ),
    (Message("user", "Rechne 17 * 23 aus, bitte. Größe: 42 µm, 3½ €"),),
    (
        Message("system", "You are a careful programmer."),
        Message("user", "def add(a, b):\n    return a - b\n\nWhat is wrong?"),
        Message("assistant", "It subtracts.\n\n```python\nreturn a + b\n```"),
        Message("user", "Thanks. And for 3 numbers?"),
    ),
    (Message("user", "日本語で答えてください。🙂 Ответь коротко."),),
    (
        Message("user", "What is 2 + 2?"),
        Message("assistant", "4", "Two and two make four."),
        Message("user", "  Leading spaces,\ttabs\nand lines  "),
    ),
    (Message("user", "List three colours, one a line, and end with a full stop."),),
)
"""Turns of every kind: a system prompt, several turns, code, reasoning, letters beyond ASCII."""

TEXTS = (
    "Once upon a time, there was a little girl named Lily.",
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "1, 2, 3, 5, 8, 13, 21, 34,",
    "  Two spaces before, a\ttab, and\n\nan empty line",
    "It's 9:45 p.m.; we'll've finished by 10,000 o'clock!",
    "Tom had a red ball. He liked to",
)
"""For a model without a chat template."""


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Returns texts of random letters, always the same."""
    import numpy as np

    draw = np.random.default_rng(seed)
    texts: list[str] = []
    for _ in range(count):
        picked = draw.integers(len(_RANGES), size=int(draw.integers(1, 40)))
        texts.append("".join(chr(draw.integers(*_RANGES[index])) for index in picked))
    return texts
