"""What every storage does in the same way: a folder, a server, a bucket."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import ALICE, BOB, LOG, NEWCOMERS
from zoo.core import digest
from zoo.gym.errors import StorageError
from zoo.gym.rounds.log.reader import CHECKPOINT
from zoo.gym.rounds.log.writer import LogWriter
from zoo.gym.rounds.payouts.reputation import write_standings
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, Newcomers, manifest_body
from zoo.gym.rounds.session.opening import MANIFEST, open_round
from zoo.gym.rounds.session.writing import create_round, leave, log_writer, take
from zoo.gym.rounds.storage import chunks
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import chunk_name, fetch, store
from zoo.gym.signing import OwnKey, Signed, sign


def commitment(round_: str, who: OwnKey) -> Signed:
    return sign(who, objects.COMMIT, objects.body_of(round_, commitment=who.public.raw.hex()))


def test_what_was_written_is_read_and_can_be_written_again(
    place: Storage, manifest: Manifest
) -> None:
    create_round(place, manifest, LOG)
    name = chunk_name(digest(b"some bytes"))
    assert (place.read(name), place.size(name)) == (None, None)
    for _ in range(2):
        place.write(name, b"some bytes")
        assert (place.read(name), place.size(name)) == (b"some bytes", 10)
    assert place.names("chunks") == [name]


def test_other_bytes_under_a_name_are_refused(place: Storage, manifest: Manifest) -> None:
    create_round(place, manifest, LOG)
    before = place.read(MANIFEST)
    other = manifest_body(manifest.model_copy(update={"pool": 5}))
    with pytest.raises(StorageError, match=r"expected (no round|nothing or the same)"):
        place.write(MANIFEST, objects.encode(sign(LOG, objects.MANIFEST, other)))
    assert place.read(MANIFEST) == before


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", ".x", "A", "a b", "a/..", "", "x" * 201])
def test_a_name_that_is_no_safe_path_is_refused(place: Storage, name: str) -> None:
    def write(given: str) -> None:
        place.write(given, b"x")

    acts: list[Callable[[str], object]] = [place.read, place.size, write]
    for act in acts:
        with raises("rounds.bad_name") as caught:
            act(name)
        assert caught.value.code == "rounds.bad_name"


def test_more_bytes_than_a_file_may_have_are_refused(place: Storage) -> None:
    with raises("rounds.too_many_bytes", "expected at most 16777216 bytes"):
        place.write("chunks/00/" + 64 * "0", bytes((16 << 20) + 1))


def test_a_round_starts_with_the_standings_of_an_earlier_one(
    place: Storage, manifest: Manifest
) -> None:
    standings = write_standings({})
    terms = Newcomers.model_validate({**NEWCOMERS, "standings": digest(standings)})
    create_round(place, manifest.model_copy(update={"newcomers": terms}), LOG, standings)
    assert place.read(chunk_name(digest(standings))) == standings
    assert open_round(place).manifest.newcomers == terms


def test_names_are_sorted_and_only_those_below_a_folder(place: Storage, manifest: Manifest) -> None:
    round_ = create_round(place, manifest, LOG)
    left = [leave(place, commitment(round_, who)) for who in (ALICE, BOB)]
    assert place.names("inbox") == sorted(left)
    assert place.names("chunks") == []
    assert CHECKPOINT in place.names("log")


@pytest.mark.slow
def test_a_log_grows_and_is_read_by_others(place: Storage, manifest: Manifest) -> None:
    round_ = create_round(place, manifest, LOG)
    for count, who in enumerate((ALICE, BOB), 1):
        leave(place, commitment(round_, who))
        assert len(take(place, LOG).added) == 1
        assert len(open_round(place).state.commits) == count


@pytest.mark.slow
def test_a_writer_who_was_overtaken_changes_nothing(place: Storage, manifest: Manifest) -> None:
    round_ = create_round(place, manifest, LOG)
    slow = writer(place, round_)
    leave(place, commitment(round_, ALICE))
    take(place, LOG)
    with raises("rounds.log_overtaken"):
        slow.append([objects.encode(commitment(round_, BOB))])
    assert set(open_round(place).state.commits) == {ALICE.public}


def test_a_file_is_fetched_as_it_was_stored(
    place: Storage, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 10)
    create_round(place, manifest, LOG)
    (tmp_path / "source").write_bytes(os.urandom(23))
    stored = store(tmp_path / "source", place)
    fetch(stored, place, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    assert len(place.names("chunks")) == 4  # three chunks and their list


def writer(place: Storage, round_: str) -> LogWriter:
    return log_writer(place, open_round(place).head, round_, LOG)
