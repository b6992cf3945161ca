"""An adapter in GGUF on a base in GGUF computes what peft does; wrong ones are found."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.export.conftest import MakeJob, random_model
from tests.gym.export.tuned import adapter, adapter_of, delta_of, peft_adapter
from zoo.gym.export import gguf_lora
from zoo.gym.export.run import export
from zoo.models.gguf.writing import tensors, writer

pytest.importorskip("xllamacpp")


def test_it_is_within_the_rounding_of_a_base_in_float16(job: MakeJob, tmp_path: Path) -> None:
    report = export(job(adapter(tmp_path / "a")), "gguf-lora", tmp_path / "a.gguf")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 2e-2
    assert report.check["kl_of_base"] > 1e-3  # it changes something


def test_a_small_delta_is_one_too(job: MakeJob, tmp_path: Path) -> None:
    delta = delta_of(adapter(tmp_path / "a"), tmp_path / "d.safetensors")
    report = export(job(delta, quantization="f16"), "gguf-lora", tmp_path / "d.gguf")
    assert report.facts["type"] == "F16"
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 2e-2


def test_ranks_that_differ_have_zeros_and_one_alpha(job: MakeJob, tmp_path: Path) -> None:
    lora = peft_adapter(
        tmp_path / "a", rank_pattern={"q_proj": 2}, alpha_pattern={"o_proj": 32}, use_rslora=True
    )
    report = export(job(lora), "gguf-lora", tmp_path / "a.gguf")
    assert report.facts["rank"] == 4
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 2e-2


def test_queries_of_llama_are_permuted_in_it(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(tmp_path / "model", "llama")
    lora = adapter_of(model, tmp_path / "a", scale=4.0)
    made = job(lora, base=str(model))
    assert export(made, "gguf-lora", tmp_path / "a.gguf").check is not None
    contents = gguf_lora._contents

    def unpermuted(place: tensors.Tensor, *arguments: Any) -> Any:
        same = tensors.Tensor(place.name, place.shape, place.parts, lambda rows: rows)
        return contents(same, *arguments)

    monkeypatch.setattr(gguf_lora, "_contents", unpermuted)
    with raises("export.other_results", "expected a log-probability within"):
        export(made, "gguf-lora", tmp_path / "b.gguf")
    assert not (tmp_path / "b.gguf").exists()


def test_a_lost_alpha_is_found(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writer.write_file
    monkeypatch.setattr(
        gguf_lora,
        "write_file",
        lambda path, keys, contents: write(path, keys | {"adapter.lora.alpha": 1.0}, contents),
    )
    with raises("export.other_results", "expected a log-probability within"):
        export(job(adapter(tmp_path / "a", scale=2.0)), "gguf-lora", tmp_path / "a.gguf")


def test_dora_is_refused_and_merged_instead(job: MakeJob, tmp_path: Path) -> None:
    from zoo.gym.export.run import prepared

    dora = peft_adapter(tmp_path / "a", use_dora=True)
    with raises("export.not_low_rank", "DoRA's magnitudes") as refused:
        export(job(dora), "gguf-lora", tmp_path / "a.gguf")
    assert "--format gguf" in str(refused.value.hint)
    with prepared(job(dora, quantization="f32"), "gguf") as ready:
        report = export(ready, "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-3


def test_a_saved_head_is_untied_from_the_embedding(job: MakeJob, tmp_path: Path) -> None:
    from zoo.gym.export.run import prepared
    from zoo.models.gguf.parts import open_gguf

    saved = peft_adapter(tmp_path / "a", modules_to_save=["lm_head"])
    with prepared(job(saved, quantization="f32"), "gguf") as ready:
        report = export(ready, "gguf", tmp_path / "m.gguf")
    assert "output.weight" in open_gguf(tmp_path / "m.gguf").tensors
    assert report.check is not None
    assert report.check["mean_kl"] <= 1e-6


def test_whole_weights_are_refused(job: MakeJob) -> None:
    with raises("export.not_low_rank", "got whole weights"):
        gguf_lora.preview(job("zen-pico"))


def test_factors_are_padded_without_a_change() -> None:
    place = tensors.Tensor("x", (3, 2), ("x",), lambda rows: rows)
    A, B = np.ones((1, 2), np.float32), np.arange(3, dtype=np.float32)[None]
    (_, _, _, wide), (_, _, _, tall) = gguf_lora._contents(place, A, B, 2, "F32")
    assert np.array_equal(tall() @ wide(), B.T @ A)
