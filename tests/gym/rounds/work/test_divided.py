"""A divided computation gives the bytes of one process, whatever happens to the workers."""

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.gym.rounds.work.conftest import Server
from tests.gym.rounds.work.crew import DIGESTS, ROUND, TENSORS, parts_of
from zoo.gym.errors import InputError
from zoo.gym.rounds.forms.base import Contributions, Piece
from zoo.gym.rounds.forms.floats import Floats
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import AggregationMethod, Rule
from zoo.gym.rounds.work import divided as divided_module
from zoo.gym.rounds.work.divided import Divided, DividedContributions
from zoo.gym.rounds.work.jobs import groups_of
from zoo.gym.rounds.work.postgres import postgres_queue
from zoo.gym.rounds.work.queue import Progress, scope_of
from zoo.gym.rounds.work.sqlite import sqlite_queue

NAMES = [tensor.name for tensor in TENSORS]
RULES = {
    "default": Rule(AggregationMethod.BYZANTINE_ROBUST, 2),
    "columns": Rule(AggregationMethod.TRIMMED_MEAN, 2),
    "mixed columns": Rule(AggregationMethod.MEDIAN, 2, mixed=True),
    "bulyan": Rule(AggregationMethod.BULYAN, 1),
    "norm clip": Rule(AggregationMethod.NORM_CLIP),
}


def divided(path: Path, form: str, columns: int = 3000, lease_s: float = 60) -> Divided:
    return Divided(
        lambda: sqlite_queue(path),
        ROUND,
        TENSORS,
        lambda _, names: parts_of(form, names),
        threads=1,
        columns=columns,
        lease_s=lease_s,
    )


def whole(form: str, rule: Rule) -> tuple[bytes, bytes]:
    """Returns Gram matrix and result as one process computes them."""
    contributions = parts_of(form, NAMES)
    selection = select(rule, contributions, threads=1)
    return contributions.gram(threads=1).tobytes(), _bytes(combine(selection, contributions))


def by_tasks(engine: Divided, form: str, rule: Rule) -> tuple[bytes, bytes]:
    gram = engine.gram(DIGESTS)
    selection = select(rule, parts_of(form, NAMES), gram=gram, threads=1)
    return gram.tobytes(), _bytes(engine.combine(DIGESTS, selection))


def _bytes(pieces: Iterator[Piece]) -> bytes:
    return b"".join(piece.values.tobytes() for piece in pieces)


def test_rules_see_divided_contributions_as_any_other(tmp_path: Path) -> None:
    rule = RULES["default"]
    here = parts_of("signs", NAMES)
    there = DividedContributions(here, DIGESTS, divided(tmp_path / "q.db", "signs"))
    selection = select(rule, there)
    assert _bytes(combine(selection, there)) == whole("signs", rule)[1]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("form", ["signs", "lowrank", "float"])
def test_tasks_give_the_bytes_of_one_process(form: str, rule: Rule, tmp_path: Path) -> None:
    assert by_tasks(divided(tmp_path / "q.db", form), form, rule) == whole(form, rule)


def test_the_size_of_tasks_changes_no_byte(tmp_path: Path) -> None:
    found = [divided(tmp_path / f"{n}.db", "float", n).gram(DIGESTS) for n in (1, 3000, 10**9)]
    assert all(np.array_equal(found[0], one) for one in found)


def test_a_value_that_no_sum_survives_is_reported_with_its_tensor(tmp_path: Path) -> None:
    def broken(_: Sequence[str], names: Sequence[str]) -> Contributions:
        found = parts_of("float", names)
        assert isinstance(found, Floats)
        if "layer.3" in names:
            found.tensors["layer.3"][2][5] = np.nan
        return found

    engine = replace(divided(tmp_path / "q.db", "float", columns=1), parts=broken)
    with pytest.raises(InputError, match=r"tensor 'layer.3'.*contribut"):
        engine.gram(DIGESTS)


Forge = Callable[[bytes], bytes]

