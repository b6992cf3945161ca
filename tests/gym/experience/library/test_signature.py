"""Signed versions: whose evidence counts, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.cli.conftest import Call, call
from zoo.gym.cli.libraries import verdict
from zoo.gym.experience import store
from zoo.gym.experience.library.file import CONTEXT, signature_file, write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.use import doubts
from zoo.gym.published.training_free_grpo import ExperienceLibrary
from zoo.gym.signing import OwnKey, PublicKey, own_key, sign, trust, write_signed
from zoo.gym.signing.keys import new_private, public_of

__all__ = ["call"]

EVIDENCE = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3}
LIBRARY = Library((Item("Check the sign first.", step=1),), "m", evidence=EVIDENCE)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture
def theirs() -> OwnKey:
    """The key of somebody else."""
    private = new_private()
    return OwnKey(private, PublicKey(public_of(private)))


def written(path: Path, key: OwnKey | None = None) -> Path:
    """Writes a library that no store has, signed or not."""
    digest = write_library(path, LIBRARY)
    if key is not None:
        write_signed(signature_file(path), sign(key, CONTEXT, {"digest": digest}))
    return path


def test_each_version_is_signed_with_the_own_key() -> None:
    saved = store.save("sums", LIBRARY)
    signed = json.loads(signature_file(saved.path).read_text())
    assert signed["body"] == {"digest": saved.digest}
    assert signed["key"] == str(own_key().public)
    assert store.load("sums") == saved
    assert saved.signer == "you"


def test_a_version_with_the_signature_of_another_is_refused() -> None:
    first, second = store.save("sums", LIBRARY), store.save("sums", replace(LIBRARY, domain="x"))
    second.path.write_bytes(first.path.read_bytes())
    with raises(
        "experience.wrong_signature", r"0002\.json\.sig: .*one of the two files was changed"
    ):
        store.load("sums")


def test_a_version_of_a_stranger_is_refused_until_trusted(theirs: OwnKey) -> None:
    saved = store.save("sums", LIBRARY)
    write_signed(signature_file(saved.path), sign(theirs, CONTEXT, {"digest": saved.digest}))
    with raises("experience.untrusted_signature") as caught:
        store.load("sums")
    assert caught.value.code == "experience.untrusted_signature"
    trust("ann", theirs.public)
    assert store.load("sums").signer == "ann"


def test_a_signature_of_another_kind_is_refused() -> None:
    saved = store.save("sums", LIBRARY)
    body = {"digest": saved.digest}
    write_signed(signature_file(saved.path), sign(own_key(), "round manifest", body))
    with raises("signing.other_kind", "expected one of kind 'experience library'"):
        store.load("sums")


def test_a_file_of_a_stranger_has_no_evidence(tmp_path: Path, theirs: OwnKey) -> None:
    for path in (written(tmp_path / "a.json"), written(tmp_path / "b.json", theirs)):
        stored = store.load_given(str(path))
        assert (stored.signer, stored.library.evidence) == ("", {})
        assert stored.library.text == LIBRARY.text
        first, second = doubts(stored.library, "m")
        assert "unproven" in first
        assert "1 of 1 lessons are foreign" in second
    assert ExperienceLibrary.load(tmp_path / "a.json").verdict == "unproven"


def test_a_file_keeps_its_evidence_if_a_trusted_key_signed_it(
    tmp_path: Path, theirs: OwnKey
) -> None:
    trust("ann", theirs.public)
    stored = store.load_file(written(tmp_path / "a.json", theirs))
    assert (stored.signer, stored.library) == ("ann", LIBRARY)
    assert doubts(stored.library, "m") == []


def test_a_file_keeps_its_evidence_if_the_store_has_it(tmp_path: Path) -> None:
    store.save("sums", LIBRARY)
    assert store.load_file(written(tmp_path / "a.json")).library == LIBRARY
    write_library(tmp_path / "b.json", replace(LIBRARY, domain="other"))
    assert store.load_file(tmp_path / "b.json").library.evidence == {}


def test_a_changed_signature_beside_a_file_is_refused(tmp_path: Path, theirs: OwnKey) -> None:
    path = written(tmp_path / "a.json", theirs)
    digest = write_library(tmp_path / "b.json", replace(LIBRARY, evidence={}))
    write_signed(signature_file(path), sign(theirs, CONTEXT, {"digest": digest}))
    with raises("experience.wrong_signature") as caught:
        store.load_file(path)
    assert caught.value.code == "experience.wrong_signature"
    signature_file(path).write_bytes(b"other")
    with raises("signing.not_signed", "expected a signed object in JSON"):
        store.load_file(path)


def test_a_key_that_others_could_read_signs_no_library() -> None:
    store.save("sums", LIBRARY)
    (Path(store.load("sums").path).parents[2] / "keys" / "own.pem").chmod(0o644)
    with raises("signing.mode", "expected mode 600, got 644"):
        store.save("other", LIBRARY)
    assert "other" not in store.names()


def test_what_is_exported_is_proven_to_those_who_trust_the_key(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save("sums", LIBRARY)
    call("experience", "export", "sums", "--form", "json", "--out", "out.json")
    key = str(own_key().public)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "another home"))
    told = call("experience", "import", "out.json", "--name", "a", "--json")
    assert (told.json["evidence"], told.json["lessons"]) == ({}, 1)
    assert "unproven, 1 of 1 foreign" in told.stderr
    assert call("keys", "trust", "ann", key).code == 0
    assert call("experience", "show", "out.json", "--json").json["signer"] == "ann"
    told = call("experience", "import", "out.json", "--name", "b", "--json")
    assert told.json["evidence"] == EVIDENCE
    assert [one["name"] for one in call("keys", "list", "--json").json["keys"]] == ["ann"]  # type: ignore[attr-defined]
    assert call("keys", "distrust", "ann").code == 0
    assert call("keys", "distrust", "ann").code == 4


def test_a_version_without_a_signature_is_not_the_users_own(tmp_path: Path) -> None:
    made = store.save("sums", LIBRARY)
    signature_file(made.path).unlink()
    with raises("experience.not_signed") as caught:
        store.load("sums")
    assert caught.value.code == "experience.not_signed"
    copy = tmp_path / "copy.json"
    copy.write_bytes(made.path.read_bytes())
    assert store.load_file(copy).signer == ""  # nor is a copy of it
    assert store.load_file(copy).library.evidence == {}


def test_a_version_that_was_never_signed_does_not_stop_new_ones() -> None:
    made = store.save("sums", LIBRARY)
    signature_file(made.path).unlink()
    assert store.save("sums", LIBRARY).version == 2
    assert store.load("sums").library == LIBRARY


def test_a_proof_without_figures_is_shown_as_none() -> None:
    library = replace(LIBRARY, evidence={"verdict": "proven"})
    stored = store.Stored("sums", 1, Path("sums.json"), library, "0" * 64)
    assert verdict(stored) == "unproven"
    assert verdict(replace(stored, library=LIBRARY)).startswith("proven: +20.0 points")
