"""A merged folder is what base plus fine-tune computes, in a type that keeps it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.codes import raises
from tests.gym.export.conftest import MakeJob
from tests.gym.export.tuned import adapter, delta_of
from zoo.gym.delta import apply_delta
from zoo.gym.export import hf
from zoo.gym.export.run import export
from zoo.models import pico_folder


def test_an_adapter_is_added_to_every_matrix_in_float32(job: MakeJob, tmp_path: Path) -> None:
    made = job(adapter(tmp_path / "a"), dtype="f32")
    report = export(made, "hf", tmp_path / "m")
    written = load_file(tmp_path / "m/model.safetensors")
    assert {array.dtype for array in written.values()} == {np.dtype(np.float32)}
    for name in made.tuned.changes.names:
        assert np.array_equal(written[name], made.tuned.merged(name))
    assert report.check is not None
    assert report.check["mean_kl"] <= 1e-6


def test_a_delta_gives_the_bytes_of_delta_apply(job: MakeJob, tmp_path: Path) -> None:
    delta = delta_of(adapter(tmp_path / "a"), tmp_path / "d.safetensors")
    export(job(delta, dtype="f32"), "hf", tmp_path / "m")
    apply_delta(delta, base=pico_folder(), out=tmp_path / "applied")
    name = "model.safetensors"
    assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "applied" / name).read_bytes()


def test_a_type_that_loses_the_fine_tune_is_refused(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strong = adapter(tmp_path / "a", scale=6.0)
    monkeypatch.setattr(hf, "MAX_KL", 1e-7)
    words = "transformers computes from it: expected a mean KL"
    with raises("export.other_results", words) as refused:
        export(job(strong), "hf", tmp_path / "m")
    assert refused.value.hint == "--dtype f32"
    assert not (tmp_path / "m").exists()


def test_template_ends_and_tokenizer_are_in_the_folder(job: MakeJob, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    made = job("zen-pico", template="chatml")
    export(made, "hf", tmp_path / "m")
    written = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert written.chat_template == made.template
    assert "<|system|>" not in str(written.chat_template)
    ends = json.loads((tmp_path / "m/generation_config.json").read_text())["eos_token_id"]
    assert (ends if isinstance(ends, list) else [ends]) == list(made.stops)


def test_a_quantised_base_is_refused(job: MakeJob, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(pico_folder(), tmp_path / "b")
    config = json.loads((tmp_path / "b/config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "b/config.json").write_text(json.dumps(config))
    with raises("delta.quantized"):
        hf.preview(job(adapter(tmp_path / "a"), base=str(tmp_path / "b")))


def test_a_skipped_tensor_is_found(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(adapter(tmp_path / "a", scale=2.0), dtype="f32")
    changed = made.tuned.changes.names
    monkeypatch.setattr(made.tuned.changes, "names", changed[1:])
    with raises("export.other_results", "expected a mean KL"):
        export(made, "hf", tmp_path / "m")
    assert not (tmp_path / "m").exists()
