"""The lines of a report: how it was measured, the figures, differences, and what went wrong."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from zoo.gym.evaluate.results import Result, compare
from zoo.gym.evaluate.stored import figure_of
from zoo.gym.humanize import counted

_WRONG = {
    "cut": "cut at {tokens} tokens: --max_new_tokens for longer ones",
    "unanswered": "not answered, counted as wrong: {why}",
    "empty": "empty",
    "unscored": "could not be scored, counted as wrong",
    "tied": "have several likeliest choices, counted by the share of right ones",
}


def report_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yields the lines about one measure of several sources, the first of which is compared with.

    Example:
        gsm8k: 8 rows, sha256 17f347dc5147
          5 shots, greedy, at most 512 tokens; graded by numeric
          zen-pico  0.0 % (95 % 0.0 to 32.4)
    """
    measure = results[0].measure
    yield f"{measure.title}: {counted(len(measure.items), 'row')}, sha256 {measure.digest[:12]}"
    yield f"  {measure.asked}; {measure.graded_by}"
    width = max(len(result.source) for result in results)
    for result in results:
        yield f"  {result.source:<{width}}  {figure_of(result.as_json())}  [{result.form}]"
        yield from (f"  {'':<{width}}  {text}" for text in problems(result))
    for other in results[1:]:
        comparison = compare(results[0], other)
        yield f"  {other.source} against {results[0].source}: {comparison.sentence()}"


def equal_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yields a warning for each two sources that gave the same in every row."""
    for first, second in combinations(results, 2):
        comparison = compare(first, second)
        if comparison.same == comparison.rows:
            same = f"{comparison.same} of {comparison.rows}"
            yield (
                f"warning: {first.measure.name}: the answers of {second.source} equal those of "
                f"{first.source} in {same} rows: it may not be what you trained"
            )


def problems(result: Result) -> Iterator[str]:
    """Yields what went wrong with answers, with how many."""
    why = next((str(line["error"]) for line in result.lines if "error" in line), "")
    for key, words in _WRONG.items():
        if count := result.counts[key]:
            text = words.format(tokens=result.measure.max_new_tokens, why=why)
            yield f"{count:,} of {len(result.lines):,} {text}"


def as_json(groups: Sequence[Sequence[Result]]) -> dict[str, object]:
    """Returns the whole report as JSON."""
    return {
        "results": [result.as_json() for results in groups for result in results],
        "comparisons": [
            {"task": results[0].measure.name, **compare(results[0], other).as_json()}
            for results in groups
            for other in results[1:]
        ],
    }
