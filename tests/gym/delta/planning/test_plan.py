"""Planned sizes are the formulas' and the files' own."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.codes import raises
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.planning.base import plan_base
from zoo.gym.delta.planning.plan import WHOLE, plan_shapes, term_of
from zoo.gym.delta.planning.sizes import dense_terms, linear_shapes, payload_bytes
from zoo.models import family_entry, pico_folder

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


@pytest.mark.slow
@pytest.mark.parametrize("alias", DESIGNED)
def test_payloads_are_the_designed_bytes_and_headers_a_small_share(alias: str) -> None:
    shape = family_entry(alias).geometry
    planned = plan_shapes(linear_shapes(shape), dense_terms(shape, Dense("sign")), alias)
    assert {plan.name: plan.payload_bytes for plan in planned} == DESIGNED[alias]
    for plan in planned:
        share = plan.file_bytes / plan.payload_bytes - 1
        assert 0 < share <= HEADER_SHARE.get(plan.name, 0.02), plan.name


def test_the_size_of_a_sparse_delta_cannot_be_planned() -> None:
    with pytest.raises(ValueError, match="expected sign, ternary or int"):
        term_of(Dense("sparse"), 16)


def test_a_folder_is_planned_from_its_own_tensors() -> None:
    named, read = plan_base("zen-pico"), plan_base(str(pico_folder()))
    assert dict(read.linear) == dict(named.linear)
    assert read.parameters == named.parameters
    assert payload_bytes(read.whole) == payload_bytes(named.whole)


@pytest.mark.parametrize("name", ["nosuch", "org/foo", "./absent"])
def test_an_unknown_base_is_not_planned_as_another(name: str) -> None:
    with raises("delta.no_base"):
        plan_base(name)


def test_a_model_of_other_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    save_file({"conv.0.weight": np.ones((2, 2, 2))}, tmp_path / "model.safetensors")
    with raises("delta.bad_base", r"got tensor 'conv.0.weight' with shape \[2, 2, 2\]"):
        plan_base(str(tmp_path))
