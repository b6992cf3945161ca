"""IFEval: whether an answer follows every instruction of its prompt that a program can check.

The checks are those of the paper (arXiv:2311.07911) in their strict form. Left out are
`language:response_language`, `change_case:english_capital` and `english_lowercase` (a library has
to guess the language), `length_constraints:number_sentences` and
`change_case:capital_word_frequency` (the original splits text with nltk's data): rows with one of
them are not measured, and counted. Keywords are plain text here, patterns in the original.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from zoo.gym.errors import InputError
from zoo.gym.evaluate.grading import by_text
from zoo.gym.evaluate.items import Item
from zoo.gym.evaluate.tasks.spec import Fields, Row, Spec, text, texts

Arguments = Mapping[str, Any]
Check = Callable[[str, Arguments], bool]
"""Returns whether an answer follows an instruction with these arguments."""

_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCE = re.compile(r"\A```(?:json|Json|JSON)?|```\Z")


def _count(arguments: Arguments, name: str) -> int:
    return int(arguments[name])


def _compared(count: int, relation: object, threshold: int) -> bool:
    """Returns whether a count is `less than`, or `at least`, so many."""
    if relation not in ("less than", "at least"):
        raise ValueError(f"relation: expected 'less than' or 'at least', got {relation!r}")
    return count < threshold if relation == "less than" else count >= threshold


def _occurrences(keyword: object, answer: str) -> int:
    return len(re.findall(re.escape(str(keyword)), answer, re.IGNORECASE))


def _keywords(answer: str, arguments: Arguments) -> bool:
    return all(_occurrences(word, answer) for word in arguments["keywords"])


def _frequency(answer: str, arguments: Arguments) -> bool:
    return _compared(
        _occurrences(arguments["keyword"], answer), arguments["relation"], arguments["frequency"]
    )


def _forbidden(answer: str, arguments: Arguments) -> bool:
    words = (re.escape(str(word)) for word in arguments["forbidden_words"])
    return not any(re.search(rf"\b{word}\b", answer, re.IGNORECASE) for word in words)


def _letters(answer: str, arguments: Arguments) -> bool:
    count = answer.lower().count(str(arguments["letter"]).lower())
    return _compared(count, arguments["let_relation"], arguments["let_frequency"])


def _words(answer: str, arguments: Arguments) -> bool:
    return _compared(len(re.findall(r"\w+", answer)), arguments["relation"], arguments["num_words"])


def _paragraphs(answer: str, arguments: Arguments) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", answer)
    if any(not part.strip() for part in parts[1:-1]):
        return False
    return sum(bool(part.strip()) for part in parts) == _count(arguments, "num_paragraphs")


def _first_word(answer: str, arguments: Arguments) -> bool:
    parts = answer.split("\n\n")
    count = sum(bool(part.strip()) for part in parts)
    nth = arguments["nth_paragraph"]
    part = parts[nth - 1].strip() if nth <= count else ""
    if not part or count != arguments["num_paragraphs"]:
        return False
    word = part.split()[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", word)[0].lower() == str(arguments["first_word"]).lower()


def _placeholders(answer: str, arguments: Arguments) -> bool:
    return len(re.findall(r"\[.*?\]", answer)) >= _count(arguments, "num_placeholders")


def _postscript(answer: str, arguments: Arguments) -> bool:
    marker = str(arguments["postscript_marker"]).strip()
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return bool(re.search(patterns.get(marker, re.escape(marker.lower())), answer.lower()))


def _bullets(answer: str, arguments: Arguments) -> bool:
    stars = re.findall(r"^\s*\*[^\*].*$", answer, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", answer, re.MULTILINE)
    return len(stars) + len(dashes) == _count(arguments, "num_bullets")


def _constrained(answer: str, arguments: Arguments) -> bool:
    del arguments
    return any(option in answer for option in _OPTIONS)


def _highlights(answer: str, arguments: Arguments) -> bool:
    single = re.findall(r"\*([^\n\*]*)\*", answer)
    double = re.findall(r"\*\*([^\n\*]*)\*\*", answer)
    return sum(bool(part.strip()) for part in (*single, *double)) >= _count(
        arguments, "num_highlights"
    )


def _sections(answer: str, arguments: Arguments) -> bool:
    mark = re.escape(str(arguments["section_spliter"]).strip())
    return len(re.split(rf"\s?{mark}\s?\d+\s?", answer)) - 1 >= _count(arguments, "num_sections")


def _json(answer: str, arguments: Arguments) -> bool:
    del arguments
    try:
        json.loads(_FENCE.sub("", answer.strip()).strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(answer: str, arguments: Arguments) -> bool:
    del arguments
    return any(part.strip("<> ") for part in re.findall(r"<<[^\n]+>>", answer))


def _two(answer: str, arguments: Arguments) -> bool:
    del arguments
    parts = [part.strip() for part in answer.split("******")]
    if not all(parts[1:-1]):
        return False
    full = [part for part in parts if part]
    return len(full) == 2 and full[0] != full[1]


def _repeats(answer: str, arguments: Arguments) -> bool:
    return answer.strip().lower().startswith(str(arguments["prompt_to_repeat"]).strip().lower())


def _ends(answer: str, arguments: Arguments) -> bool:
    return answer.strip().strip('"').lower().endswith(str(arguments["end_phrase"]).strip().lower())


def _no_comma(answer: str, arguments: Arguments) -> bool:
    del arguments
    return "," not in answer


def _quoted(answer: str, arguments: Arguments) -> bool:
    del arguments
    return len(answer.strip()) > 1 and answer.strip()[0] == answer.strip()[-1] == '"'


CHECKS: Mapping[str, Check] = {
    "keywords:existence": _keywords,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden,
    "keywords:letter_frequency": _letters,
    "length_constraints:number_words": _words,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": _constrained,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "combination:two_responses": _two,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends,
    "punctuation:no_comma": _no_comma,
    "startend:quotation": _quoted,
}
"""Each instruction that is checked, by its id."""


def ifeval_row(row: Fields) -> Row | str:
    """Returns a prompt with its instructions, or which of them is not checked."""
    prompt, names = text(row, "prompt"), texts(row, "instruction_id_list")
    arguments = row["kwargs"]
    if not isinstance(arguments, list) or len(arguments) != len(names):
        raise InputError(
            f"kwargs: expected one for each of {len(names)} instructions", code="evaluate.bad_row"
        )
    if other := next((name for name in names if name not in CHECKS), None):
        return f"{other} is not checked"
    for name, values in zip(names, arguments, strict=True):
        _require_arguments(name, values)
    fields = {"instructions": list(zip(names, arguments, strict=True))}
    return Row(plain=prompt, chat=prompt, fields=fields)


def _require_arguments(name: str, arguments: object) -> None:
    """Refuses arguments that the check of an instruction cannot read.

    Raises:
        InputError: it cannot.
    """
    try:
        CHECKS[name]("a\n\nb", cast("Arguments", arguments))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"kwargs: expected the arguments of {name}, got {arguments!r:.60} ({error})",
            code="evaluate.bad_row",
        ) from None


def follows_all(item: Item, answer: str) -> bool:
    """Returns whether an answer follows all instructions of its row."""
    pairs = cast("list[tuple[str, Arguments]]", item.task.metadata["instructions"])
    return bool(answer.strip()) and all(
        CHECKS[name](answer, arguments) for name, arguments in pairs
    )


IFEVAL = Spec(
    name="ifeval",
    files=("ifeval*.jsonl", "input_data.jsonl", "ifeval*.parquet"),
    form="rows of prompt, instruction_id_list and kwargs",
    read=ifeval_row,
    how="generate",
    grade=by_text(follows_all),
    graded_by="1 if all instructions are followed (strict)",
    max_new_tokens=1280,
    has_shots=False,
)
