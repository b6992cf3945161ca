"""`zoo.gym.client.Client` in a round on a server: nothing is sent before it is said."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.compute.conftest import run_round
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG, person, use
from tests.gym.rounds.server.world import World
from zoo.gym import AggregationMethod, DeltaSoupConfig
from zoo.gym.client import Client, Contributed
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.paths import folders
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.server.run import CommunityLearningServer
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, take, void_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.http import keep_token, open_storage
from zoo.gym.signing import OwnKey, own_key

MODEL_FOLDER = "zoo.gym.published.client.model_folder"
"""Finds a base by name; no hub has `tiny`."""


@pytest.fixture
def client(world: World, base: Path, manifest: Manifest) -> Client:
    assert manifest.base.model == "tiny"
    return Client(node_url=world.storage.address)


def offer(client: Client, base: Path, source: Path, *, send: bool) -> Contributed:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODEL_FOLDER, lambda name, value: base)
        return client.contribute_improvement("ann", "tiny", improvement_data=source, send=send)


@pytest.mark.slow
def test_nothing_is_written_before_send_and_the_weights_follow_in_their_phase(
    world: World, client: Client, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, before = fine_tune(tmp_path / "tuned", 1), world.files()
    assert offer(client, base, source, send=False).receipt is None
    assert world.files() == before
    found = offer(client, base, source, send=True)
    assert (found.phase, str(found.receipt).startswith("inbox/")) == ("commit", True)
    assert offer(client, base, source, send=False).receipt == found.receipt, "it was sent before"
    assert world.storage.names("chunks") == []
    close_phase(world.storage, LOG)  # extended: one of two
    home = os.environ["ZOO_GYM_HOME"]
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "another"))
    keep_token(world.server.url, next(iter(world.server.tokens.values())))
    offer(client, base, fine_tune(tmp_path / "second", 2), send=True)
    monkeypatch.setenv("ZOO_GYM_HOME", home)
    assert close_phase(world.storage, LOG).phase == "reveal"
    assert offer(client, base, source, send=False).receipt is None
    assert world.storage.names("chunks") == []
    with raises("rounds.other_file", "expected the contribution that you committed to"):
        offer(client, base, tmp_path / "second", send=True)
    with raises("tuned.no_such_source"):
        offer(client, base, Path("nothing"), send=True)
    with raises("published.other_examples", "examples: expected 0, as you committed, got 5"):
        client.contribute_improvement("ann", str(base), examples=5)
    assert world.storage.names("chunks") == []
    assert offer(client, base, source, send=True).phase == "reveal"
    assert len(world.storage.names("chunks")) == 2  # the file and its list
    assert own_key().public in open_round(world.storage).state.commits


@pytest.mark.slow
def test_a_base_may_be_a_folder_whose_tensors_are_compared(
    client: Client, base: Path, tmp_path: Path
) -> None:
    source = fine_tune(tmp_path / "tuned", 3)
    found = client.contribute_improvement("ann", str(base), improvement_data=source)
    assert found.phase == "commit"
    with raises("published.wrong_base", "expected the base of the round, got another"):
        client.contribute_improvement("ann", str(source), improvement_data=source)


REFUSED: dict[str, tuple[dict[str, Any], type[GymError], str]] = {
    "another base": ({"base_model": "zen-pico"}, InputError, "expected tiny, the base of the"),
    "another rule": (
        {"config": DeltaSoupConfig(method=AggregationMethod.KRUM)},
        InputError,
        "method: expected mean",
    ),
    "a setting of the maker": (
        {"config": DeltaSoupConfig(reward_pool=5)},
        InputError,
        "config.reward_pool: expected none",
    ),
    "examples that nobody counts": ({"examples": 5}, InputError, "examples: expected none, got 5"),
    "no run yet": ({"improvement_data": None}, NotAvailableError, "last: expected a run"),
    "a missing one": ({"improvement_data": "nothing"}, NotAvailableError, "expected a run"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_round_is_not_about_is_refused(
    case: str, client: Client, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more, kind, said = REFUSED[case]
    monkeypatch.setattr(MODEL_FOLDER, lambda name, value: base)
    options = {"user_id": "ann", "base_model": "tiny", "improvement_data": str(base), **more}
    with pytest.raises(kind, match=said):
        client.contribute_improvement(**options)


@pytest.mark.slow
def test_a_federated_average_takes_a_number_of_examples(
    server: CommunityLearningServer, address: str, manifest: Manifest, base: Path, tmp_path: Path
) -> None:
    terms, source = {"method": "federated_average"}, fine_tune(tmp_path / "tuned", 1)
    create_round(open_storage(address), manifest.model_copy(update=terms), LOG)
    client = Client(node_url=address)
    with raises("rounds.examples_missing", "examples: expected 1 to 2"):
        client.contribute_improvement("ann", str(base), improvement_data=source)
    client.contribute_improvement("ann", str(base), improvement_data=source, examples=7)
    (about,) = (folders().data / "rounds" / "own").rglob("about.json")
    assert json.loads(about.read_text()) == {"examples": 7}


def test_other_modes_and_too_few_contributors_are_refused(client: Client) -> None:
    with raises("published.bad_argument", "inference_mode: expected 'local'"):
        Client(inference_mode="cloud")  # type: ignore[arg-type]
    with raises("published.too_few", "expected at least 10, got 0") as caught:
        client.aggregate_community_improvements("tiny", 10)
    assert "the round's quorum counts: 2" in str(caught.value.hint)


def revealed(
    storage: FolderStorage,
    base: Path,
    folder: Path,
    manifest: Manifest,
) -> Client:
    """Returns the maker's client of a round of four reveals, of which two are copies."""
    alice, bob = (fine_tune(folder / f"tuned{seed}", seed) for seed in (1, 2))
    copies = {person(f"copy {number}"): alice for number in (1, 2)}
    terms = manifest.model_copy(update={"most": 9})
    run_round(storage, base, {ALICE: alice, BOB: bob, **copies}, terms)
    use(LOG)
    return Client(node_url=str(storage.folder))


