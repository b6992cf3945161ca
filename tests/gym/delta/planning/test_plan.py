"""Planned sizes are the formulas' and the files' own."""

import pytest

from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.planning.plan import WHOLE, plan_deltas, term_of
from zoo.models import family_entry

DESIGNED = {
    "zen-nano": {
        "1 bit": 56_426_496,
        "int4": 227_082_240,
        "int2": 116_981_760,
        "ternary": 95_047_680,
        "lowrank 2 bit": 2_759_680,
        "lowrank 1 bit": 1_419_264,
        WHOLE: 76_744_192,
    },
    "zen-eco": {
        "1 bit": 458_588_160,
        "int4": 1_873_428_480,
        "int2": 965_099_520,
        "ternary": 783_544_320,
        "lowrank 2 bit": 9_031_680,
        "lowrank 1 bit": 4_644_864,
        WHOLE: 508_599_808,
    },
}
HEADER_SHARE = {"lowrank 2 bit": 0.06, "lowrank 1 bit": 0.09}


@pytest.mark.parametrize("alias", DESIGNED)
def test_payloads_are_the_designed_bytes_and_headers_a_small_share(alias: str) -> None:
    planned = plan_deltas(family_entry(alias).geometry, alias)
    assert {plan.name: plan.payload_bytes for plan in planned} == DESIGNED[alias]
    for plan in planned:
        share = plan.file_bytes / plan.payload_bytes - 1
        assert 0 < share <= HEADER_SHARE.get(plan.name, 0.02), plan.name


def test_the_size_of_a_sparse_delta_cannot_be_planned() -> None:
    with pytest.raises(ValueError, match="expected sign, ternary or int"):
        term_of(Dense("sparse"), 16)
