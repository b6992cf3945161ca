"""Verification: everything that was changed after the fact is found, by the name of its check."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.lessons.conftest import Start
from tests.gym.rounds.lessons.world import GIL, GUS, GUY, IDLE, SIGN, UNITS, World
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG
from zoo.core import digest
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.library import Library
from zoo.gym.rounds.compute.publish import refusals_of, result_entry
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.lessons.result import publish_lessons
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.session.writing import writer_of
from zoo.gym.rounds.storage.chunks import chunk_name, describe, store
from zoo.gym.signing import OwnKey, canonical


def filled(start: Start) -> World:
    """A round before its result: of three contributions one is refused; two lessons are kept."""
    world = start()
    world.contribute(ALICE, UNITS, IDLE)
    world.contribute(BOB, SIGN)
    world.smuggle(CAROL, b"{}")
    world.reveal()
    world.measure({UNITS: 0.2, SIGN: 0.1, IDLE: -0.05}, [GUS, GIL, GUY])
    return world


def failed(world: World, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    return [one.name for one in verify(world.opened, folder) if one.ok is False]


@pytest.mark.slow
def test_all_checks_of_a_published_round_pass(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    publish_lessons(world.storage, LOG)
    (tmp_path / "eve").mkdir()
    checks = verify(world.opened, tmp_path / "eve")
    assert {one.name: one.ok for one in checks} == dict.fromkeys(
        [
            "signatures",
            "log",
            "witnesses",
            "published files",
            "contributions",
            "rule",
            "contributions that count",
            "refusals",
            "who measured",
            "evidence of each lesson",
            "rewards",
            "result",
            "fields of the report",
            "refusals in the log",
        ],
        True,
    )


def lie(world: World, change: Callable[[dict[str, Any]], None], library: Library | None) -> None:
    """Publishes another report, or another library, than what the round makes."""
    with writer_of(world.storage, LOG) as append:
        append.take()
        found = world.combined()
        file = found.file
        if library is not None:
            file = world.folder / "lie"
            write_library(file, library)
        assert file
        fields = {**found.fields, "result": vars(describe(file)[0])}
        change(fields)
        report = canonical(fields)
        store(file, world.storage)
        world.storage.write(chunk_name(digest(report)), report)
        result = result_entry(append.state, LOG, fields["result"]["digest"], report)
        append.add([*refusals_of(found.refused, append.state, LOG), result])


def nothing(fields: dict[str, Any]) -> None:
    """Changes nothing."""


def lesson(text: str, **changes: object) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        next(one for one in fields["lessons"] if one["text"] == text).update(changes)

    return change


LIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "rule": (lambda fields: fields["rule"].update(least=1), "rule"),
    "nobody": (lambda fields: fields["contributions"].pop(), "contributions that count"),
    "refused": (lambda fields: fields["refused"].clear(), "refusals"),
    "gates": (lambda fields: fields["gates"].pop(), "who measured"),
    "effect": (lesson(UNITS, effect=0.3), "evidence of each lesson"),
    "low": (lesson(UNITS, low=0.3), "evidence of each lesson"),
    "signer": (lesson(UNITS, signers=[]), "evidence of each lesson"),
    "kept": (lesson(IDLE, why=""), "evidence of each lesson"),
    "whose": (lesson(UNITS, contributor=str(BOB.public)), "evidence of each lesson"),
    "points": (
        lambda fields: fields["rewards"]["points"].update({str(BOB.public): 1000}),
        "rewards",
    ),
    "more": (lambda fields: fields.update(more=1), "fields of the report"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LIES)
def test_a_report_that_lies_fails_by_name(case: str, start: Start, tmp_path: Path) -> None:
    change, name = LIES[case]
    world = filled(start)
    lie(world, change, None)
    assert failed(world, tmp_path / "eve") == [name]


@pytest.mark.slow
def test_another_library_fails(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    lie(world, nothing, Library((), "m"))
    assert failed(world, tmp_path / "eve") == ["result"]
    with raises("rounds.other_result", "expected the published result"):
        publish_lessons(world.storage, LOG)


@pytest.mark.slow
def test_a_round_that_is_void_although_lessons_are_kept_fails(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    with writer_of(world.storage, LOG) as append:
        append(objects.VOID, reason="no lesson is kept")
    assert failed(world, tmp_path / "eve") == ["kept lessons"]


@pytest.mark.slow
def test_a_refusal_without_reason_fails(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    with writer_of(world.storage, LOG) as append:
        append(objects.REFUSAL, key=str(BOB.public), reason="I do not like it")
    publish_lessons(world.storage, LOG)
    assert failed(world, tmp_path / "eve") == ["refusals in the log"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["report", "result", "contribution"])
def test_a_changed_file_fails(what: str, start: Start, tmp_path: Path) -> None:
    world = filled(start)
    found = publish_lessons(world.storage, LOG)
    names = {
        "report": digest(found.report),
        "result": found.fields["result"]["digest"],  # one chunk: the file's own digest
        "contribution": world.opened.state.reveals[ALICE.public].digest,
    }
    path = world.storage.folder / chunk_name(names[what])
    path.write_bytes(path.read_bytes()[:-2] + b"x\n")
    name = "contributions that count" if what == "contribution" else "published files"
    assert failed(world, tmp_path / "eve")[0] == name


@pytest.mark.slow
def test_a_result_that_is_gone_leaves_the_report_compared(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    result = publish_lessons(world.storage, LOG)
    (world.storage.folder / chunk_name(result.fields["result"]["digest"])).unlink()
    (tmp_path / "eve").mkdir()
    checks = {check.name: check.ok for check in verify(world.opened, tmp_path / "eve")}
    assert (checks["published files"], checks["rewards"], checks["result"]) == (False, True, True)


@pytest.mark.slow
def test_a_record_that_was_changed_makes_the_log_invalid(start: Start) -> None:
    world = filled(start)
    publish_lessons(world.storage, LOG)
    changed = 0
    for path in (world.storage.folder / "log/tile/entries").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            path.write_bytes(content.replace(b'"effect":0.2', b'"effect":0.4'))
            changed += path.read_bytes() != content
    assert changed
    with raises("rounds.bad_tile", "log"):
        _ = world.opened


@pytest.mark.slow
def test_the_order_of_records_changes_nothing(start: Start) -> None:
    reports: list[object] = []
    for pool, who in enumerate(((GUS, GIL, GUY), (GUY, GIL, GUS)), 1000):
        world = start(pool=pool)  # another round on the same machine
        world.contribute(ALICE, UNITS)
        world.reveal()
        for key in who:
            world.measure({UNITS: 0.2 if key is GIL else 0.1}, [key])
        reports.append(world.combined().fields["lessons"])
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_file_uploaded_after_the_result_changes_nothing(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    name = chunk_name(world.opened.state.reveals[CAROL.public].chunks)
    late = world.storage.read(name) or b""
    (world.storage.folder / name).unlink()
    publish_lessons(world.storage, LOG)
    (world.storage.folder / name).write_bytes(late)
    assert failed(world, tmp_path / "eve") == []
    assert publish_lessons(world.storage, LOG).refused == world.opened.state.refused


@pytest.mark.slow
def test_a_result_that_was_lost_is_stored_again(start: Start, tmp_path: Path) -> None:
    world = filled(start)
    before = set(world.storage.names("chunks"))
    publish_lessons(world.storage, LOG)
    for name in set(world.storage.names("chunks")) - before:
        (world.storage.folder / name).unlink()
    assert failed(world, tmp_path / "lost") != []
    publish_lessons(world.storage, LOG)
    assert failed(world, tmp_path / "eve") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "by", "wanted"),
    [
        ("no lesson is kept", (GUS, GIL), ("kept lessons", True, "none of 1 lesson")),
        ("no lesson is kept", (GUS,), ("kept lessons", False, "expected measurements by 2 keys, ")),
        ("no", (), ("void", None, "there is no result, by the word of the log's writer alone: no")),
    ],
)
def test_a_void_round_says_whether_its_log_shows_why(
    reason: str,
    by: tuple[OwnKey, ...],
    wanted: tuple[str, bool | None, str],
    start: Start,
    tmp_path: Path,
) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: -0.05}, by)
    with writer_of(world.storage, LOG) as append:
        append(objects.VOID, reason=reason)
    check = list(verify(world.opened, tmp_path))[-1]
    assert (check.name, check.ok) == wanted[:2]
    assert check.detail.startswith(wanted[2])
