"""ONNX graphs and programs of torch.export compute what was exported, and hold no pickles."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.export.conftest import random_model
from tests.gym.export.models import export, job_of, write_base, write_lora
from zoo.gym.data import load_tokenizer
from zoo.gym.delta.reading.weights import read_array
from zoo.gym.export import hf, onnx, program, run
from zoo.gym.export.job import Report
from zoo.gym.tuned.opened import Tuned

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.slow

NAME = "model.layers.0.self_attn.q_proj.weight"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("onnx") / "tiny")


@pytest.fixture(scope="module")
def lora(base: Path) -> Path:
    return write_lora(base.parent / "lora")


@pytest.fixture(scope="module")
def graphs(base: Path, lora: Path) -> Report:
    """The graphs of a fine-tune, which take some seconds."""
    return export(lora, base, "onnx", base.parent / "graphs")


def test_onnxruntime_computes_what_the_fine_tune_gives(graphs: Report) -> None:
    assert graphs.check is not None
    assert graphs.check["max_logprob_difference"] <= 1e-4
    assert graphs.check["cache_difference"] <= 1e-4
    assert graphs.check["by"] == "onnxruntime"


def test_both_graphs_share_one_file_of_weights(graphs: Report, base: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in graphs.path.iterdir()}
    weights = (base / "model.safetensors").stat().st_size
    assert weights * 0.9 < sizes["model.onnx.data"] < weights * 1.5
    assert max(sizes["model.onnx"], sizes["model_with_past.onnx"]) < 100_000
    assert "model.safetensors" not in sizes


def test_inputs_and_outputs_have_the_names_of_optimum(graphs: Report) -> None:
    from zoo.backends.onnx_files import open_graphs

    cached = open_graphs(graphs.path).cached
    inputs = [each.name for each in cached.get_inputs()]
    assert inputs[:3] == ["input_ids", "attention_mask", "position_ids"]
    assert inputs[3:] == ["past_key_values.0.key", "past_key_values.0.value"]
    outputs = [each.name for each in cached.get_outputs()]
    assert outputs == ["logits", "present.0.key", "present.0.value"]


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 5)])
def test_any_number_of_rows_and_tokens(
    shape: tuple[int, int], graphs: Report, base: Path, lora: Path
) -> None:
    import torch

    from zoo.backends.onnx_files import open_graphs
    from zoo.backends.plain import load_plain

    ids = np.random.default_rng(0).integers(0, 256, shape)
    with torch.inference_mode():
        expected = load_plain(base, lora)(torch.from_numpy(ids)).logits.numpy()
    session, mask = open_graphs(graphs.path), np.ones_like(ids)
    assert np.abs(session.logits(ids, mask) - expected).max() <= 1e-4
    assert np.abs(session.stepwise(ids, mask, 1) - expected).max() <= 1e-4


def test_the_tokenizer_the_ends_and_a_card_are_beside(graphs: Report, base: Path) -> None:
    assert load_tokenizer(graphs.path).chat_template == load_tokenizer(base).chat_template
    settings = json.loads((graphs.path / "generation_config.json").read_text())
    assert set(settings["eos_token_id"]) == {258, 259}
    card = (graphs.path / "README.md").read_text()
    assert "onnxruntime computes from it what the source gives" in card
    assert "past_key_values.N.key" in card


def test_the_line_for_tensorrt_names_all_inputs(graphs: Report) -> None:
    (line,) = (note for note in graphs.notes if "trtexec" in note)
    assert f"--onnx={graphs.path / 'model.onnx'}" in line
    assert "--minShapes=input_ids:1x1,attention_mask:1x1,position_ids:1x1" in line
    assert "--maxShapes=input_ids:8x256" in line


def _one_of_the_base(tuned: Tuned, name: str) -> Any:
    """Returns the base's values of one tensor, and the merged ones of all others."""
    return read_array(tuned.weights, name) if name == NAME else _MERGED(tuned, name)


_MERGED = Tuned.merged


