"""What is checked of a published round of lessons: everything is computed again and compared."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.rounds.compute.checks import Check, compared, made, published_report
from zoo.gym.rounds.compute.report import stored_file
from zoo.gym.rounds.lessons.result import NOTHING_KEPT, Combined, combine
from zoo.gym.rounds.lessons.terms import terms_of
from zoo.gym.rounds.life.opening import Opened
from zoo.gym.rounds.storage.chunks import fetch

PUBLISHED = "published.json"
"""The published library, in the folder of a round."""

_SHOWN = {
    "rule": "rule",
    "contributions": "contributions that count",
    "refused": "refusals",
    "gates": "who measured",
    "lessons": "evidence of each lesson",
    "rewards": "rewards",
    "result": "result",
}


def lesson_checks(opened: Opened, folder: Path) -> Iterator[Check]:
    """Returns the checks of a published round of lessons.

    Args:
        opened: the round.
        folder: of the round on this machine.
    """

    def read() -> Mapping[str, Any]:
        report = published_report(opened)
        fetch(stored_file(report), opened.storage, folder / PUBLISHED)
        return report

    def repeat() -> tuple[Mapping[str, Any], str]:
        found = combine(opened.state, opened.storage, folder)
        return found.fields, _counts(found)

    return compared(opened, read, repeat, _SHOWN)


def void_check(opened: Opened, folder: Path) -> Check | None:
    """Returns the check of a round that is void because no lesson is kept; None of another one.

    Args:
        opened: the round.
        folder: of the round on this machine.
    """

    def repeat() -> str:
        least, measured = terms_of(opened.manifest).least, len(opened.state.measured.lessons)
        if measured < least:  # without measurements no lesson is kept of any round
            raise InputError(f"expected measurements by {counted(least, 'key')}, got {measured}")
        found = combine(opened.state, opened.storage, folder)
        if found.kept:
            raise InputError(f"expected no lesson that is kept, got {found.kept}")
        return f"none of {counted(len(found.judged), 'lesson')}"

    return made("kept lessons", repeat) if opened.state.reason == NOTHING_KEPT else None


def _counts(found: Combined) -> str:
    """Returns how many lessons there are, how many are kept, and of these what was not measured."""
    late = {item.id for left in found.late.values() for item in left}
    early = f", {len(late)} of them before all keys of role gate measured" if late else ""
    return f"{counted(len(found.judged), 'lesson')}, {found.kept} kept{early}"
