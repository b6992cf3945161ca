"""Peft folders: what peft computes is what the fine-tune gives, and its tokenizer asks the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.export.models import RANK, SHAPES, export, write_base, write_lora
from zoo.gym.delta import create_delta
from zoo.gym.delta.reading import adapter as adapters
from zoo.gym.export import peft

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endfor %}"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("export") / "tiny")


@pytest.fixture(scope="module")
def lora(base: Path) -> Path:
    return write_lora(base.parent / "lora")


@pytest.fixture(scope="module")
def lowrank(base: Path, lora: Path) -> Path:
    out = base.parent / "low.safetensors"
    return create_delta(lora, base=base, base_id="org/tiny", out=out).file


@pytest.mark.parametrize("fixture", ["lora", "lowrank"])
def test_peft_computes_what_the_fine_tune_gives(
    fixture: str, base: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue(fixture)
    report = export(source, base, "peft", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    assert (report.check["by"], report.check["prompts"]) == ("peft", 8)
    config = json.loads((report.path / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "org/tiny"
    assert "log-probabilities within" in (report.path / "README.md").read_text()


def test_what_a_delta_cannot_hold_is_copied(base: Path, tmp_path: Path) -> None:
    dora = write_lora(tmp_path / "dora", use_dora=True)
    file = dora / "adapter_model.safetensors"
    factors = load_file(file)
    for name, shape in SHAPES.items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{module}.lora_A.weight" in factors:
            norms = {f"{module}.lora_magnitude_vector": np.ones(shape[0], "float32")}
            factors |= norms
    save_file(factors, file, {"format": "pt"})
    report = export(dora, base, "peft", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    assert load_file(report.path / "adapter_model.safetensors").keys() == factors.keys()


def test_the_template_of_the_fine_tune_goes_with_it(base: Path, tmp_path: Path) -> None:
    own = write_lora(tmp_path / "own")
    (own / "chat_template.jinja").write_text(CHATML)
    out = export(own, base, "peft", tmp_path / "out").path
    assert (out / "chat_template.jinja").read_text() == CHATML


def _without_template(*_: Any) -> None:
    """Writes no parts of a tokenizer."""


def test_a_lost_template_is_an_error_and_leaves_nothing(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_lora(tmp_path / "own")
    (own / "chat_template.jinja").write_text(CHATML)
    monkeypatch.setattr(peft, "write_own", _without_template)
    with raises("export.other_prompts"):
        export(own, base, "peft", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["own"]


def _half_the_scale(folder: Path, factors: Any, base_id: str, scaled: float, **more: Any) -> None:
    adapters.write_adapter(folder, factors, base_id, scaled / 2, **more)


def _one_layer_less(folder: Path, factors: Any, *more: Any, **options: Any) -> None:
    adapters.write_adapter(folder, iter(list(factors)[1:]), *more, **options)


@pytest.mark.parametrize("broken", [_half_the_scale, _one_layer_less])
def test_a_lost_scale_or_layer_is_an_error_and_leaves_nothing(
    broken: Any, lowrank: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peft, "write_adapter", broken)
    with raises("export.other_results", "what peft computes from it: expected a log-probability"):
        export(lowrank, base, "peft", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_a_check_the_card_says_so(lowrank: Path, base: Path, tmp_path: Path) -> None:
    report = export(lowrank, base, "peft", tmp_path / "out", check=False)
    assert report.check is None
    assert "Not checked." in (report.path / "README.md").read_text()


def test_whole_weights_are_refused(base: Path, tmp_path: Path) -> None:
    arrays = disk.plus(disk.random_arrays(SHAPES, 0, 0.3), disk.random_arrays(SHAPES, 1, 0.01))
    whole = write_base(tmp_path / "whole")
    disk.write_tensors(whole / "model.safetensors", arrays)
    out = tmp_path / "dense.safetensors"
    dense = create_delta(whole, base=base, base_id="org/tiny", out=out).file
    for source, got in ((whole, "whole weights"), (dense, "a delta of whole matrices")):
        with raises("export.not_low_rank", f"low rank for an adapter, got {got}") as error:
            export(source, base, "peft", tmp_path / "out")
        assert error.value.hint == "--format hf"


@pytest.mark.parametrize("option", ["quantization", "dtype", "strict", "name"])
def test_options_without_effect_are_refused(
    option: str, lowrank: Path, base: Path, tmp_path: Path
) -> None:
    given = True if option == "strict" else "f32"
    with raises("export.no_effect", f"--{option}: has no effect with --format peft"):
        export(lowrank, base, "peft", tmp_path / "out", **{option: given})


def test_a_folder_is_replaced_only_by_force(lowrank: Path, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("")
    with raises("export.exists"):
        export(lowrank, base, "peft", out)
    with raises("export.not_ours"):
        export(lowrank, base, "peft", out, force=True)
    (out / "export.json").write_text("{}")
    export(lowrank, base, "peft", out, check=False, force=True)
    assert not (out / "mine").exists()
    assert json.loads((out / "adapter_config.json").read_text())["r"] == RANK
