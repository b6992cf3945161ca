"""Trainers as published examples use them: settings, a run, its delta and its model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.chat import open_chat
from zoo.gym.config import load_config
from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.config.deltaquant import DeltaQuantConfig, QuantMethod
from zoo.gym.config.values import listed
from zoo.gym.delta import load_delta
from zoo.gym.delta.file.terms import LowRankTerm
from zoo.gym.errors import GymWarning
from zoo.gym.jobs import open_run
from zoo.gym.published.trainer import DELTA_FILE, Trainer, TrainingConfig
from zoo.gym.rounds.compute import applying
from zoo.gym.rounds.compute.applying import Applied
from zoo.models import resolve

ROWS = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return tmp_path


def config(**settings: Any) -> TrainingConfig:
    return TrainingConfig(model="zen-pico", algorithm="sft", max_steps=2, **settings)


def test_both_published_spellings_make_the_same_settings() -> None:
    short = TrainingConfig(model="zen-pico", algorithm="dpo", epochs=2)
    long = TrainingConfig(model_name_or_path="zen-pico", stage="dpo", num_train_epochs="2")
    assert short.to_dict() == long.to_dict()
    assert TrainingConfig("zen-pico", stage="dpo", max_epochs=2).to_dict() == short.to_dict()


def test_a_setting_is_an_attribute_under_each_of_its_names() -> None:
    made = TrainingConfig(model="zen-pico", algorithm="dpo", use_unsloth=True)
    assert (made.model, made.model_name_or_path, made.algorithm) == ("zen-pico", "zen-pico", "dpo")
    assert [one.key for one in made.without_effect] == ["use_unsloth"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"learning_rte": 1}, "learning_rte: no such setting. Did you mean 'learning_rate'?"),
    ({"quantization": {"method": "BitDelta", "bits": 3}}, "quantization: expected 1, 2, 4 or 8"),
    ({"quantization": {"method": "bitdelta", "bits": True}}, "quantization: expected 1, 2, 4 or 8"),
    ({"quantization": {"method": "bitdelta", "group_size": 64}}, "quantization: expected 4, 8"),
    ({"quantization": "bitdelta", "finetuning_type": "full"}, "quantization: has no effect with"),
    ({"quantization": "awq"}, "quantization: expected 4, 8, nf4, fp4, int8 or {method: bnb"),
    ({"serving": {"model_format": "gguf"}}, "serving: expected the file in zoo-gym serve --config"),
    ({"distributed": {"strategy": "deepspeed"}}, "distributed: strategy: DeepSpeed is not"),
    ({"algorithm": "sft"}, "algorithm: already given as 'stage'"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_what_is_not_there_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with raises("config.invalid") as caught:
        TrainingConfig(model="zen-pico", stage="sft", **settings)
    assert caught.value.message.startswith(message)


def test_a_model_that_is_given_twice_is_refused() -> None:
    with raises("published.given_twice", "model: the model is already given as the first arg"):
        TrainingConfig("zen-pico", model="zen-nano", stage="sft")


def test_settings_are_immutable() -> None:
    with raises("published.immutable", "seed: settings are immutable") as caught:
        config().seed = 3
    assert caught.value.hint == "TrainingConfig(**({**config.given, 'seed': 3}))"


def test_a_trainer_without_data_or_with_other_settings_is_refused() -> None:
    with raises("published.no_dataset", "dataset: not given: expected a file or rows"):
        Trainer(config()).train()
    wrong: Any = {"model": "zen-pico"}
    with raises("arguments.wrong_type", "config: expected TrainingConfig, got a mapping"):
        Trainer(wrong)


def test_an_export_before_training_is_refused() -> None:
    with raises("published.not_trained"):
        Trainer(config()).export("m.gguf")


@pytest.mark.slow
def test_an_export_has_the_format_of_its_ending_and_its_own_delta(home: Path) -> None:
    pytest.importorskip("xllamacpp")
    trainer = Trainer(config(dataset=ROWS))
    trainer.train()
    report = trainer.export(home / "m.gguf", quantization="f32")
    assert (report.format, report.facts["types"]) == ("gguf", {"F32": 46})
    assert report.check is not None
    assert report.check["max_logprob_difference"] <= 1e-4
    coded = trainer.export(home / "c.gguf", quantization="BitDelta")
    assert coded.facts["types"] == {"F16": 29, "F32": 17}
    assert load_delta(home / "c.delta.safetensors").header.recipe
    assert (home / "c-lora.gguf").is_file()
    assert any("coded in" in note for note in coded.notes)
    with raises("export.bad_quantization", "quantization: expected one of"):
        trainer.export(home / "x.gguf", quantization="q9")


def test_without_a_result_of_a_round_nothing_is_applied_and_that_is_said(home: Path) -> None:
    trainer = Trainer(config())
    with pytest.warns(GymWarning, match="no result of a round was applied to zen-pico"):
        assert trainer.apply_deltasoup() is None


@pytest.mark.slow
def test_the_next_run_trains_on_the_result_that_was_applied(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pico = resolve("zen-pico").folder
    other = shutil.copytree(pico, home / "base-plus-result")
    found = Applied("0" * 64, pico, other, "1" * 64)
    monkeypatch.setattr(applying, "applied_results", lambda: [found])
    with raises("rounds.model_changed", "plus result 111111111111 as it was written"):
        Trainer(config()).apply_deltasoup()
    monkeypatch.setattr(applying, "refuse_changed", lambda _: None)
    trainer = Trainer(config())
    assert trainer.apply_deltasoup() == found
    result = trainer.train(dataset=ROWS)
    stored = load_config([open_run(result.run).config_file], [], {}).config
    assert stored.model_name_or_path == str(other)


def test_nothing_is_saved_before_there_is_a_model(home: Path) -> None:
    with raises("published.not_trained"):
        Trainer(config()).save_model(home / "out")


@pytest.mark.slow
def test_a_trained_model_is_saved_and_answers(home: Path) -> None:
    trainer = Trainer(config(lora_rank=4, template="qwen3"))
    result = trainer.train(dataset=ROWS)
    stored = load_config([open_run(result.run).config_file], [], {}).config
    assert (stored.max_steps, stored.lora_rank) == (2, 4)
    env = json.loads((result.folder / "env.json").read_text())
    assert [one["key"] for one in env["without_effect"]] == ["template"]
    folder = trainer.save_model(home / "out")
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == 4
    with open_chat("zen-pico", adapter=folder, max_new_tokens=2) as session:
        session.answer("Say 1.")
    with raises("files.folder_not_empty"):
        trainer.save_model(home / "out")


@pytest.mark.slow
def test_a_compressed_model_is_a_delta_that_answers(home: Path) -> None:
    trainer = Trainer(config(dataset=ROWS))
    trainer.train()
    sizes: dict[int, int] = {}
    for bits in (1, 4):
        made: Any = BitDeltaConfig(bits=bits)
        delta = trainer.compress_deltas(made)
        assert delta.header.quality is not None
        sizes[bits] = delta.file_bytes
    assert sizes[1] < sizes[4]
    folder = trainer.save_model(home / "out")
    assert [file.name for file in folder.iterdir()] == [DELTA_FILE]
    with open_chat("zen-pico", delta=folder / DELTA_FILE, max_new_tokens=2) as session:
        session.answer("Say 1.")


@pytest.mark.slow
def test_deltaquant_codes_layers_and_measures_as_many_rows_as_its_settings_say(home: Path) -> None:
    trainer = Trainer(config(dataset=ROWS, val_size=4))
    trainer.train()
    for method in (QuantMethod.INT4, QuantMethod.BINARY):
        settings = DeltaQuantConfig(
            method=method, sensitive_layers=("*.q_proj",), calibration_samples=3
        )
        delta = trainer.compress_deltas(settings)
        assert delta.header.quality is not None
        assert delta.header.quality.rows == 3
        codecs = {
            tensor.name: term.A
            for tensor in delta.header.tensors
            for term in tensor.terms
            if isinstance(term, LowRankTerm)
        }
        for name, codec in codecs.items():
            others = "sign" if method is QuantMethod.BINARY else "int4"
            assert codec == ("int8" if "q_proj" in name else others)
        assert any("q_proj" in name for name in codecs)
    folder = trainer.save_model(home / "out")
    with open_chat("zen-pico", delta=folder / DELTA_FILE, max_new_tokens=2) as session:
        session.answer("Say 1.")


def test_a_delta_of_other_settings_is_refused(home: Path) -> None:
    wrong: Any = {"bits": 1}
    with raises("arguments.wrong_type", "config: expected BitDeltaConfig, got a mapping"):
        Trainer(config()).compress_deltas(wrong)


def test_columns_of_a_dataset_become_rows() -> None:
    assert listed({"a": [1, 2], "b": [3, 4]}) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    ragged: dict[str, list[int]] = {"a": [1, 2], "b": [3]}
    assert listed(ragged) is ragged


def test_ragged_columns_are_refused() -> None:
    with raises("config.invalid", "dataset: expected a file or a list of files, got a map"):
        TrainingConfig(model="zen-pico", dataset={"prompt": ["a"], "completion": []})