def test_a_skipped_tensor_is_an_error_and_leaves_nothing(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuned, "merged", _one_of_the_base)
    with raises("export.other_results", r"torch\.export computes from it: expected a log-prob"):
        export(lora, base, "program", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_a_lost_tensor_of_a_graph_is_an_error_and_leaves_nothing(
    graphs: Report, base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_the_last(folder: Path, out: Path) -> None:
        del folder
        for file in graphs.path.glob("*.onnx*"):
            shutil.copyfile(file, out / file.name)
        data = bytearray((out / "model.onnx.data").read_bytes())
        data[-4096:] = bytes(4096)
        (out / "model.onnx.data").write_bytes(data)

    monkeypatch.setattr("zoo.backends.onnx_files.write_graphs", without_the_last)
    with raises("export.other_results", "onnxruntime computes from it: expected a log-prob"):
        export(lora, base, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _nothing(*_: object) -> None:
    """Stands for a step that is left out, or a package that is not there."""


def test_a_lost_template_is_an_error(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_lora(tmp_path / "own")
    (own / "chat_template.jinja").write_text(TEMPLATE)
    monkeypatch.setattr(hf, "write_own", _nothing)
    with raises("export.other_prompts"):
        export(own, base, "program", tmp_path / "out")


def test_lost_ends_are_an_error(
    base: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "write_model", _other_end)
    with raises("export.other_stops"):
        export(lora, base, "program", tmp_path / "out")


def _other_end(job: Any, folder: Path, dtype: Any) -> None:
    hf.write_model(job, folder, dtype)
    (folder / "generation_config.json").write_text('{"eos_token_id": 5}')


def test_a_cache_that_is_ignored_is_an_error(
    graphs: Report, base: Path, lora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.backends.onnx_files import Graphs, cache_difference, open_graphs

    prompts = [[5, 6, 7, 8], [9, 10]]
    opened = open_graphs(graphs.path)
    assert cache_difference(opened, prompts) <= 1e-4
    monkeypatch.setattr(Graphs, "stepwise", _without_past)
    assert cache_difference(opened, prompts) > 1e-2


def _without_past(graphs: Any, ids: Any, mask: Any, first: int) -> Any:
    del first
    steps = [graphs.logits(ids[:, i : i + 1], mask[:, i : i + 1]) for i in range(ids.shape[1])]
    return np.concatenate(steps, axis=1)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_extra_is_named(
    package: str, base: Path, lora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(name: str) -> object:
        return None if name == package else name

    monkeypatch.setattr("zoo.backends.onnx_files.find_spec", without)
    with raises("export.no_package", f"expected the package {package}, got") as error:
        run.preview(job_of(lora, base), "onnx")
    assert "onnx" in str(error.value.hint)


@pytest.mark.parametrize("form", ["onnx", "program"])
@pytest.mark.parametrize("option", ["quantization", "dtype", "strict", "name"])
def test_options_without_effect_are_refused(option: str, form: str, base: Path, lora: Path) -> None:
    given = True if option == "strict" else "f32"
    with raises("export.no_effect", f"--{option}: has no effect with --format {form}"):
        run.preview(job_of(lora, base, **{option: given}), form)


def test_a_stored_program_computes_what_the_fine_tune_gives(
    base: Path, lora: Path, tmp_path: Path
) -> None:
    report = export(lora, base, "program", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    content = zipfile.ZipFile(report.path / "model.pt2")
    stored = {name: content.read(name) for name in content.namelist()}
    assert not [name for name, data in stored.items() if data.startswith((b"PK", b"\x80"))]
    assert not [name for name, data in stored.items() if b"modeling_qwen3.py" in data]


def test_graphs_hold_no_paths_of_this_machine(graphs: Report) -> None:
    for file in (*graphs.path.glob("*.onnx"), graphs.path / "README.md"):
        assert b"site-packages" not in file.read_bytes()
        assert str(graphs.path).encode() not in file.read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["gemma2", "llama", "mistral", "phi3", "qwen2"])
def test_other_families(family: str, tmp_path: Path) -> None:
    window = {"sliding_window": 4} if family in {"gemma2", "mistral"} else {}
    model = random_model(tmp_path / "m", family, **window)
    report = export(model, model, "onnx", tmp_path / "out")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    assert report.check["cache_difference"] <= 1e-4


def test_a_model_that_remembers_otherwise_is_refused(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    from zoo.backends.torch.traced import load

    config = MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, state_size=4)
    MambaForCausalLM(config).save_pretrained(tmp_path / "m")
    with raises(
        "torch.cannot_be_traced", r"expected a model that torch\.export traces: it takes no"
    ):
        load(tmp_path / "m")
    assert onnx.trtexec(tmp_path / "a b.onnx", tmp_path / "m").startswith("trtexec '--onnx=")
