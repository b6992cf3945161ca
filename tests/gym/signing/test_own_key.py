"""The user's own key: made once, and refused if others could read it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.signing import create_key, has_key, load_key, own_key
from zoo.gym.signing.keys import key_file

pytestmark = pytest.mark.usefixtures("place")


def test_a_key_is_made_once_and_found_again() -> None:
    assert not has_key()
    with raises("signing.no_key"):
        load_key()
    made = own_key()
    assert has_key()
    assert own_key() == load_key() == made
    with pytest.raises(FileExistsError):
        create_key()
    assert load_key() == made


def test_only_the_owner_may_read_it_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        own_key()
    finally:
        os.umask(before)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file().parent.stat().st_mode) == 0o700
    assert [path.name for path in key_file().parent.iterdir()] == ["own.pem"]


def test_those_who_make_it_together_get_the_same() -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: own_key(), range(8)))
    assert len(set(keys)) == 1


def test_no_text_form_of_a_key_has_its_secret() -> None:
    key = own_key()
    assert key.private.hex() not in f"{key!r} {key} {key.public!r}"
    assert repr(key.private)[2:-1] not in f"{key!r} {key}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o700])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_key_that_others_could_read_is_refused_by_its_mode(mode: int) -> None:
    own_key()
    key_file().chmod(mode)
    with raises("signing.mode", f"own.pem: expected mode 600, got {mode:o}"):
        own_key()


def test_a_key_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own_key()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with raises("signing.owner", f"expected a key of user {me + 1}, got one of user {me}"):
        load_key()


def test_a_link_is_refused(place: Path) -> None:
    own_key()
    key_file().rename(place / "moved.pem")
    key_file().symlink_to(place / "moved.pem")
    with raises("signing.not_a_file", "expected a file, got a symbolic link"):
        own_key()


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00", b"-----BEGIN PRIVATE KEY-----\n", "another kind"]
)
def test_what_is_no_key_is_refused_and_stays(content: bytes | str) -> None:
    own_key()
    found = another_kind() if isinstance(content, str) else content
    key_file().write_bytes(found)
    with raises("signing.not_a_private_key"):
        own_key()
    assert key_file().read_bytes() == found


def another_kind() -> bytes:
    """Returns a private key of another kind."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
