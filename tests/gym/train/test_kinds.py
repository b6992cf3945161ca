"""Every kind of training as a run: it learns, survives a kill, and gives a delta or refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.night import one_in
from zoo.gym import run_training
from zoo.gym.cli import main
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.demo.words import backward, make_words, prompt
from zoo.gym.jobs import Run, create_run
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session

KINDS: dict[str, dict[str, Any]] = {
    "dora": {"finetuning_type": "dora"},
    "pissa": {"pissa_init": True, "lora_dropout": 0.1},
    "loftq": {"loftq_init": True, "quantization_bit": 4},
    "oft": {"finetuning_type": "oft", "module_dropout": 0.1},
    "whole": {"additional_target": "embed_tokens,norm"},
    "fixed": {"lora_fixed_a": "5a" * 32},
    "freeze": {"finetuning_type": "freeze", "freeze_extra_modules": "norm"},
}
"""The settings of each kind but plain lora and full, which other tests cover."""

NO_DELTA = {
    "dora": "use_dora: a low-rank delta cannot carry DoRA's magnitudes",
    "whole": "modules_to_save: a low-rank delta cannot carry whole modules",
    "loftq": "loftq_config: a low-rank delta cannot carry an adapter for a quantised base",
    "oft": "peft_type: expected 'LORA', got 'OFT'",
}
"""What the refusal of a delta names."""

DIES_AT_5 = """
import os, signal, sys
from pathlib import Path
from zoo.gym.jobs import Run, tail_events
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session
run = Run(Path(sys.argv[1]))
def leaving():
    if any(event.get("step") == 5 for event in tail_events(run.events.path)[0]):
        os.kill(os.getpid(), signal.SIGKILL)
run_session(stored_settings(run.config_file, run.env_file), run, leaving)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


def config(folder: Path, **settings: Any) -> TrainConfig:
    words = make_words(240, 10).train
    rows = [{"prompt": prompt(word), "completion": backward(word)} for word in words]
    (folder / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shared = {
        "model_name_or_path": "zen-pico",
        "dataset": str(folder / "words.jsonl"),
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "date": "2026-01-01",
    }
    return TrainConfig.model_validate({**shared, **settings})


def started(config: TrainConfig) -> Run:
    return create_run(dump_config(config), {"settings": config.model_dump(mode="json")})


def result_bytes(run: Run) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in run.result.glob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize("kind", one_in(3, KINDS))
def test_thirty_steps_lower_the_held_out_loss_and_end_in_a_delta_or_its_refusal(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_training(config(tmp_path, max_steps=30, **KINDS[kind]))
    assert result.metrics["best_loss"] < 0.95 * result.metrics["base_loss"]
    capsys.readouterr()
    code = main(["delta", "create", result.run, "--out", str(tmp_path / "a.safetensors"), "--json"])
    said = capsys.readouterr()
    assert (code, NO_DELTA.get(kind, "") in said.err) == (2 if kind in NO_DELTA else 0, True)


@pytest.mark.nightly  # jobs/test_survival_kinds.py kills some kinds among slow tests
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_ends_with_the_same_bytes_as_one_that_was_not(
    kind: str, tmp_path: Path
) -> None:
    settings = config(tmp_path, max_steps=6, save_steps=2, eval_steps=3, **KINDS[kind])
    whole, killed = started(settings), started(settings)
    run_session(settings, whole, lambda: None)
    words = [sys.executable, "-c", DIES_AT_5, str(killed.folder)]
    assert subprocess.run(words, env=os.environ, check=False).returncode == -9
    assert not killed.result.exists()
    run_session(stored_settings(killed.config_file, killed.env_file), killed, lambda: None)
    assert result_bytes(killed) == result_bytes(whole)


@pytest.mark.slow
def test_an_adapter_is_trained_further_from_where_it_was(tmp_path: Path) -> None:
    first = run_training(config(tmp_path, max_steps=10))
    again = config(tmp_path, max_steps=6, save_steps=2, adapter_name_or_path=str(first.model))
    whole, killed = started(again), started(again)
    metrics: Any = run_session(again, whole, lambda: None)["metrics"]
    assert metrics["base_loss"] == pytest.approx(first.metrics["best_loss"], rel=1e-6)
    assert metrics["best_loss"] < metrics["base_loss"]
    words = [sys.executable, "-c", DIES_AT_5, str(killed.folder)]
    assert subprocess.run(words, env=os.environ, check=False).returncode == -9
    run_session(stored_settings(killed.config_file, killed.env_file), killed, lambda: None)
    assert result_bytes(killed) == result_bytes(whole)
    card = (whole.result / "README.md").read_text()
    assert "Trained on top of an adapter" in card
    assert str(first.model) not in card
    stored = stored_settings(whole.config_file, whole.env_file)
    assert Path(stored.adapter_name_or_path or "").is_absolute()


@pytest.mark.slow
def test_a_folder_without_an_adapter_is_refused_before_there_is_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = config(tmp_path).dataset[0]
    words = ["train", rows, "--model", "zen-pico", "--adapter_name_or_path", str(tmp_path)]
    assert main([*words, "--json"]) == 2
    assert "adapter_name_or_path: expected a folder with adapter_c" in capsys.readouterr().err
    assert not (tmp_path / "home" / "data" / "runs").exists()
    assert main([*words[:-1], "one,other", "--json"]) == 2
    assert "adapter_name_or_path: expected one adapter, got several" in capsys.readouterr().err
    assert main([*words[:-1], "nowhere", "--json"]) == 2
    assert "adapter_name_or_path: expected a folder with adapter_c" in capsys.readouterr().err
