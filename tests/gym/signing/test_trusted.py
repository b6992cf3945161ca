"""The list of trusted keys: each key once, under one name."""

import pytest

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.signing import PublicKey, distrust, own_key, signer_name, trust, trusted_keys
from zoo.gym.signing.trusted import trusted_file

pytestmark = pytest.mark.usefixtures("place")

ANN, BOB = PublicKey(b"a" * 32), PublicKey(b"b" * 32)


def test_a_trusted_key_has_a_name_until_it_is_distrusted() -> None:
    trust("ann", ANN)
    trust("1", BOB)
    assert trusted_keys() == {"ann": ANN, "1": BOB}
    assert (signer_name(ANN), signer_name(own_key().public)) == ("ann", "you")
    assert distrust("ann") == ANN
    assert signer_name(ANN) == ""
    with raises("signing.not_trusted", "no trusted key 'ann'"):
        distrust("ann")


def test_a_key_counts_once() -> None:
    trust("ann", ANN)
    with raises("signing.key_known", "expected a new one, got that of ann"):
        trust("bob", ANN)
    with raises("signing.name_taken"):
        trust("ann", BOB)
    with raises("signing.key_known", "got that of you"):
        trust("bob", own_key().public)
    with trusted_file().open("a") as file:
        file.write(f"bob: {ANN}\n")
    with raises("signing.trusted_file", r"yaml:2: expected each key once"):
        trusted_keys()


@pytest.mark.parametrize("name", ["you", "", "Ann", "a b", "../a", "a" * 41])
def test_what_is_no_name_is_refused(name: str) -> None:
    with raises("signing.bad_name"):
        trust(name, ANN)


@pytest.mark.parametrize("line", ["ann: 5", "ann: ed25519:zz", "you: x", "- a", "ann: [", "{"])
def test_a_damaged_list_is_refused_with_its_place(line: str) -> None:
    trust("bob", BOB)
    trusted_file().write_text(line)
    with pytest.raises(InputError, match=r"trusted-keys\.yaml"):
        trusted_keys()
