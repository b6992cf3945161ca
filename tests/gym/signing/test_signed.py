"""Signed objects: what is changed, of another kind or of another key is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.signing import (
    OwnKey,
    PublicKey,
    canonical,
    parse_key,
    read_signed,
    sign,
    verify,
    write_signed,
)
from zoo.gym.signing.keys import from_pem, is_signature, public_of, sign_bytes, to_pem

SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
"""The private key of RFC 8032, 7.1, test 1."""

KEY = OwnKey(SECRET, PublicKey(public_of(SECRET)))
BODY = {"digest": "ab", "n": 3, "gain": 0.5, "names": ["é", None, True]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


def test_the_signature_is_that_of_the_standard() -> None:
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    start = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc"
    assert public_of(SECRET).hex() == public
    assert (
        sign_bytes(SECRET, b"").hex() == f"{start}61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert is_signature(bytes.fromhex(public), b"", sign_bytes(SECRET, b""))
    assert from_pem(to_pem(SECRET)) == SECRET


def test_what_is_signed_is_the_context_and_canonical_json() -> None:
    message = b'zoo-gym signed 1\nlibrary\n{"a":[1,1.5,"\xc3\xa9"],"b":null}'
    signed = sign(KEY, "library", {"b": None, "a": [1, 1.5, "é"]})
    assert bytes.fromhex(signed.signature) == sign_bytes(SECRET, message)


def test_a_signed_object_is_read_as_it_was_written(tmp_path: Path) -> None:
    signed = sign(KEY, "experience library", BODY)
    write_signed(tmp_path / "s", signed)
    assert read_signed(tmp_path / "s", "experience library") == signed
    assert signed.key == parse_key(str(KEY.public))
    with raises("signing.no_file"):
        read_signed(tmp_path / "absent", "experience library")


CHANGES: dict[str, Any] = {
    "body": {**BODY, "n": 4},
    "context": "round contribution",
    "key": "ed25519:" + "0" * 64,
    "signature": "0" * 128,
    "more": 1,
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_is_refused(name: str) -> None:
    fields = sign(KEY, "experience library", BODY).as_json() | {name: CHANGES[name]}
    with pytest.raises(InputError):
        verify(fields, "experience library")


def test_a_signature_of_one_kind_is_none_of_another() -> None:
    fields = sign(KEY, "experience library", BODY).as_json()
    with raises("signing.other_kind", "kind 'round contribution', got another kind"):
        verify(fields, "round contribution")
    with raises("signing.wrong_signature"):
        verify(fields | {"context": "round contribution"}, "round contribution")


def test_numbers_of_another_type_are_another_object() -> None:
    fields = sign(KEY, "a", {"n": 1}).as_json()
    with raises("signing.wrong_signature"):
        verify(fields | {"body": {"n": 1.0}}, "a")


@pytest.mark.parametrize(
    "change", [lambda text: " " + text, lambda text: text.replace('"body"', '"body":{},"body"')]
)
def test_another_form_of_the_same_object_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "s"
    write_signed(path, sign(KEY, "a", BODY))
    path.write_text(change(path.read_text()))
    with raises("signing.not_canonical") as caught:
        read_signed(path, "a")
    assert caught.value.code == "signing.not_canonical"


@pytest.mark.slow
@given(VALUES)
def test_canonical_json_is_read_as_the_value_and_written_as_the_same_bytes(value: Any) -> None:
    written = canonical(value)
    assert json.loads(written) == value
    assert canonical(json.loads(written)) == written


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, (1,), b"x", "\ud800", {"a": {None: 1}}])
def test_what_json_would_change_or_refuse_is_not_signed(value: Any) -> None:
    with raises("signing.not_json"):
        sign(KEY, "a", {"value": value})


@pytest.mark.slow
@given(st.binary(max_size=200) | VALUES)
def test_anything_read_is_refused_in_a_sentence(found: Any) -> None:
    with raises("signing.not_signed"):
        verify(found, "a")
    with raises("signing.bad_key"):
        parse_key(found)


@given(st.binary(max_size=64), st.binary(max_size=8), st.binary(max_size=80))
def test_any_bytes_can_be_checked(public: bytes, message: bytes, signature: bytes) -> None:
    assert not is_signature(public, message, signature)


@pytest.mark.parametrize("sign_bit", [0, 0x80])
@pytest.mark.parametrize(
    "ordinate",
    [
        "00" * 32,
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ],
)
def test_a_key_of_small_order_has_no_signatures(ordinate: str, sign_bit: int) -> None:
    public = bytearray.fromhex(ordinate)
    public[-1] |= sign_bit
    forged = [bytes(public) + bytes(32), b"\x01" + bytes(63), bytes(64)]
    messages = [b"%d" % n for n in range(32)]
    assert not any(is_signature(bytes(public), m, one) for m in messages for one in forged)


def test_a_fingerprint_is_short_and_of_the_key_alone() -> None:
    other = PublicKey(bytes(32))
    assert KEY.public.fingerprint == "21fe-31df-a154-a261"
    assert other.fingerprint != KEY.public.fingerprint
