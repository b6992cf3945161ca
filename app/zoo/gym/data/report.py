"""Formats an inspection, and single rows, as plain text, also for pipes and screen readers."""

from collections.abc import Iterator, Sequence

from zoo.gym.data.inspection import Inspection, Piece
from zoo.gym.data.shown import ShownRow
from zoo.gym.terminal import visible

_PROBLEMS_SHOWN = 10
_BAR_WIDTH = 40
_SHOWN_CHARACTERS = 2000
_BRIGHT, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def report(
    inspection: Inspection,
    stages: Sequence[str] = (),
    *,
    colour: bool = False,
    show_prompt: bool = False,
) -> str:
    """Returns the figures of an inspection, one per line, and its example.

    Args:
        colour: mark learned tokens with ANSI bright and dim instead of [[ and ]].
        show_prompt: add the prompt before the answer of the example.
    """
    lines = [*_figures(inspection, stages)]
    lines += [f"warning: {text}" for text in inspection.warnings]
    lines += [visible(str(problem)) for problem in inspection.problems[:_PROBLEMS_SHOWN]]
    if (more := len(inspection.problems) - _PROBLEMS_SHOWN) > 0:
        lines.append(f"and {more} more problems")
    lines += _example(inspection, colour=colour)
    if show_prompt:
        prompt = _text([Piece(inspection.prompt, learned=False)], colour=False)
        lines += [
            "chat, samples and rewards ask for this answer with:",
            prompt or "(nothing: texts)",
        ]
    return "\n".join(lines)


def marked(row: ShownRow, *, colour: bool) -> str:
    """Returns a row with its learned tokens marked, under a line that says what it is."""
    if row.problem:
        return visible(f"row {row.row}, {row.source}: cannot be used: {row.problem}")
    rating = {True: ", rated good", False: ", rated bad", None: ""}[row.good]
    lines = [visible(f"row {row.row}, {row.source}: {row.kind}, {row.tokens:,} tokens{rating}")]
    lines.append(_text(row.pieces, colour=colour))
    if row.rejected:
        lines += ["the worse answer:", _text(row.rejected, colour=colour)]
    if row.answer:
        lines.append(visible(f"a reward compares with: {row.answer}"))
    return "\n".join(lines)


def _figures(inspection: Inspection, stages: Sequence[str]) -> Iterator[str]:
    for file, name in inspection.files.items():
        yield _line("file", f"{file}: {name}")
    yield _line("model", inspection.model)
    if stages:
        yield _line("stage", " or ".join(stages))
    yield _line(
        "rows",
        f"{inspection.rows} ({_counts(inspection.kinds)}), problems {len(inspection.problems)}",
    )
    if inspection.sampled:
        yield _line(
            "sampled", f"{inspection.sampled} rows: the figures below are estimated from them"
        )
    if inspection.ratings:
        names = {"good": "good (or to retain)", "bad": "bad (or to forget)"}
        counts = (f"{names[key]} {inspection.ratings.get(key, 0)}" for key in names)
        yield _line("ratings", ", ".join(counts))
    yield _line("turns", _counts(inspection.roles) or "none")
    tokens = inspection.tokens
    yield _line("tokens per row", f"p50 {tokens.p50}, p95 {tokens.p95}, longest {tokens.longest}")
    most_rows = max(bar.rows for bar in tokens.histogram)
    for bar in tokens.histogram:
        width = max(1, round(_BAR_WIDTH * bar.rows / most_rows))
        yield _line(f"{bar.least} to {bar.most}", f"{'#' * width} {bar.rows}")
    yield _line(
        "truncated",
        f"{_share(inspection.truncated, inspection.rows)} at {inspection.cutoff_len} tokens",
    )
    yield _line("nothing learned", _share(inspection.unlearned, inspection.rows))
    yield _line("duplicates", str(inspection.duplicates))
    yield _line("empty answers", str(inspection.empty_answers))
    yield _line("think", f"{inspection.think}, {inspection.with_reasoning} rows with reasoning")
    if inspection.with_tools:
        yield _line("tools", f"{inspection.with_tools} rows with tools or tool calls")
    yield _line("date", inspection.date)


def _line(name: str, value: str) -> str:
    return visible(f"{name:>16}  {value}")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _share(count: int, rows: int) -> str:
    return f"{count} of {rows} rows ({count / rows:.1%})"


def _example(inspection: Inspection, *, colour: bool) -> Iterator[str]:
    legend = "bright is learned, dim is only read"
    legend = legend if colour else "[[learned]], the rest is only read"
    which = {True: ", rated good", False: ", rated bad", None: ""}[inspection.example_good]
    which += ", the better answer" if inspection.rejected else ""
    yield visible(f"example, {inspection.example_source}{which} ({legend}):")
    yield _text(inspection.example, colour=colour)
    if inspection.rejected:
        yield "the worse answer:"
        yield _text(inspection.rejected, colour=colour)


def _text(pieces: Sequence[Piece], *, colour: bool) -> str:
    left, output = _SHOWN_CHARACTERS, ""
    for piece in pieces:
        text = visible(piece.text[: max(left, 0)])
        left -= len(piece.text)
        if text and colour:
            text = f"{_BRIGHT if piece.learned else _DIM}{text}{_RESET}"
        elif text and piece.learned:
            text = f"[[{text}]]"
        output += text
    return output + (f"\n({-left} more characters)" if left < 0 else "")
