"""The published functions `get_train_args` and `run_sft`: the same settings, the same run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import load_config
from zoo.gym.errors import InputError
from zoo.gym.jobs import open_run, tail_events
from zoo.gym.published.hparams import FIVE, Arguments, get_train_args
from zoo.gym.train import run_sft

GIVEN: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": "my.jsonl"}
ROWS = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]


def test_the_five_objects_have_every_setting_once() -> None:
    given = GIVEN | {"output_dir": "out", "lora_rank": 8, "seed": 7, "cutoff_len": 64}
    parts = get_train_args(given)
    assert tuple(map(type, parts)) == FIVE
    model, data, training, finetuning, _ = (part.to_dict() for part in parts)
    assert (model["model_name_or_path"], data["cutoff_len"]) == ("zen-pico", 64)
    assert (training["output_dir"], training["seed"], finetuning["lora_rank"]) == ("out", 7, 8)
    keys = [key for part in parts for key in part.to_dict()]
    config = load_config([], [f"{key}={value}" for key, value in given.items()], {}).config
    assert sorted(keys) == sorted(type(config).model_fields)


def test_a_setting_is_an_attribute() -> None:
    assert get_train_args(GIVEN | {"output_dir": "out"})[2].output_dir == "out"


def test_published_spellings_and_numbers_as_text_are_read() -> None:
    given = {"model": "zen-pico", "data": "my.jsonl", "epochs": 2, "learning_rate": "5e-5"}
    training = get_train_args(given)[2]
    assert (training.num_train_epochs, training.learning_rate) == (2.0, 5e-5)


def test_words_of_a_command_line_are_read_alike(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("seed: 7\n")
    words = [str(file), "--model=zen-pico", "--dataset", "my.jsonl", "--do_train", "--use-rslora"]
    parts = get_train_args([*words, "max_steps=3"])
    same = get_train_args(GIVEN | {"seed": 7, "use_rslora": True, "max_steps": 3})
    assert [part.to_dict() for part in parts] == [part.to_dict() for part in same]
    assert [one.key for one in parts[2].without_effect] == ["do_train"]


def test_none_takes_the_words_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prog", "--model", "zen-pico", "dataset=my.jsonl"])
    assert get_train_args()[0].model_name_or_path == "zen-pico"


REFUSED: list[tuple[Any, str]] = [
    (GIVEN | {"learning_rte": 1}, "learning_rte: no such setting. Did you mean 'learning_rate'?"),
    (GIVEN | {"lora_rank": 0, "seed": -1}, "lora_rank: expected 1 to 4,096, got 0\nseed: "),
    (GIVEN | {"quantization_bit": 5}, "quantization_bit: expected 2, 3, 4, 6 or 8, got 5"),
    (GIVEN | {"model": "zen-nano"}, "model: already given as 'model_name_or_path'"),
    ({"model": "zen-pico"}, "dataset: not given"),
    ("train.yaml", 'args: expected settings by name or a list of words, got "train.yaml"'),
    (["train"], "train: expected --key value, key=value or a .yaml file of settings"),
]


@pytest.mark.parametrize(("args", "message"), REFUSED)
def test_wrong_settings_are_refused_by_name(args: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        get_train_args(args)
    assert caught.value.message.startswith(message)


def test_settings_are_immutable_and_a_wrong_name_suggests_the_right_one() -> None:
    training = get_train_args(GIVEN)[2]
    with raises("published.immutable", "seed: settings are immutable"):
        training.seed = 3
    with pytest.raises(AttributeError, match=r"no setting 'sead'\. Did you mean 'seed'\?"):
        _ = training.sead


@pytest.mark.slow
def test_run_sft_trains_with_the_settings_of_all_five(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    given = {"model": "zen-pico", "dataset": ROWS, "max_steps": 2, "lora_rank": 4, "cutoff_len": 32}
    given["date"] = "2024-07-26"  # the template of zen-pico prints none
    parts = get_train_args(given | {"template": "qwen3", "output_dir": tmp_path / "out"})
    result = run_sft(*parts)
    settings = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (settings["r"], result.metrics["steps"]) == (4, 2)
    run = open_run(result.run)
    assert load_config([run.config_file], [], {}).config.cutoff_len == 32
    first = tail_events(run.events.path)[0][0]
    assert [one["key"] for one in first["without_effect"]] == ["template", "date"]


def test_run_sft_refuses_what_it_would_ignore() -> None:
    parts = get_train_args(GIVEN)
    with raises("published.not_supported", "callbacks: not supported"):
        run_sft(*parts, callbacks=[print])
    with raises("published.bad_argument", 'stage: run_sft trains with stage sft, got "dpo"'):
        run_sft(*get_train_args(GIVEN | {"stage": "dpo"}))
    wrong: Any = (parts[1], parts[0], *parts[2:])
    with raises("arguments.wrong_type", "model_args: expected ModelArguments, got a value of"):
        run_sft(*wrong)


@pytest.mark.slow
def test_the_published_imports_load_nothing_heavy() -> None:
    code = (
        "import sys\nfrom zoo.gym.train import run_sft\nfrom zoo.gym.hparams import get_train_args"
        "\nprint({'torch', 'numpy', 'transformers', 'peft'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_each_object_shows_its_settings() -> None:
    part: Arguments = get_train_args(GIVEN)[0]
    assert "model_name_or_path" in dir(part)
    assert repr(part).startswith("ModelArguments({'model_name_or_path': 'zen-pico'")
