"""Who may sign which entry of a log, and in which phases."""

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import (
    ALICE,
    GATE,
    LOG,
    close,
    commit,
    digest_of,
    reveal,
    terms,
)
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.objects import body_of
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.signing import OwnKey, Signed, sign

ROUND = digest_of("round")
ENTRIES = {
    "commit": commit(ALICE, ROUND, "a"),
    "close commit": close(ROUND, "commit"),
    "close reveal": close(ROUND, "reveal"),
    "lot": sign(LOG, objects.LOT, body_of(ROUND, nonce=digest_of("nonce"))),
    "reveal": reveal(ALICE, ROUND, "a"),
    "refusal": sign(LOG, objects.REFUSAL, body_of(ROUND, key=str(ALICE.public), reason="junk")),
    "record": sign(GATE, objects.RECORD, body_of(ROUND, kind="gate", values={})),
    "result": sign(
        LOG, objects.RESULT, body_of(ROUND, digest=digest_of("a"), report=digest_of("b"))
    ),
}
PHASES = {
    "commit": {"commit"},
    "close commit": {"commit"},
    "close reveal": {"reveal"},
    "lot": {"reveal", "compute"},
    "reveal": {"reveal"},
    "refusal": {"reveal", "compute"},
    "record": {"compute"},
    "result": {"compute"},
}


def state(phase: str) -> State:
    return State(ROUND, terms(), Phase(phase))


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_comes_in_its_phases_only(name: str) -> None:
    for phase in Phase:
        code = None
        try:
            state(phase).after(ENTRIES[name])
        except InputError as error:
            code = error.code
        assert (code == "rounds.wrong_phase") is (phase not in PHASES[name]), (phase, code)


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in {"commit", "reveal"}])
def test_an_entry_of_a_role_is_signed_by_its_keys_only(name: str) -> None:
    entry, phase = ENTRIES[name], min(PHASES[name])
    for other in {ALICE, GATE, LOG} - {GATE if name == "record" else LOG}:
        with raises("rounds.other_role"):
            state(phase).after(sign(other, entry.context, dict(entry.body)))


@pytest.mark.parametrize("phase", Phase)
def test_a_round_that_has_not_ended_is_made_void_by_its_log_only(phase: str) -> None:
    def void(who: OwnKey) -> Signed:
        return sign(who, objects.VOID, body_of(ROUND, reason="lost"))

    with raises("rounds.other_role"):
        state(phase).after(void(GATE))
    if phase in {"published", "void"}:
        with raises("rounds.ended_already"):
            state(phase).after(void(LOG))
    else:
        assert state(phase).after(void(LOG)).phase is Phase.VOID
