r"""Finds the final answer in a response, and the accepted answers of a row.

A response may state its answer in a form that is asked for in prompts: `<answer>...</answer>`,
`\boxed{...}`, `#### ...` (gsm8k) or `answer: ...`. Without any of them the whole response counts,
without its reasoning.
"""

import json
import re
from typing import cast

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S[^\n]*)$", re.MULTILINE)
_WORDS = re.compile(r"\banswer\b[*_ \t]*+(?:is\b[ \t]*+:?|[:=])[*_ \t]*+(\S[^\n]*)", re.IGNORECASE)
_BRACE = re.compile(r"(\\boxed\{)|\\.|[{}]", re.DOTALL)


def without_reasoning(response: str) -> str:
    """Returns what follows the reasoning; empty if the reasoning never ends.

    The prompt of some models opens the think block, so a response may only close it.
    """
    _, closed, rest = response.rpartition("</think>")
    text = rest if closed else response
    return "" if "<think>" in text else text.strip()


def final_answer(response: str) -> str:
    """Returns the answer that a response states, by the most explicit form that it uses."""
    text = without_reasoning(response)
    return marked_answer(text) or answer_in_words(text) or text


def marked_answer(text: str) -> str | None:
    r"""Returns the last answer in `<answer>`, `\boxed{}` or after `####`; None if there is none."""
    tagged = _last_tagged(text)
    boxed = boxed_answer(text if tagged is None else tagged)
    if boxed is not None:
        return boxed
    if tagged is not None:
        return tagged
    hashes = _HASHES.findall(text)
    return _without_sharps(str(hashes[-1])) if hashes else None


def answer_in_words(text: str) -> str | None:
    """Returns what follows the last `answer:` or `the answer is` on its line; None without any."""
    words = _WORDS.findall(text)
    return _without_sharps(str(words[-1])).strip(" \t*_") if words else None


def accepted_answers(answer: object) -> tuple[str, ...]:
    """Returns the answers that a row accepts as text: one, or those of its list; empty for none.

    A worked solution that marks its answer, as those of gsm8k and MATH do, counts with that answer.
    """
    if isinstance(answer, list | tuple):
        return tuple(text for part in cast("list[object]", answer) for text in _one(part))
    return _one(answer)


def _one(answer: object) -> tuple[str, ...]:
    if answer is None:
        return ()
    if isinstance(answer, str):
        text = marked_answer(answer) or answer.strip()
        return (text,) if text else ()
    return (json.dumps(answer, ensure_ascii=False, sort_keys=True, default=str),)


def _without_sharps(text: str) -> str:
    """Returns a text without the `###` that closes an answer in some data."""
    return text.strip().removesuffix("###").strip()


def _last_tagged(text: str) -> str | None:
    """Returns what is between the last pair of answer tags."""
    content, opened = None, None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = tag.end()
        elif opened is not None:
            content, opened = text[opened : tag.start()].strip(), None
    return content


def boxed_answer(text: str) -> str | None:
    r"""Returns the content of the complete `\boxed{}` that starts last; braces may be nested."""
    content, last = None, -1
    opened: list[int | None] = []  # for each open brace the start of its box, None for another
    for brace in _BRACE.finditer(text):
        if brace[1] or brace[0] == "{":
            opened.append(brace.end() if brace[1] else None)
        elif brace[0] == "}" and opened:
            start = opened.pop()
            if start is not None and start > last:
                content, last = text[start : brace.start()].strip(), start
    return content
