"""Sealed messages: only the holder of the key opens them, for one round and one contributor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.rounds.privacy.contribution import decode_values, encode_values
from zoo.gym.rounds.privacy.sealing import info_for, key_text, new_key, open_sealed, public_of, seal
from zoo.gym.rounds.protocol.privacy import OVERHEAD, sealed_bytes

PRIVATE = bytes(range(32))
KEY = key_text(public_of(PRIVATE))
INFO = info_for("ab" * 32, "ed25519:" + "cd" * 32)


@given(st.binary(max_size=300))
def test_what_was_sealed_is_opened(message: bytes) -> None:
    sealed = seal(message, KEY, INFO)
    assert len(sealed) == len(message) + OVERHEAD
    assert open_sealed(sealed, PRIVATE, INFO) == message


@given(st.binary(max_size=40), st.data())
def test_any_flipped_bit_cut_or_added_byte_is_refused(message: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(message, KEY, INFO))
    at = data.draw(st.integers(0, 8 * len(sealed) - 1))
    if at == 255:  # X25519 ignores the top bit of a key; HPKE hashes it all the same
        at = 254
    sealed[at // 8] ^= 1 << at % 8
    for damaged in (bytes(sealed), bytes(sealed[: at // 8]), bytes(sealed) + b"\0"):
        with raises("rounds.not_opened", "expected a message sealed to the round's key"):
            open_sealed(damaged, PRIVATE, INFO)


def test_the_ignored_bit_of_a_key_counts_all_the_same() -> None:
    sealed = bytearray(seal(b"x", KEY, INFO))
    sealed[31] ^= 0x80
    with raises("rounds.not_opened") as caught:
        open_sealed(bytes(sealed), PRIVATE, INFO)
    assert caught.value.code == "rounds.not_opened"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content: bytes) -> None:
    with raises("rounds.not_opened") as caught:
        open_sealed(content, PRIVATE, INFO)
    assert caught.value.code == "rounds.not_opened"


@pytest.mark.parametrize(
    "info",
    [info_for("ac" * 32, "ed25519:" + "cd" * 32), info_for("ab" * 32, "ed25519:" + "ce" * 32), b""],
)
def test_another_round_or_contributor_is_refused(info: bytes) -> None:
    with raises("rounds.not_opened") as caught:
        open_sealed(seal(b"x", KEY, INFO), PRIVATE, info)
    assert caught.value.code == "rounds.not_opened"


def test_other_key_opens_nothing_and_seals_differ() -> None:
    sealed = seal(b"x" * 100, KEY, INFO)
    with raises("rounds.not_opened") as caught:
        open_sealed(sealed, new_key(), INFO)
    assert caught.value.code == "rounds.not_opened"
    assert seal(b"x" * 100, KEY, INFO)[:64] != sealed[:64]


@pytest.mark.parametrize("digits", ["00" * 32, "01" + "00" * 31, "zz", ""])
def test_a_key_that_everybody_could_open_is_refused(digits: str) -> None:
    with raises("rounds.bad_round_key"):
        seal(b"x", f"x25519:{digits}", INFO)


def test_a_sealed_message_is_hpke_as_the_rfc_computes_it() -> None:
    """RFC 9180, base mode, written out with the primitives: no vector of the library's own."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.hmac import HMAC
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    def extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
        mac = HMAC(salt or bytes(32), SHA256())
        mac.update(b"HPKE-v1" + suite + label + ikm)
        return mac.finalize()

    def expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
        labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
        return HKDFExpand(SHA256(), length, labelled).derive(prk)

    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
    sealed = seal(b"whole numbers", KEY, INFO)
    enc, text = sealed[:32], sealed[32:]
    shared = X25519PrivateKey.from_private_bytes(PRIVATE).exchange(
        X25519PublicKey.from_public_bytes(enc)
    )
    prk = extract(kem, b"", b"eae_prk", shared)
    secret = expand(kem, prk, b"shared_secret", enc + public_of(PRIVATE), 32)
    context = b"\0" + extract(suite, b"", b"psk_id_hash", b"")
    context += extract(suite, b"", b"info_hash", INFO)
    master = extract(suite, secret, b"secret", b"")
    key = expand(suite, master, b"key", context, 32)
    nonce = expand(suite, master, b"base_nonce", context, 12)
    assert ChaCha20Poly1305(key).decrypt(nonce, text, b"") == b"whole numbers"


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=30))
def test_whole_numbers_come_back(numbers: list[int]) -> None:
    import numpy as np

    content = encode_values([np.array(numbers, np.int64)])
    assert decode_values(content, len(numbers)).tolist() == numbers
    assert len(content) + OVERHEAD == sealed_bytes(len(numbers))


@pytest.mark.parametrize("content", [b"", b"zoo-gym private values 1\n", b"x" * 33])
def test_bytes_of_another_form_or_length_are_refused(content: bytes) -> None:
    with raises("rounds.not_whole", "expected 2 whole numbers of a private round"):
        decode_values(content, 2)
