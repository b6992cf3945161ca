"""Training with the factors of an adapter in few bits, and the delta that loses nothing of it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.policies import moved
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.gym import TrainConfig, create_delta, run_training
from zoo.gym.cli import main
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.codecs.lowrank import decode_factors
from zoo.gym.delta.file.reader import load_delta, tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm
from zoo.gym.delta.reading.adapter import read_adapter, read_factors
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.jobs import open_run
from zoo.gym.published.trainer import Trainer, TrainingConfig
from zoo.models import pico_folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bits", "alpha", "dtype"),
    [(1, 8.0, "f32"), (1, 24.0, "bf16"), (2, 24.0, "f32"), (4, 24.0, "f32"), (8, 24.0, "f32")],
)
def test_a_delta_of_the_trained_bits_loses_nothing(
    tmp_path: Path, bits: Any, alpha: float, dtype: str
) -> None:
    base, result = pico_folder(), tmp_path / "result"
    spec = LoraSpec(rank=4, alpha=alpha, delta_bits=bits)
    policy = moved(load_backend("cpu").load(base, LoadSpec(train=spec, dtype=dtype)))
    policy.save_result(result, base=str(base))
    adapter = read_adapter(result, open_weights(base))

    def lost(bits: Any) -> float:
        config, out = DeltaConfig(bits=bits), tmp_path / f"{bits}.safetensors"
        delta = load_delta(create_delta(result, base=base, out=out, config=config).file)
        worst = 0.0
        for tensor in delta.header.tensors:
            [term] = tensor.terms
            assert isinstance(term, LowRankTerm)
            decoded = decode_factors(term, tensor_parts(delta, tensor), tensor.shape)
            for mine, theirs in zip(read_factors(adapter, tensor.name), decoded, strict=True):
                worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(mine).max()))
        return worst

    assert lost(bits) < 1e-6
    assert bits == 1 or lost(bits // 2) > 1e-2


@pytest.mark.slow
def test_create_codes_a_run_in_the_bits_that_it_was_trained_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    settings: dict[str, Any] = {"delta_bits": 4, "max_steps": 2, "val_size": 0, "retention": False}
    config = TrainConfig(model_name_or_path="zen-pico", dataset=rows, **settings)
    run = run_training(config).run
    out = str(tmp_path / "d.safetensors")
    assert main(["delta", "create", run, "--out", out]) == 0
    assert "coded in 4 bits a value, as it was trained" in capsys.readouterr().err
    [term] = load_delta(Path(out)).header.tensors[0].terms
    assert (term.kind, getattr(term, "A", None)) == ("lowrank", "int4")
    assert main(["delta", "create", run, "--out", out, "--force", "--distill", "auto"]) == 2
    assert "--distill: expected a coding that loses something, got the 4" in capsys.readouterr().err
    python = create_delta(open_run(run).result, base=pico_folder(), out=out, force=True)
    [term] = load_delta(python.file).header.tensors[0].terms
    assert getattr(term, "A", None) == "int4"
    assert main(["delta", "create", run, "--out", out, "--force", "--bits", "1"]) == 0
    [term] = load_delta(Path(out)).header.tensors[0].terms
    assert getattr(term, "A", None) == "sign"


@pytest.mark.slow
def test_a_trainer_keeps_the_bits_of_its_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    published = {"method": "bitdelta", "bits": 4}
    config = TrainingConfig(
        model="zen-pico", algorithm="sft", max_steps=2, val_size=0, quantization=published
    )
    trainer = Trainer(config)
    result = trainer.train(rows)
    [term] = trainer.compress_deltas().header.tensors[0].terms
    assert getattr(term, "A", None) == "int4"
    copy = shutil.copytree(result.model, tmp_path / "copy")
    delta = create_delta(copy, base=pico_folder(), out=tmp_path / "copy.safetensors")
    [term] = load_delta(delta.file).header.tensors[0].terms
    assert getattr(term, "A", None) == "int4"
