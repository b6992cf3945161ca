r"""Finds the final answer in a response, and the accepted answers of a row.

A response may state its answer in a form that is asked for in prompts: `<answer>...</answer>`,
`\boxed{...}`, `#### ...` (gsm8k) or `answer: ...`. Without any of them the whole response counts,
without its reasoning.
"""

import json
import re
from typing import cast

_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S[^\n]*)$", re.MULTILINE)
_WORDS = re.compile(r"\banswer\b[*_ \t]*(?:is\b[ \t]*:?|[:=])[*_ \t]*(\S[^\n]*)", re.IGNORECASE)
_SHARPS = re.compile(r"[ \t]*###[ \t]*$")
_BOXED = "\\boxed{"


def without_reasoning(response: str) -> str:
    """Returns what follows the reasoning; empty if the reasoning never ends.

    The prompt of some models opens the think block, so a response may only close it.
    """
    _, closed, rest = response.rpartition("</think>")
    if closed:
        return rest.strip()
    return "" if "<think>" in response else response.strip()


def final_answer(response: str) -> str:
    """Returns the answer that a response states, by the most explicit form that it uses."""
    text = without_reasoning(response)
    return marked_answer(text) or _in_words(text) or text


def marked_answer(text: str) -> str | None:
    r"""Returns the last answer in `<answer>`, `\boxed{}` or after `####`; None if there is none."""
    tags = _TAG.findall(text)
    inner = str(tags[-1]).strip() if tags else text
    boxed = _last_boxed(inner)
    if boxed is not None:
        return boxed
    if tags:
        return inner
    hashes = _HASHES.findall(text)
    return _SHARPS.sub("", str(hashes[-1])).strip() if hashes else None


def accepted_answers(answer: object) -> tuple[str, ...]:
    """Returns the answers that a row accepts as text: one, or those of its list; empty for none.

    A worked solution that marks its answer, as those of gsm8k and MATH do, counts with that answer.
    """
    if isinstance(answer, list | tuple):
        return tuple(text for item in cast("list[object]", answer) for text in _one(item))
    return _one(answer)


def _one(answer: object) -> tuple[str, ...]:
    if answer is None:
        return ()
    if isinstance(answer, str):
        text = marked_answer(answer) or answer.strip()
        return (text,) if text else ()
    return (json.dumps(answer, ensure_ascii=False, sort_keys=True, default=str),)


def _in_words(text: str) -> str | None:
    found = _WORDS.findall(text)
    return _SHARPS.sub("", str(found[-1])).strip(" \t*_") if found else None


def _last_boxed(text: str) -> str | None:
    """Returns the content of the last complete box; its braces may be nested."""
    start = text.rfind(_BOXED)
    while start >= 0:
        begin = start + len(_BOXED)
        depth, end = 1, begin
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not depth:
            return text[begin : end - 1].strip()
        start = text.rfind(_BOXED, 0, start)
    return None
