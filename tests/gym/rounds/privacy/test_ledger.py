"""The ledger: spent before the noise is drawn, added up over rounds, never given back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.paths import folders
from zoo.gym.rounds.privacy import ledger
from zoo.gym.rounds.privacy.ledger import Spending
from zoo.gym.rounds.protocol.privacy import sigma_for

ONE = Spending(1.0, 1e-6, sigma_for(1.0, 1e-6))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


def test_four_rounds_add_up_to_what_the_account_says() -> None:
    for number in range(4):
        assert ledger.spend(f"round {number}", ["ann", "ben"], ONE) == 1
    ledger.spend("round 9", ["ann"], Spending(0.5, 1e-9, 100.0))
    ann, ben = ledger.all_spent()
    assert (ben.contributor, ben.rounds, ben.draws, ben.delta) == ("ben", 4, 4, 1e-6)
    assert ben.epsilon == pytest.approx(2.12, abs=5e-3)
    assert ann.rounds == 5
    assert ann.epsilon > ben.epsilon
    assert ledger.all_spent("ben") == [ben]


def test_a_second_draw_of_a_round_spends_again() -> None:
    assert [ledger.spend("r", ["ann"], ONE), ledger.spend("r", ["ann"], ONE)] == [1, 2]
    (ann,) = ledger.all_spent()
    assert (ann.rounds, ann.draws) == (1, 2)
    assert ann.epsilon == pytest.approx(1.45, abs=5e-3)


def test_contributors_note_is_the_first_draw() -> None:
    ledger.note_own("r", "ann", ONE)
    ledger.note_own("r", "ann", ONE)
    assert ledger.spend("r", ["ann", "ben"], ONE) == 1
    assert [one.draws for one in ledger.all_spent()] == [1, 1]


def test_a_settled_draw_names_its_report_once() -> None:
    number = ledger.spend("r", ["ann"], ONE)
    assert ledger.report_of("r") is None
    ledger.settle("r", number, "digest")
    assert ledger.report_of("r") == "digest"
    assert ledger.report_of("another") is None


def test_a_damaged_ledger_is_an_error_and_no_empty_one() -> None:
    ledger.spend("r", ["ann"], ONE)
    path = folders().data / "rounds" / "privacy.sqlite3"
    path.write_bytes(b"no database at all, but long enough to be read as one" * 20)
    with raises("rounds.ledger_failed") as caught:
        ledger.spend("r", ["ann"], ONE)
    assert caught.value.code == "rounds.ledger_failed"


CHILD = """
import sys
from zoo.gym.rounds.privacy import ledger
from zoo.gym.rounds.privacy.ledger import Spending
number = 0
while True:
    number += 1
    ledger.spend(f"{sys.argv[1]} {number}", ["ann"], Spending(1.0, 1e-6, 4.0))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_no_acknowledged_spending_is_lost_to_kill_9() -> None:
    spent = 0
    for attempt in range(10):
        command = [sys.executable, "-c", CHILD, str(attempt)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as child:
            assert child.stdout
            said = [int(child.stdout.readline()) for _ in range(20)]
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split()
        spent += int(rest[-1]) if rest else said[-1]
        (ann,) = ledger.all_spent()
        assert ann.rounds >= spent