@pytest.mark.slow
def test_copies_are_none_of_the_contributors_that_a_result_needs(
    storage: FolderStorage,
    base: Path,
    manifest: Manifest,
    tmp_path: Path,
) -> None:
    client = revealed(storage, base, tmp_path, manifest)
    for least in (4, 3):
        with raises("rounds.too_few", f"at least {least} that count, got 2: refused"):
            client.aggregate_community_improvements(str(base), least)
    assert open_round(storage).state.phase is Phase.COMPUTE
    found = client.aggregate_community_improvements(str(base))  # the quorum, 2
    assert (found.contributors, len(found.refused)) == (2, 2)
    with raises("rounds.too_few", "at least 3 that count, got 2"):
        client.aggregate_community_improvements(str(base), 3)


Send = Callable[[OwnKey], Contributed]


@pytest.fixture
def committed(
    storage: FolderStorage,
    base: Path,
    manifest: Manifest,
    tmp_path: Path,
) -> Send:
    """Brings a round of three commitments to its reveals; returns the call of each of them."""
    people = (ALICE, BOB, CAROL)
    tuned = {who: fine_tune(tmp_path / str(seed), seed) for seed, who in enumerate(people, 1)}
    create_round(storage, manifest, LOG)
    client = Client(node_url=str(storage.folder))

    def send(who: OwnKey) -> Contributed:
        use(who)
        source = tuned.get(who, tuned[ALICE])
        return client.contribute_improvement("me", str(base), improvement_data=source, send=True)

    for who in people:
        send(who)
    assert close_phase(storage, LOG).phase is Phase.REVEAL
    return send


def files(storage: FolderStorage) -> dict[Path, int]:
    found = (path for path in storage.folder.rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in found}


@pytest.mark.slow
def test_who_did_not_reveal_in_time_gets_no_receipt(
    storage: FolderStorage, committed: Send
) -> None:
    for who in (BOB, CAROL):
        committed(who)
    assert close_phase(storage, LOG).phase is Phase.COMPUTE
    for phase in ("compute", "published"):
        said = f"expected phase reveal, got {phase}: you committed already, and did not reveal in"
        with raises("rounds.other_phase", said):
            committed(ALICE)
        publish(storage, LOG)


@pytest.mark.slow
def test_who_revealed_has_that_receipt_in_later_phases_and_sends_nothing(
    storage: FolderStorage, committed: Send
) -> None:
    sent = {who: committed(who).receipt for who in (BOB, CAROL)}
    take(storage, LOG)
    close_phase(storage, LOG)
    for phase in ("compute", "published"):
        before = files(storage)
        found = committed(BOB)
        assert (found.phase, found.receipt, files(storage)) == (phase, sent[BOB], before)
        publish(storage, LOG)


@pytest.mark.slow
def test_who_comes_after_the_commitments_is_too_late(
    storage: FolderStorage, committed: Send
) -> None:
    with raises("rounds.other_phase", "expected phase commit, got reveal"):
        committed(person("late"))


@pytest.mark.slow
def test_a_void_round_takes_no_reveal_and_blames_nobody_for_it(
    storage: FolderStorage, committed: Send
) -> None:
    void_round(storage, LOG, "enough")
    with raises("rounds.other_phase", r"expected phase reveal, got void$"):
        committed(ALICE)
