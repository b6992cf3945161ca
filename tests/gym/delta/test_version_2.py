"""Version 2: what it adds, that only what needs it has it, and what it refuses."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.delta.forge import forge
from tests.gym.delta.test_golden import GOLDEN
from zoo.core import read_header
from zoo.gym.delta import Quality, as_json, as_text, create_delta, load_delta
from zoo.gym.delta.file.writer import replace_header

PRIVATE = GOLDEN / "private.safetensors"


def version_of(path: Path) -> str:
    return read_header(path).metadata["version"]


def test_only_a_header_that_needs_version_2_has_it(tmp_path: Path) -> None:
    assert version_of(PRIVATE) == "2"
    copy = tmp_path / "d.safetensors"
    copy.write_bytes(PRIVATE.read_bytes())
    header = load_delta(copy).header
    assert header.quality
    plain = Quality(**header.quality.model_dump(exclude={"top1", "drift", "controls"}))
    less: dict[str, Any] = {"privacy": None, "parents": (), "quality": plain}
    for kept in ("privacy", "parents", "quality"):
        some = {key: value for key, value in less.items() if key != kept}
        replace_header(load_delta(copy), header.model_copy(update=some))
        assert version_of(copy) == "2", kept
        assert load_delta(copy).header == header.model_copy(update=some)
    replace_header(load_delta(copy), header.model_copy(update=less))
    assert version_of(copy) == "1"
    assert "parents" not in read_header(copy).metadata["header"]


def test_what_it_adds_is_shown() -> None:
    delta = load_delta(PRIVATE)
    text = as_text(delta)
    assert "epsilon 1, delta 1e-06 for each of 9 contributions, by its maker: sigma 4.5" in text
    assert "parents   1e1e1e1e1e1e, 0f0f0f0f0f0f" in text
    assert "same most likely token 87.5%, drift -0.0312, random-signs 1.7500, zeros 1.5000" in text
    told = json.loads(json.dumps(as_json(delta)))
    assert told["version"] == "2"
    assert told["privacy"]["noise_to_signal"] == 1.0


def test_version_1_is_shown_as_it_is(lowrank: Path) -> None:
    told = as_json(load_delta(lowrank))
    assert (told["version"], told["privacy"], "parents" in told) == ("1", None, False)


def _in(place: str, **changes: Any) -> Any:
    def edit(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
        (header if place == "header" else header[place]).update(changes)

    return edit


def _as_version_1(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    file["__metadata__"]["version"] = "1"


def _without_parents(file: dict[str, Any], header: dict[str, Any], data: bytearray) -> None:
    del header["parents"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_as_version_1, "header: quality.top1: expected none in version 1"),
        (_without_parents, "header: parents: expected a list in version 2, got none"),
        (_in("header", parents=["00" * 32] * 2), "header: .*parents: expected each once"),
        (_in("header", parents=["00"]), "header: parents.0: string should match"),
        (_in("privacy", amplification=0.1), "header: privacy.amplification: extra inputs"),
        (_in("privacy", epsilon=0.0), "header: privacy.epsilon: input should be greater"),
        (_in("privacy", epsilon=11.0), "header: privacy.epsilon: input should be less"),
        (_in("privacy", delta=1.0), "header: privacy.delta: input should be less"),
        (_in("privacy", contributors=10), "noise_to_signal: expected 0.9 by sigma"),
        (_in("quality", top1=1.5), "header: quality.top1: input should be less"),
        (_in("quality", drift=None), "header: quality.drift: expected a value or no field"),
        (_in("quality", controls=[]), "header: quality.controls: tuple should have at least 1"),
        (_in("quality", controls=[{"kind": "z", "loss": 1}] * 2), "controls: expected each kind"),
    ],
)
def test_a_rightly_sealed_contradiction_is_refused(edit: Any, message: str, tmp_path: Path) -> None:
    with raises("delta.bad_header", message):
        load_delta(forge(PRIVATE, tmp_path / "forged.safetensors", edit))


def with_parents(base: Path, folder: Path, note: str) -> Path:
    copy = folder / "grown"
    copytree(base, copy)
    (copy / "parents.json").write_text(note)
    return copy


def test_a_delta_names_the_results_that_its_base_contains(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    parents = ["1e" * 32, "0f" * 32]
    grown = with_parents(base, tmp_path, json.dumps({"base": "b", "parents": parents}))
    report = create_delta(tuned, base=grown, base_id="tiny", out=tmp_path / "d.safetensors")
    assert load_delta(report.file).header.parents == tuple(parents)
    assert version_of(report.file) == "2"
    plain = create_delta(tuned, base=base, base_id="tiny", out=tmp_path / "e.safetensors")
    assert version_of(plain.file) == "1"


@pytest.mark.parametrize("note", ["{", "{}", '{"parents": "x"}', '{"parents": ["x"]}'])
def test_a_damaged_note_of_parents_is_refused(
    note: str, base: Path, tuned: Path, tmp_path: Path
) -> None:
    grown = with_parents(base, tmp_path, note)
    with raises("delta.bad_parents", r"parents\.json: .*expected"):
        create_delta(tuned, base=grown, base_id="tiny", out=tmp_path / "d.safetensors")
