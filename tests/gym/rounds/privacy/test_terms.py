"""What a private round may promise, and what it refuses by name."""

from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from tests.gym.rounds.privacy.conftest import RANK, VALUES, privacy, private_terms
from tests.gym.rounds.protocol.people import terms
from zoo.gym.errors import InputError
from zoo.gym.rounds.privacy.promise import described as described_promise
from zoo.gym.rounds.privacy.promise import form_and_method, in_words, wish_of
from zoo.gym.rounds.protocol.privacy import MOST_SIGMA, Privacy, delta_of, fewest_contributors
from zoo.gym.rounds.rules.method import AggregationMethod


@pytest.mark.slow
@given(st.floats(0.1, 10), st.floats(1e-12, 1e-2), st.floats(1e-3, 1e4))
def test_computed_terms_keep_the_promise_with_the_finest_steps(
    epsilon: float, delta: float, clip: float
) -> None:
    found = privacy(epsilon=epsilon, delta=delta, clip=clip)
    assert delta_of(found.noise, epsilon) <= delta * (1 + 1e-9)
    assert found.sigma <= MOST_SIGMA
    assert found.sigma * 2.01 > MOST_SIGMA or found.scale == 1 << 40
    assert found.clip_steps <= clip * found.scale < found.clip_steps + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "privacy.epsilon: expected at least 0.1, got 0.0"),
        ({"epsilon": 0.09}, "privacy.epsilon"),
        ({"epsilon": 10.1}, "privacy.epsilon: expected at most 10"),
        ({"epsilon": float("nan")}, "privacy.epsilon"),
        ({"delta": 0.0}, "privacy.delta"),
        ({"delta": 0.4}, "privacy.delta: expected less than 1 / 3, the most contributors, got 0.4"),
        ({"sigma": 1000}, "sigma: expected at least"),
        ({"sigma": MOST_SIGMA + 1}, "privacy.sigma"),
        ({"clip": 1e-9}, "clip: expected at least 8192 steps"),
        ({"clip": 0.0}, "privacy.clip"),
        ({"scale": 3}, "scale: expected a power of two, got 3"),
        ({"noise_scale": 1.0}, "noise_scale: expected none: sigma is computed"),
        ({"amplification": 0.1}, "amplification: expected none: who takes part is neither random"),
        ({"sampling_rate": 0.1}, "sampling_rate: expected none"),
        ({"seed": "5a"}, "privacy.seed"),
        ({"key": "ed25519:" + "00" * 32}, "privacy.key"),
        ({"unknown": 1}, "privacy.unknown: expected no field of this name"),
    ],
)
def test_a_promise_that_is_none_is_refused_by_name(
    changes: dict[str, Any], message: str, base: Path
) -> None:
    promised = privacy()
    fields = promised.model_dump(mode="json") | changes
    with raises("rounds.bad_terms", message):
        private_terms(base, promised, privacy=fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "signs"}, "form: expected lowrank in a private round, got signs"),
        ({"form": "float"}, "form: expected lowrank in a private round, got float"),
        ({"method": "krum", "quorum": 3}, "method: expected mean in a private round, got krum"),
        ({"pool": -1}, "pool"),
        ({"caps": {"file_bytes": 10**6, "rank": RANK, "value": 4.0}}, "caps.file_bytes: expected"),
        (
            {"caps": {"file_bytes": 10**6, "rank": 9, "value": 4.0}},
            r"rank: expected at most 8",
        ),
        ({"refit": "0" * 64}, "refit: expected null in a private round"),
    ],
)
def test_terms_that_break_the_promise_are_refused_by_name(
    changes: dict[str, Any], message: str, base: Path
) -> None:
    from tests.gym.rounds.protocol.people import FIELDS

    with raises("rounds.bad_terms", message):
        private_terms(base, privacy(), **changes, keys=FIELDS["keys"])


def test_a_value_cap_other_than_the_clip_would_do_nothing(base: Path) -> None:
    caps = {"file_bytes": private_terms(base, privacy()).caps.file_bytes, "rank": RANK}
    with raises("rounds.bad_terms", r"caps\.value: expected the clip, 4\.0"):
        private_terms(base, privacy(), caps=caps | {"value": 1.0})


def test_a_manifest_without_the_field_is_none(base: Path) -> None:
    from zoo.gym.rounds.protocol.manifest import manifest_body, parse_manifest

    body = manifest_body(terms())
    assert body["privacy"] is None
    del body["privacy"]
    with raises("rounds.missing_terms") as caught:
        parse_manifest(body)
    assert caught.value.code == "rounds.missing_terms"


def test_noise_equals_signal_at_the_fewest_contributors() -> None:
    promised = privacy(epsilon=1.0, delta=1e-6)
    fewest = fewest_contributors(promised, VALUES)
    assert (
        promised.noise_to_signal(VALUES, fewest) <= 1 < promised.noise_to_signal(VALUES, fewest - 1)
    )
    assert fewest == pytest.approx(4.225 * sqrt(VALUES), rel=1e-2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon=0", "epsilon: expected 0.1 to 10, got 0.0"),
        ("epsilon=11", "epsilon: expected 0.1 to 10"),
        ("epsilon=one", "--private epsilon: expected a number, got 'one'"),
        ("delta=1e-6", "--private: expected an epsilon, got none"),
        ("epsilon=1,epsilon=2", "once each, got 'epsilon'"),
        ("epsilon=1,clip=0", "--private clip: expected a number up to 10000, got 0.0"),
        ("epsilon=1,clip=nan", "--private clip: expected a number up to 10000"),
        ("epsilon=1,noise_scale=1", "noise_scale: expected none: sigma is computed"),
        ("epsilon=1,sampling=0.1", "sampling: expected none: who takes part is neither"),
        ("", "got ''"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wish_of(text)


def test_force_without_a_wish_would_do_nothing() -> None:
    with raises("rounds.force_unused") as caught:
        wish_of(None, force=True)
    assert caught.value.code == "rounds.force_unused"
    assert wish_of(None) is None


def test_robust_default_is_clip_and_sum_in_a_private_round() -> None:
    private, mean = ("lowrank", AggregationMethod.MEAN), AggregationMethod.MEAN
    assert form_and_method(None, None, private=True) == private
    assert form_and_method("lowrank", "byzantine_robust", private=True) == ("lowrank", mean)
    assert form_and_method(None, None, private=False) == ("signs", "byzantine_robust")
    with raises("rounds.private_form") as caught:
        form_and_method("signs", None, private=True)
    assert caught.value.code == "rounds.private_form"
    with raises("rounds.private_method") as caught:
        form_and_method(None, "krum", private=True)
    assert caught.value.code == "rounds.private_method"


def test_promise_text_names_its_parameters_and_attacker() -> None:
    promised: Privacy = privacy(epsilon=1.0, delta=1e-6, clip=2.0)
    said = "\n".join(in_words(described_promise(promised, VALUES, 100)))
    useless = "\n".join(in_words(described_promise(promised, VALUES, 80)))
    assert "epsilon 1, delta 1e-06 for each contribution" in said
    assert "sigma 4.22" in said
    assert "no rule selects, so a malicious one of 100 moves the mean by 0.02 at most" in said
    assert ": of no use" in useless
    assert ": of no use" not in said
    assert "the maker can open every contribution" in said
