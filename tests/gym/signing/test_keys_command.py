"""`zoo-gym keys`: what others see of a key."""

from tests.gym.cli.conftest import Call
from zoo.gym.signing import has_key, load_key


def test_a_key_is_made_once_and_shown_without_its_secret(call: Call) -> None:
    assert call("keys", "show").code == 4
    made = call("keys", "create", "--json")
    key = load_key()
    assert made.json["key"] == str(key.public)
    assert call("keys", "show", "--json").json == made.json
    assert key.private.hex() not in made.stdout + made.stderr
    again = call("keys", "create")
    assert (again.code, load_key()) == (2, key)
    assert "it is never replaced" in again.stderr


def test_showing_makes_no_key(call: Call) -> None:
    call("keys", "show")
    assert not has_key()
