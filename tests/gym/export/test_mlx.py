"""Folders for mlx-lm: what MLX computes is what the source gives, and codes are what they say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from tests.codes import raises
from tests.gym.delta.models_on_disk import write_adapter
from tests.gym.export.conftest import random_model
from tests.gym.export.models import RANK, export, job_of, write_base, write_lora
from zoo.backends.mlx_files import Codes
from zoo.gym.data import load_tokenizer
from zoo.gym.delta import create_delta
from zoo.gym.delta.reading.weights import read_array
from zoo.gym.export import hf, mlx, mlx_adapter, run
from zoo.gym.export.peft import factors_of
from zoo.gym.tuned.opened import Tuned

pytest.importorskip("mlx_lm")

NAME = "model.layers.0.self_attn.q_proj.weight"


def _nothing(*_: object) -> None:
    """Stands for a step that is left out, or a package that is not there."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("mlx") / "tiny")


@pytest.fixture(scope="module")
def lora(base: Path) -> Path:
    return write_lora(base.parent / "lora")


def test_mlx_computes_what_the_fine_tune_gives(base: Path, lora: Path, tmp_path: Path) -> None:
    report = export(lora, base, "mlx", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    assert (report.check["by"], report.facts["dtype"]) == ("MLX", "f32")
    written = load_tokenizer(report.path)
    assert written.chat_template == load_tokenizer(base).chat_template
    settings = json.loads((report.path / "generation_config.json").read_text())
    assert settings["eos_token_id"] in (258, [258, 259], [259, 258])


@pytest.mark.parametrize(("name", "bits"), [("4bit", 4), ("8bit", 8), ("3bit", 3)])
def test_codes_are_of_the_bits_that_were_asked_for(
    name: str, bits: int, base: Path, lora: Path, tmp_path: Path
) -> None:
    report = export(lora, base, "mlx", tmp_path / "out", quantization=name)
    assert report.check is not None
    assert report.check["kl_to_own_values"] <= 1e-6
    # rows of down_proj are 96 wide, no multiple of 64
    assert report.facts["fallbacks"] == {"model.layers.0.mlp.down_proj.weight": "f32"}
    assert report.facts["types"][name] == 7
    with safe_open(report.path / "model.safetensors", "np") as file:
        assert file.get_slice(NAME).get_shape() == [64, 64 * bits // 32]
        coded = [key for key in file.keys() if key.endswith(".scales")]  # noqa: SIM118
    assert len(coded) == 7


def test_no_matrix_wide_enough_is_refused(base: Path, lora: Path, tmp_path: Path) -> None:
    with raises("export.narrow", "--strict: expected every matrix in 4bit, got 1 others"):
        export(lora, base, "mlx", tmp_path / "out", quantization="4bit", strict=True)
    with raises("export.bad_quantization", r"expected one of 2bit, 3bit, 4bit.*got 'q4_k_m'"):
        export(lora, base, "mlx", tmp_path / "out", quantization="q4_k_m")


def test_bfloat16_is_taken_only_if_it_loses_nothing(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = export(lora, base, "mlx", tmp_path / "out", dtype="bf16")
    assert report.check is not None
    assert 1e-9 < report.check["mean_kl"] <= 1e-4
    with safe_open(report.path / "model.safetensors", "np") as file:
        assert file.get_slice(NAME).get_dtype() == "BF16"
    monkeypatch.setattr(mlx, "MAX_KL", 1e-9)
    with raises("export.other_results", "expected a mean KL within 1e-09") as error:
        export(lora, base, "mlx", tmp_path / "again", dtype="bf16")
    assert error.value.hint == "--dtype f32"


def _one_of_the_base(tuned: Tuned, name: str) -> Any:
    """Returns the base's values of one tensor, and the merged ones of all others."""
    return read_array(tuned.weights, name) if name == NAME else _MERGED(tuned, name)


_MERGED = Tuned.merged


def test_a_skipped_tensor_is_an_error_and_leaves_nothing(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuned, "merged", _one_of_the_base)
    with raises("export.other_results", "what MLX computes from it: expected a log-probability"):
        export(lora, base, "mlx", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_codes_with_other_values_are_an_error(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_biases(codes: Codes) -> Any:
        return _VALUES(replace(codes, biases=0 * codes.biases))

    monkeypatch.setattr(Codes, "values", without_biases)
    with raises("export.other_results", "expected a mean KL to its own values within 1e-06"):
        export(lora, base, "mlx", tmp_path / "out", quantization="4bit")
    assert not (tmp_path / "out").exists()


_VALUES = Codes.values


def test_a_lost_template_is_an_error(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, template = (
        write_lora(tmp_path / "own"),
        "{% for m in messages %}{{ m.content }}{% endfor %}",
    )
    (own / "chat_template.jinja").write_text(template)
    monkeypatch.setattr(hf, "write_own", _nothing)
    with raises("export.other_prompts"):
        export(own, base, "mlx", tmp_path / "out")


def test_mlx_lm_reads_the_adapter(base: Path, lora: Path, tmp_path: Path) -> None:
    report = export(lora, base, "mlx-adapter", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    delta = create_delta(lora, base=base, base_id="org/tiny", out=tmp_path / "d.safetensors").file
    again = export(delta, base, "mlx-adapter", tmp_path / "again")
    assert again.check is not None
    assert again.check["max_logprob_difference"] <= 1e-4


def test_factors_of_a_lower_rank_are_padded(base: Path, lora: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    arrays = load_file(lora / "adapter_model.safetensors")
    stem = "base_model.model.model.layers.0.self_attn.q_proj"
    arrays[f"{stem}.lora_A.weight"] = arrays[f"{stem}.lora_A.weight"][:1]
    arrays[f"{stem}.lora_B.weight"] = arrays[f"{stem}.lora_B.weight"][:, :1].copy()
    mixed = write_adapter(tmp_path / "mixed", arrays, RANK, rank_pattern={"q_proj": 1})
    report = export(mixed, base, "mlx-adapter", tmp_path / "out")
    assert report.check is not None
    assert report.facts["rank"] == RANK


def _without_scale(job: Any) -> Any:
    """Yields factors whose scale, 2, is missing."""
    return ((name, A, B / 2) for name, A, B in _FACTORS(job))


_FACTORS = factors_of


def test_a_lost_scale_is_an_error(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlx_adapter, "factors_of", _without_scale)
    with raises("export.other_results", "what MLX computes from it"):
        export(lora, base, "mlx-adapter", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["mlx", "mlx-adapter"])
def test_a_missing_extra_is_named(
    form: str, base: Path, lora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.backends.mlx_files.find_spec", _nothing)
    with raises("export.no_package", "expected the package mlx, got none") as error:
        run.preview(job_of(lora, base), form)
    assert "mlx" in str(error.value.hint)


def test_whole_weights_are_no_adapter(base: Path) -> None:
    with raises("export.not_low_rank", "low rank for an adapter, got whole weights"):
        run.preview(job_of(base, base), "mlx-adapter")


def test_an_architecture_that_mlx_lacks_is_refused(base: Path, tmp_path: Path) -> None:
    model = random_model(tmp_path / "m", "mistral", sliding_window=4)
    with raises("export.not_for_format", "mlx-lm cannot take this model") as error:
        export(model, base, "mlx", tmp_path / "out")
    assert error.value.code == "export.not_for_format"
    assert not (tmp_path / "out").exists()
