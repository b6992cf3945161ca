"""`zoo-gym runs diff`: how two runs differ."""

from collections.abc import Iterator
from dataclasses import asdict

from zoo.gym import jobs
from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.config.items import value_text
from zoo.gym.errors import InputError
from zoo.gym.humanize import figure

_SAME = {True: "the same", False: "not the same", None: "unknown: a run has no digest of it"}


def diff(first: str, second: str, /, *, as_json: Json = False) -> int:
    """Compares two runs: settings that differ, figures side by side, and their data and base.

    Args:
        first: a run's id such as r0001, its name, or last
        second: another run
        as_json: print one JSON object as stdout's last line
    """
    out, runs = Output(as_json), (jobs.open_run(first), jobs.open_run(second))
    comparison = jobs.compare(*runs)
    if comparison.fault is not None:
        raise InputError(comparison.fault, code="cli.config_damaged")
    first, second = (run.name or run.id for run in runs)
    for line in _lines(first, second, comparison):
        out.answer(line)
    out.result({"runs": [run.id for run in runs]} | asdict(comparison))
    return 0


def _lines(first: str, second: str, comparison: jobs.Comparison) -> Iterator[str]:
    yield f"data       {_SAME[comparison.same_data]}"
    yield f"base       {_SAME[comparison.same_base]}"
    for title, pairs in (("settings", comparison.settings), ("figures", comparison.figures)):
        if pairs:
            yield f"{title:<30} {first:>20} {second:>20}"
        else:
            yield f"{title:<30} {'none differ' if title == 'settings' else 'none'}"
        for key, values in pairs.items():
            yield f"  {key:<28} " + " ".join(f"{_shown(value):>20}" for value in values)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return figure(value) if isinstance(value, float) else value_text(value)
