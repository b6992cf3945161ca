"""Formats an inspection as plain text, also for pipes and screen readers."""

from collections.abc import Iterator, Sequence

from zoo.gym.data.inspection import Inspection, Piece
from zoo.gym.terminal import visible

_PROBLEMS_SHOWN = 10
_BAR_WIDTH = 40
_SHOWN_CHARACTERS = 2000
_RATINGS = {"good": "retain", "bad": "forget"}
_BRIGHT, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def report(
    found: Inspection,
    stages: Sequence[str] = (),
    *,
    colour: bool = False,
    show_prompt: bool = False,
) -> str:
    """Returns the figures of an inspection, one per line, and its example.

    Args:
        found: the figures.
        stages: the methods that learn from such rows.
        colour: mark learned tokens with ANSI bright and dim instead of [[ and ]].
        show_prompt: add what is asked for the answer of the example.
    """
    warnings = [f"warning: {text}" for text in found.warnings]
    parts = [
        *_figures(found, stages),
        *warnings,
        *_problems(found),
        *_example(found, colour=colour),
        *(_prompt(found) if show_prompt else ()),
    ]
    return "\n".join(parts)


def _figures(found: Inspection, stages: Sequence[str]) -> Iterator[str]:
    for file, name in found.files.items():
        yield _line("file", f"{file}: {name}")
    yield _line("model", found.model)
    if stages:
        yield _line("stage", " or ".join(stages))
    yield _line("rows", f"{found.rows} ({_counts(found.kinds)}), problems {len(found.problems)}")
    if found.sampled:
        yield _line("sampled", f"{found.sampled} rows: the figures below are estimated from them")
    if found.ratings:
        yield _line("ratings", ", ".join(_ratings(found.ratings)))
    yield _line("turns", _counts(found.roles) or "none")
    tokens = found.tokens
    yield _line("tokens per row", f"p50 {tokens.p50}, p95 {tokens.p95}, longest {tokens.longest}")
    most_rows = max(bar.rows for bar in tokens.histogram)
    for bar in tokens.histogram:
        width = max(1, round(_BAR_WIDTH * bar.rows / most_rows))
        yield _line(f"{bar.least} to {bar.most}", f"{'#' * width} {bar.rows}")
    yield _line("truncated", f"{_share(found.truncated, found.rows)} at {found.cutoff_len} tokens")
    yield _line("nothing learned", _share(found.unlearned, found.rows))
    yield _line("duplicates", str(found.duplicates))
    yield _line("empty answers", str(found.empty_answers))
    yield _line("think", f"{found.think}, {found.with_reasoning} rows with reasoning")
    if found.with_tools:
        yield _line("tools", f"{found.with_tools} rows with tools or tool calls")
    yield _line("date", found.date)


def _line(name: str, value: str) -> str:
    return visible(f"{name:>16}  {value}")


def _ratings(ratings: dict[str, int]) -> Iterator[str]:
    for name, other in _RATINGS.items():
        yield f"{name} (or to {other}) {ratings.get(name, 0)}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _share(count: int, rows: int) -> str:
    return f"{count} of {rows} rows ({count / rows:.1%})"


def _problems(found: Inspection) -> Iterator[str]:
    for problem in found.problems[:_PROBLEMS_SHOWN]:
        yield visible(str(problem))
    more = len(found.problems) - _PROBLEMS_SHOWN
    if more > 0:
        yield f"and {more} more problems"


def _example(found: Inspection, *, colour: bool) -> Iterator[str]:
    how = "bright is learned, dim is only read" if colour else "[[learned]], the rest is only read"
    which = {True: ", rated good", False: ", rated bad", None: ""}[found.example_good]
    which += ", the better answer" if found.rejected else ""
    yield visible(f"example, {found.example_source}{which} ({how}):")
    yield _text(found.example, colour=colour)
    if found.rejected:
        yield "the worse answer:"
        yield _text(found.rejected, colour=colour)


def _prompt(found: Inspection) -> Iterator[str]:
    yield "chat, samples and rewards ask for this answer with:"
    yield _text([Piece(found.prompt, learned=False)], colour=False) or "(nothing: texts)"


def _text(pieces: Sequence[Piece], *, colour: bool) -> str:
    left = _SHOWN_CHARACTERS
    shown: list[str] = []
    for piece in pieces:
        shown.append(_marked(piece, visible(piece.text[:left]), colour=colour))
        left -= min(left, len(piece.text))
    cut = sum(len(piece.text) for piece in pieces) - _SHOWN_CHARACTERS
    return "".join(shown) + (f"\n({cut} more characters)" if cut > 0 else "")


def _marked(piece: Piece, text: str, *, colour: bool) -> str:
    if not text:
        return ""
    if colour:
        return f"{_BRIGHT if piece.learned else _DIM}{text}{_RESET}"
    return f"[[{text}]]" if piece.learned else text
