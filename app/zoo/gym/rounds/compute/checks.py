"""Checks of a round, and the comparison of a published report with the one computed again."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.compute.collect import refusals_text
from zoo.gym.rounds.compute.report import read_report, stored_file
from zoo.gym.rounds.life.opening import Opened
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.chunks import read_chunk
from zoo.gym.signing import PublicKey, canonical


@dataclass(frozen=True)
class Check:
    """One check of a round.

    Attributes:
        name: what was checked.
        detail: what was found.
        ok: whether it holds; None if it could not be made.
    """

    name: str
    detail: str
    ok: bool | None = True


def made(name: str, act: Callable[[], str]) -> Check:
    """Returns the check that an act makes.

    It fails where something is missing or other than expected; an error of the storage or of this
    machine is raised.
    """
    try:
        return Check(name, act())
    except (InputError, NotAvailableError) as error:
        return Check(name, error.message, ok=False)


def published_report(opened: Opened) -> Mapping[str, Any]:
    """Returns the report of a published result.

    Raises:
        NotAvailableError: it is missing.
        InputError: it is not the one of the result.
    """
    signed = next(
        entry
        for entry in (objects.decode(content) for content in reversed(opened.entries))
        if entry.context == objects.RESULT
    )
    report = read_report(read_chunk(opened.storage, str(signed.body["report"])))
    result = stored_file(report)
    if result.digest != signed.body["digest"] or report.get("round") != opened.state.id:
        raise InputError("report: expected the one of this result, got another")
    return report


def refuse_unlogged(refused: Mapping[PublicKey, str], state: State) -> None:
    """Refuses to find a contribution unfit that the log takes: its file was changed since.

    Raises:
        InputError: the first of them are named, with the reason.
    """
    unlogged = {key: why for key, why in refused.items() if key not in state.refused}
    if unlogged:
        said = refusals_text(unlogged)
        raise InputError(f"expected no refusals but those in the log, got {said}")


def compared(
    opened: Opened,
    read: Callable[[], Mapping[str, Any]],
    repeat: Callable[[], tuple[Mapping[str, Any], str]],
    shown: Mapping[str, str],
) -> Iterator[Check]:
    """Yields the checks of a round that is computed again.

    Args:
        opened: the round.
        read: returns the published report, its files fetched.
        repeat: computes the report again, empty without a result, and says in words of what.
        shown: the title of the check of each field, see `compared_fields`.
    """
    stored: dict[str, Any] = {}
    again: list[Mapping[str, Any]] = []

    def fetched() -> str:
        stored.update(read())
        return f"{stored['result']['bytes']} bytes"

    def computed() -> str:
        ours, said = repeat()
        again.append(ours)
        return said

    yield made("published files", fetched)
    yield made("contributions", computed)
    if not (stored and again):
        return
    if not again[0]:
        yield Check("kept lessons", "expected none, got a result", ok=False)
        return
    yield from compared_fields(again[0], stored, shown)
    logged = {str(key): reason for key, reason in opened.state.refused.items()}
    told = {one["key"]: one["reason"] for one in again[0]["refused"]}
    yield Check("refusals in the log", f"{len(logged)} refused", ok=logged == told)


def compared_fields(
    ours: Mapping[str, Any], stored: Mapping[str, Any], shown: Mapping[str, str]
) -> list[Check]:
    """Returns a check for each field of a report, and one that it has no other fields.

    Args:
        ours: the report as it is computed again.
        stored: the published one, whose format and round were checked when it was read.
        shown: the title of each check, by field.
    """
    assert ours.keys() == {*shown, "format", "round"}, "every field is compared"
    checks = [
        Check(title, short(ours[field], stored.get(field)), ok=same_field(ours, stored, field))
        for field, title in shown.items()
    ]
    more, less = sorted(stored.keys() - ours.keys()), sorted(ours.keys() - stored.keys())
    said = f"{len(ours)} of them"
    if more or less:
        said = f"expected {said}, got {_listed(more)} as well and {_listed(less)} missing"
    return [*checks, Check("fields of the report", said, ok=not more and not less)]


def same_field(ours: Mapping[str, Any], stored: Mapping[str, Any], field: str) -> bool:
    """Says whether both have the same JSON in a field: to Python, true, 1 and 1.0 are equal."""
    if field not in ours or field not in stored:
        return False
    return canonical(ours[field]) == canonical(stored[field])


def _listed(names: list[str]) -> str:
    return ", ".join(ascii(name)[:40] for name in names[:3]) or "none"


def short(ours: object, stored: object) -> str:
    """Returns what was computed, with what is published where that differs."""
    if ours == stored:
        return _in_words(ours)[:200]
    return f"expected {str(ours)[:150]}, got {str(stored)[:150]}"


def _in_words(value: object) -> str:
    """Returns what a field of a report has, for people."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"{len(value)} of them"
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        parts = (
            f"{key} of {len(one)}" if isinstance(one, dict) else f"{key} {one}"
            for key, one in named.items()
        )
        return ", ".join(parts)
    return str(value)
