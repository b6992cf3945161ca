"""`GRPOConfig` and `GRPOTrainer` as published: their defaults, live models, live rewards."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.codes import raises
from zoo.gym.config import load_config
from zoo.gym.config.rollouts import LIVE_REWARD
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.jobs import open_run, tail_events
from zoo.gym.published.grpo import DEFAULTS, GRPOConfig, GRPOTrainer
from zoo.gym.published.live_model import is_same_model, model_name
from zoo.gym.published.trainer import DELTA_FILE
from zoo.gym.train.online import spec_of
from zoo.models import pico_folder

ROWS: list[dict[str, object]] = [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in range(12)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return tmp_path


def live_model() -> Any:
    return AutoModelForCausalLM.from_pretrained(pico_folder())


def short(query: str, response: str) -> float:
    return -float(len(response))


def config(**settings: Any) -> GRPOConfig:
    small = {"group_size": 3, "max_steps": 1, "max_completion_length": 4, "cutoff_len": 64}
    return GRPOConfig(**(small | settings))


def test_the_defaults_are_the_published_ones() -> None:
    made = GRPOConfig()
    assert made.model_dump() == dict(DEFAULTS)
    settings = (made.group_size, made.num_train_epochs, made.beta, made.epsilon, made.temperature)
    assert settings == (5, 3.0, 0.1, 0.2, 0.7)
    assert (made.clip_range, made.scale_rewards, made.temperature_eval) == (0.2, "group", 0.3)


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"grpo_group_size": 3}, "group_size", 3),
        ({"grpo_beta": 0.5}, "beta", 0.5),
        ({"epsilon": 0.3, "num_iterations": 2}, "clip_range", 0.3),
        ({"grpo_clip_range": 0.3, "num_iterations": 2}, "epsilon", 0.3),
        ({"max_epochs": 2}, "num_train_epochs", 2.0),
        ({"normalize_advantages": False}, "scale_rewards", "none"),
        ({"temperature_train": 0.9}, "temperature", 0.9),
        ({"learning_rate": "1e-5"}, "learning_rate", 1e-5),
    ],
)
def test_each_published_name_sets_its_setting(
    settings: dict[str, Any], key: str, value: object
) -> None:
    made = GRPOConfig(**settings)
    assert getattr(made, key) == value
    assert GRPOConfig(**made.model_dump()).to_dict() == made.to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip_range": 0.1, "epsilon": 0.2}, "epsilon: already given as 'clip_range'"),
        ({"beta": 0.1, "grpo_beta": 0.1}, "grpo_beta: already given as 'beta'"),
        ({"group_sise": 3}, "group_sise: no such setting. Did you mean 'group_size'?"),
        ({"group_size": 1}, "group_size: expected 2 to 4,096, got 1"),
        ({"reward_model": "exact"}, "reward_model: expected settings of GRPO alone"),
        ({"temperature_eval": "cold"}, 'temperature_eval: expected a number, got "cold"'),
        ({"normalize_advantages": 1}, "normalize_advantages: expected bool, got 1"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        GRPOConfig(**settings)
    assert caught.value.message.startswith(message)


def test_settings_are_immutable() -> None:
    with raises("published.immutable", "beta: settings are immutable"):
        GRPOConfig().beta = 1


@pytest.mark.slow
def test_a_live_function_scores_the_answers_in_this_process(home: Path) -> None:
    asked: list[str] = []

    def reward(query: str, response: str) -> float:
        asked.append(query)
        return float(len(response) % 3)

    trainer = GRPOTrainer("zen-pico", None, config(val_size=0, clip_range=0.3), reward)
    result = trainer.train(ROWS[:4])
    assert set(asked) == {row["prompt"] for row in ROWS[:4]}
    run = open_run(result.run)
    stored = load_config([run.config_file], [], {}).config
    assert (stored.stage, stored.model_dump()["reward"]) == ("grpo", LIVE_REWARD)
    assert stored.model_dump()["beta"] == 0.1
    first = tail_events(run.events.path)[0][0]
    assert [one["key"] for one in first["without_effect"]] == ["epsilon", "temperature_eval"]
    with raises("train.reward_gone"):
        spec_of(stored)  # type: ignore[arg-type]


def test_a_function_is_a_reward_of_run_trainings_settings_too() -> None:
    made: Any = TrainConfig(model_name_or_path="m", dataset="d", stage="grpo", reward=short)
    assert (made.reward, made.live_reward) == (LIVE_REWARD, short)
    with raises("config.invalid", "reward: '3': no such reward"):
        TrainConfig(model_name_or_path="m", dataset="d", stage="grpo", reward=3)


@pytest.mark.slow
def test_a_live_model_is_trained_with_its_own_weights_and_left_alone(home: Path) -> None:
    model = live_model()
    weight = model.model.layers[0].mlp.up_proj.weight
    weight.data.mul_(1.5)
    before = weight.detach().clone()
    tokenizer = AutoTokenizer.from_pretrained(pico_folder())
    trainer = GRPOTrainer(model, model, config(), short, tokenizer)
    result = trainer.train(ROWS)
    assert bool((weight == before).all())
    base = json.loads((result.model / "adapter_config.json").read_text())
    assert Path(base["base_model_name_or_path"]) == Path(trainer.model)
    assert is_same_model(trainer.model, model)
    assert not is_same_model("zen-pico", model)


def test_a_live_model_that_is_unchanged_is_named_as_it_was_loaded(home: Path) -> None:
    assert model_name(live_model()) == str(pico_folder())
    assert list((home / "home").rglob("*.safetensors")) == []


def test_a_live_model_with_other_settings_is_written_with_them(home: Path) -> None:
    model = live_model()
    model.config.rms_norm_eps *= 2
    folder = Path(model_name(model))
    assert folder != pico_folder()
    written = json.loads((folder / "config.json").read_text())["rms_norm_eps"]
    assert written == model.config.rms_norm_eps


def test_another_reference_or_tokenizer_is_refused(home: Path) -> None:
    other = live_model()
    other.model.layers[0].mlp.up_proj.weight.data.mul_(1.5)
    with raises("published.not_supported", "ref_model: another reference than the base is not"):
        GRPOTrainer("zen-pico", other)
    tokenizer = AutoTokenizer.from_pretrained(pico_folder())
    tokenizer.chat_template = "{{ messages }}"
    with raises(
        "published.other_tokenizer", "tokenizer: expected the one of zen-pico, got another"
    ):
        GRPOTrainer("zen-pico", tokenizer=tokenizer)
    wrong: Any = 3
    with raises("published.bad_model", "model: expected a name, a folder or a model of trans"):
        GRPOTrainer(wrong)


@pytest.mark.slow
def test_the_rows_of_an_eval_dataset_alone_are_held_out(home: Path) -> None:
    seen: list[str] = []

    def reward(query: str, response: str, answer: object) -> float:
        seen.append(f"{query} {answer}")
        return float(len(response) % 2)

    trainer = GRPOTrainer("zen-pico", config=config(), reward_model=reward)
    columns = {"prompt": ["7 + 7 =", "8 + 8 ="], "answer": [14, 16]}
    result = trainer.train(ROWS[:4], eval_dataset=columns)
    split = json.loads((result.folder / "split.json").read_text())["split"]
    assert (split["rows"], split["held_out"]) == (6, [4, 5])
    plan = next(e for e in tail_events(open_run(result.run).events.path)[0] if e["kind"] == "plan")
    assert (plan["rows"], plan["held_out_rows"]) == (4, 2)
    assert "8 + 8 = 16" in seen


def test_an_eval_dataset_of_files_or_with_a_val_size_is_refused() -> None:
    trainer = GRPOTrainer("zen-pico", config=config(val_size=2))
    with raises("published.no_effect", "val_size: has no effect with an eval_dataset"):
        trainer.train(ROWS, ROWS)
    trainer = GRPOTrainer("zen-pico", config=config(max_samples=2))
    with raises("published.no_effect", "max_samples: not possible with an eval_dataset"):
        trainer.train(ROWS, ROWS)
    trainer = GRPOTrainer("zen-pico", config=config())
    with raises("published.bad_rows", "eval_dataset: expected rows, because"):
        trainer.train(ROWS, "my.jsonl")
    with raises("published.no_dataset", "train_dataset: not given"):
        trainer.train()


@pytest.mark.nightly
def test_a_trained_model_is_compressed_and_saved(home: Path) -> None:
    trainer = GRPOTrainer("zen-pico", config=config(), reward_model=short)
    trainer.train(ROWS)
    with warnings.catch_warnings():  # one step of such a reward may make answers worse
        warnings.simplefilter("ignore", GymWarning)
        header = trainer.compress_deltas().header
    assert (header.form, header.quality is not None) == ("lowrank", True)
    folder = trainer.save_model(home / "out")
    assert [file.name for file in folder.iterdir()] == [DELTA_FILE]
