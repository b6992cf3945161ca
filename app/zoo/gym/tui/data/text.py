"""The words of the Data screen: what a file is, its lengths, what is wrong with it, its rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, TypeAlias, cast

from textual.content import Content

from zoo.gym.config.stages import DEFAULT
from zoo.gym.humanize import counted
from zoo.gym.terminal import one_line, visible

Inspected: TypeAlias = Mapping[str, Any]
"""What `zoo-gym data inspect --json` answers."""

MOST_PROBLEMS = 200
MOST_CHARACTERS = 20_000
"""How much of a row is shown."""

_NAME = 12

EMPTY = """\
A file of examples teaches a model by what it should answer. One row per line, such as

  {"prompt": "Capital of Peru?", "completion": "Lima."}

or a chat, whose assistant turns are learned:

  {"messages": [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello! What can I do?"}]}

Pairs have "chosen" and "rejected", prompts for rewards an "answer". Also read: json lists, csv, \
tsv, parquet, plain text, chats exported from ChatGPT, Claude and WhatsApp.

Drop a file on the terminal, press p and type its path (Tab completes it), or b to look for one. \
Nothing is sent anywhere."""


def facts(inspected: Inspected, width: int) -> Content:
    """Returns what the rows are, and which methods learn from them."""
    rows, kinds, stages = inspected["rows"], inspected["kinds"], inspected.get("stages", [])
    formats = ", ".join(dict.fromkeys(str(name) for name in inspected["files"].values()))
    advice = f"; train with stage={stages[0]}" if stages and DEFAULT not in stages else ""
    sampled = inspected["sampled"]
    pairs = [
        ("format", formats),
        ("rows", f"{rows:,}" + (f" ({_counts(kinds)})" if len(kinds) > 1 else "")),
        ("kind", " and ".join(KINDS.get(str(kind), str(kind)) for kind in kinds)),
        ("turns", _counts(inspected["roles"])),
        ("learned by", ", ".join(stages) + advice),
        ("ratings", _counts(inspected["ratings"])),
        ("reasoning", _of_rows(inspected["with_reasoning"])),
        ("tools", _of_rows(inspected["with_tools"])),
        ("empty", _of_rows(inspected["empty_answers"], " with an empty answer")),
        ("estimated", f"from {sampled:,} rows, evenly spaced" if sampled else ""),
    ]
    lines = [line for name, value in pairs if value for line in _pair(name, value, width)]
    if inspected["refusal"]:
        words = visible(f"Training refuses it: {inspected['refusal']}")
        lines.append(Content.styled(words, "$warning"))
    return Content("\n").join(lines)


def _pair(name: str, value: str, width: int) -> Iterator[Content]:
    """Yields the lines of a name and its value, which stays right of the name."""
    lines = wrap(visible(value), max(12, width - _NAME)) or [""]
    yield Content.assemble((f"{name:<{_NAME}}", "$secondary"), lines[0])
    yield from (Content(" " * _NAME + line) for line in lines[1:])


KINDS = {
    "chat": "chats: the assistant's turns are learned",
    "completion": "prompts with an answer that is learned",
    "text": "texts: every token is learned",
    "pair": "pairs: a better and a worse answer",
    "rated": "answers rated good or bad",
    "prompt": "prompts that the model answers, judged by a reward",
}
"""What a row of each kind is."""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _of_rows(count: int, what: str = "") -> str:
    return f"{counted(count, 'row')}{what}" if count else ""


def faults(inspected: Inspected) -> Content:
    """Returns the warnings, then the rows that cannot be used and those that repeat another."""
    problems, repeats = inspected["problems"], inspected.get("repeats", [])
    bad, duplicates = len(problems), inspected["duplicates"]
    lines = [
        Content.styled(visible(f"{warning}"), "$warning")
        for warning in inspected["warnings"]
        if warning != inspected["refusal"]
    ]
    if not bad and not duplicates:
        return Content("\n").join(
            [*lines, Content.styled("No bad row, no repeated row.", "$success")]
        )
    lines.append(
        Content.assemble(
            (f"{bad:,} bad, {duplicates:,} repeated", "b"),
            ("  f writes a copy without them", "$secondary"),
        )
    )
    lines += [_fault(each["where"], each["reason"]) for each in problems[:MOST_PROBLEMS]]
    lines += _more(bad - MOST_PROBLEMS, "bad rows")
    lines += [_fault(each["where"], f"repeats {_short(each['of'])}") for each in repeats]
    lines += _more(duplicates - len(repeats), "repeated rows")
    return Content("\n").join(lines)


def _fault(where: str, reason: str) -> Content:
    return Content.assemble(visible(_short(where)), (": " + visible(reason), "$secondary"))


def _short(where: str) -> str:
    """Returns `file:line` without the folder."""
    return one_line(where.replace("\\", "/").rpartition("/")[2])


def _more(count: int, what: str) -> list[Content]:
    return [Content.styled(f"and {count:,} more {what}", "$secondary")] if count > 0 else []


def lengths(inspected: Inspected, width: int) -> Content:
    """Returns a histogram of the rows by their tokens, with what the cut loses.

    Args:
        width: the cells of a line.
    """
    tokens, cutoff = inspected["tokens"], inspected["cutoff_len"]
    bins = tokens["histogram"]
    ranges = [f"{each['least']:,} to {each['most']:,}" for each in bins]
    counts = [f"{each['rows']:,}" for each in bins]
    label, number = max(map(len, ranges)), max(map(len, counts))
    most = max(each["rows"] for each in bins)
    cells = max(4, width - label - number - 2)
    lines = [
        Content.assemble(
            (f"{span:>{label}} ", "$secondary"),
            (
                f"{_blocks(each['rows'], most, cells):<{cells}}",
                "$success" if each["least"] <= cutoff else "$warning",
            ),
            f" {count:>{number}}",
        )
        for span, count, each in zip(ranges, counts, bins, strict=True)
    ]
    lines += [
        Content(f"median {tokens['p50']:,}  p95 {tokens['p95']:,}  longest {tokens['longest']:,}"),
        _share(inspected, "truncated", f"cut at {cutoff:,} tokens"),
        _share(inspected, "unlearned", "without a learned token"),
    ]
    return Content("\n").join(lines)


def _share(inspected: Inspected, key: str, what: str) -> Content:
    """Returns a line on the rows that the cut changes."""
    count, share = inspected[key], inspected[f"{key}_share"]
    if not count:
        return Content.styled(f"none {what}", "$secondary")
    return Content.styled(f"{share:.1%} {what} ({counted(count, 'row')})", "$warning")


_EIGHTHS = " ▏▎▍▌▋▊▉"


def _blocks(count: int, most: int, cells: int) -> str:
    """Returns a bar with a resolution of an eighth of a cell; at least a sliver for one row."""
    eighths = max(1, round(8 * cells * count / most)) if count else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def shown_rows(rows: Sequence[Mapping[str, Any]]) -> Content:
    """Returns a row as the model reads it; the learned tokens are bright, those only read dim."""
    return Content("\n\n").join(_shown(row) for row in rows)


def _shown(row: Mapping[str, Any]) -> Content:
    if row["problem"]:
        return Content.styled(visible(f"cannot be used: {row['problem']}"), "$warning")
    parts = [_pieces(row["pieces"])]
    if row["rejected"]:
        parts.insert(0, Content.styled("the better answer", "b $success"))
        parts += [Content.styled("the worse answer", "b $warning"), _pieces(row["rejected"])]
    if row["good"] is not None:
        rating = ("rated good", "b $success") if row["good"] else ("rated bad", "b $warning")
        parts.insert(0, Content.styled(*rating))
    if row["answer"]:
        parts += [Content.styled("a reward compares with", "b"), Content(_cut(row["answer"]))]
    return Content("\n").join(parts)


def _pieces(pieces: Sequence[Mapping[str, Any]]) -> Content:
    return Content.assemble(
        *(
            (_cut(piece["text"]), "$foreground b" if piece["learned"] else "$secondary")
            for piece in pieces
        )
    )


def _cut(text: str) -> str:
    more = len(text) - MOST_CHARACTERS
    return visible(text[:MOST_CHARACTERS]) + (f" ({more:,} more characters)" if more > 0 else "")


def raw_row(line: str, *, is_read: bool = False) -> Content:
    """Returns a row as it is in the file: its keys, or the turns of its chat.

    Args:
        line: the row's line; empty if it is not known.
        is_read: whether the row was read, and is none.
    """
    if not line:
        return Content("There is no such row." if is_read else "Reading the row ...")
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return Content(_cut(line))
    if not isinstance(value, dict):
        return Content(_cut(line))
    fields = cast("dict[str, object]", value)
    lines = [
        Content.assemble((f"{one_line(key)}: ", "$secondary"), _cut(_value(fields[key])))
        for key in fields
    ]
    return Content("\n").join(lines)


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        turns = [_turn(each) for each in cast("list[object]", value)]
        if all(turns):
            return "\n" + "\n".join(turns)
    return json.dumps(value, ensure_ascii=False)


def _turn(turn: object) -> str:
    if not isinstance(turn, dict):
        return ""
    fields = cast("dict[str, object]", turn)
    role = fields.get("role") or fields.get("from")
    text = fields.get("content") or fields.get("value")
    return f"  {role}: {text}" if isinstance(text, str) else ""


def row_title(row: int, total: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the title of the panel with a row."""
    of = f" of {total:,}" if total else ""
    first = rows[0] if rows else {}
    kind = f", {first['kind']}, {first['tokens']:,} tokens" if first.get("kind") else ""
    return f"Row {row:,}{of}{kind}"


def fixed_words(answer: Mapping[str, Any]) -> str:
    """Returns what a copy has, and what was left out."""
    if answer["file"] is None:
        return "No row has to be left out: no copy was written."
    left = (
        f"{counted(answer['bad'], 'bad row')} and {counted(answer['duplicates'], 'repeated row')}"
    )
    return (
        f"{_short(answer['file'])}: {counted(answer['kept'], 'row')}; left out {left}. o opens it."
    )


def problem_row(row: int, reason: str) -> Mapping[str, Any]:
    """Returns a row that cannot be read."""
    return {"row": row, "source": "", "kind": "", "tokens": 0, "pieces": [], "rejected": []} | {
        "answer": "",
        "good": None,
        "problem": reason,
    }


def state_words(state: str, model: str) -> str:
    """Returns what is said of a state; nothing of the one in which nothing goes on."""
    words = {
        "reading": f"Reading it with the tokenizer of {model} ... Esc cancels",
        "searching": "Looking for the text ...",
        "copying": "Writing a copy without bad and repeated rows ...",
        "cancelled": "Cancelled: nothing was counted. p and Enter read it again.",
    }
    return words.get(state, "")


def counted_by(model: str) -> Content:
    """Says whose tokens are counted; a name may have brackets."""
    return Content(visible(f"by the tokenizer of {model}"))