OTHER: dict[str, Forge] = {
    "gram": lambda whole: bytes(len(whole)),
    "combine": lambda whole: np.full(len(whole) // 4, -100, "<f4").tobytes(),
}
NO_RESULT: dict[str, tuple[str, Forge]] = {
    "a short matrix": ("gram", lambda whole: whole[:3]),
    "short values": ("combine", lambda whole: whole[:3]),
    "NaN": ("combine", lambda whole: np.full(len(whole) // 4, np.nan, "<f4").tobytes()),
}


@pytest.mark.parametrize(
    ("kind", "forge", "first"),
    [
        *(pytest.param(kind, forge, 0, id=f"all of {kind}") for kind, forge in OTHER.items()),
        *(pytest.param(*one, 1, id=what) for what, one in NO_RESULT.items()),
    ],
)
def test_results_that_nobody_computed_are_refused_and_leave_the_queue(
    kind: str, forge: Forge, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task 0 is computed again: what is no result at all is found in the others, too."""

    def draw(below: int) -> int:
        return 0

    monkeypatch.setattr(divided_module, "randbelow", draw)
    engine, rule = divided(tmp_path / "q.db", "float"), RULES["default"]

    def write(at: str, progress: Progress) -> None:
        """Replaces results as one can who writes into the file."""
        if at != kind or not progress.ended:
            return
        with sqlite3.connect(tmp_path / "q.db") as file:
            rows = file.execute("SELECT job, number, content FROM tasks").fetchall()
            for job, number, content in rows[first:]:
                file.execute(
                    "UPDATE tasks SET content = ? WHERE job = ? AND number = ?",
                    (forge(content), job, number),
                )

    with pytest.raises(InputError, match=f"queue: {kind}: task .*expected"):
        by_tasks(replace(engine, watch=write), "float", rule)
    assert by_tasks(engine, "float", rule) == whole("float", rule)


@pytest.mark.parametrize("description", [b"\xff", b"[]", b'{"format": "zoo-gym work 1"}'])
def test_a_job_that_is_none_holds_nobody_up(description: bytes, tmp_path: Path) -> None:
    queue = sqlite_queue(tmp_path / "q.db")
    queue.add(scope_of(ROUND) + "stray", description, 1)
    engine, rule = divided(tmp_path / "q.db", "float"), RULES["default"]
    assert by_tasks(engine, "float", rule) == whole("float", rule)
    (error,) = queue.progress(scope_of(ROUND) + "stray").errors
    assert error == "job: expected a description of a job, got other bytes"


def test_tensors_are_grouped_in_order() -> None:
    groups = groups_of(TENSORS, 3000)
    assert [name for group in groups for name in group] == NAMES
    assert len(groups) == 3


@pytest.mark.slow
def test_workers_that_are_killed_change_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    expected = whole("float", RULES["default"])
    chance = random.Random(0)
    for _ in range(5):
        with crew_of(2, "sqlite", str(path), "float") as crew:

            def kill(kind: str, progress: Progress, crew: list[Worker] = crew) -> None:
                if chance.random() < 0.5:
                    crew[chance.randrange(2)].send_signal(signal.SIGKILL)

            engine = divided(path, "float", columns=1, lease_s=1)
            found = by_tasks(replace(engine, watch=kill), "float", RULES["default"])
        assert found == expected


@pytest.mark.slow
def test_a_server_that_restarts_in_the_middle_changes_no_byte(postgres: Server) -> None:
    expected = whole("float", RULES["default"])
    restarted: list[str] = []

    def restart(kind: str, progress: Progress) -> None:
        if kind not in restarted:
            restarted.append(kind)
            postgres.stop()
            postgres.start()

    engine = replace(
        divided(Path(), "float", columns=1, lease_s=1),
        open_queue=lambda: postgres_queue(postgres.address),
        watch=restart,
        helps=False,
    )
    with crew_of(2, "postgres", postgres.address, "float") as crew:
        assert by_tasks(engine, "float", RULES["default"]) == expected
        assert [one.poll() for one in crew] == [None, None]
    assert restarted == ["gram", "combine"]


Worker = subprocess.Popen[bytes]


@contextmanager
def crew_of(count: int, *words: str) -> Generator[list[Worker]]:
    """Yields worker processes that have begun."""
    command = [sys.executable, "-m", "tests.gym.rounds.work.crew", *words, "1"]
    crew = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for one in crew:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"
        yield crew
    finally:
        for one in crew:
            one.kill()
            one.communicate()
