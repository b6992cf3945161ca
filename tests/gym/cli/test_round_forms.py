"""What `zoo-gym round contribute` says of a fine-tune that the form of a round does not suit."""

from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, person, started
from tests.gym.delta import models_on_disk as disk

__all__ = ["person"]  # a fixture

SHAPES = {"model.layers.0.mlp.up_proj.weight": (4, 16)}


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2)


def contributed(person: Call, source: str) -> tuple[int, str]:
    found = person("ann", "round", "contribute", source, "--round", "round", "--base", "base")
    return found.code, found.stderr


@pytest.mark.slow
def test_an_adapter_in_a_round_of_signs_reads_what_is_kept_of_it(
    person: Call, adapter: Path
) -> None:
    started(person)
    code, said = contributed(person, str(adapter))
    assert (code, "% of this adapter's change (of its squared norm)" in said) == (0, True), said
    assert "a round of form lowrank takes adapters as they are" in said
    assert "form signs keeps" not in contributed(person, "ann")[1]


def test_a_round_of_form_lowrank_keeps_an_adapter(person: Call, adapter: Path) -> None:
    started(person, "--form", "lowrank")
    code, said = contributed(person, str(adapter))
    assert (code, "keeps" in said) == (0, False), said
