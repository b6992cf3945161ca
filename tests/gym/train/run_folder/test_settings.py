"""Settings that a run began with: kept on a resume, changed only by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig, dump_config, load_values
from zoo.gym.errors import InputError
from zoo.gym.train.run_folder.pinned import base_name, pinned
from zoo.gym.train.run_folder.settings import (
    change_settings,
    finish_at,
    recipe_of,
    record_change,
    store_settings,
    stored_settings,
    update_env,
)
from zoo.models import Resolved

BEGAN = TrainConfig(
    model_name_or_path="zen-pico", dataset=("a",), learning_rate=0.25, max_steps=9, seed=1
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A run's config.yaml and env.json."""
    folder = tmp_path / "r0007"
    folder.mkdir()
    env_file = folder / "env.json"
    env_file.write_text("{}")
    store_settings(folder / "config.yaml", env_file, BEGAN)
    return folder / "config.yaml", env_file


def edit(config_file: Path, **values: Any) -> None:
    config_file.write_text(dump_config(BEGAN.model_copy(update=values)))


def test_settings_that_nobody_edited_are_those_that_the_run_began_with(
    files: tuple[Path, Path],
) -> None:
    assert stored_settings(*files) == BEGAN


def test_a_run_from_before_a_key_goes_on_as_it_was_trained(files: tuple[Path, Path]) -> None:
    config_file, env_file = files
    lines = config_file.read_text().splitlines(keepends=True)
    config_file.write_text("".join(line for line in lines if not line.startswith("append_eos")))
    env = json.loads(env_file.read_text())
    del env["settings"]["append_eos"]
    env_file.write_text(json.dumps(env))
    assert stored_settings(*files) == BEGAN.model_copy(update={"append_eos": False})


@pytest.mark.parametrize("stage", ["sft", "grpo", "gspo", "rloo"])
def test_a_run_without_held_out_rows_begins_and_goes_on(tmp_path: Path, stage: str) -> None:
    files = tmp_path / "config.yaml", tmp_path / "env.json"
    values = {"model_name_or_path": "zen-pico", "dataset": ("a",), "stage": stage, "val_size": 0}
    began = load_values(values).config
    files[0].write_text(dump_config(began))
    files[1].write_text(json.dumps({"settings": began.model_dump(mode="json")}))
    assert stored_settings(*files) == began
    store_settings(*files, began)
    assert stored_settings(*files) == began


def test_every_edited_setting_is_refused_by_name(files: tuple[Path, Path]) -> None:
    edit(files[0], learning_rate=0.5, lora_rank=4)
    with raises("train.edited") as caught:
        stored_settings(*files)
    lines = caught.value.message.splitlines()
    ends = [line.partition("config.yaml: ")[2] for line in lines]
    assert ends == [
        "lora_rank was edited since the run began: expected 16, got 4",
        "learning_rate was edited since the run began: expected 0.25, got 0.5",
    ]
    assert "start a new run" in str(caught.value.hint)


def test_an_edit_of_what_a_resume_may_change_names_the_command(files: tuple[Path, Path]) -> None:
    edit(files[0], max_steps=12)
    with raises("train.edited") as caught:
        stored_settings(*files)
    assert "zoo-gym runs resume r0007 --set max_steps=12" in str(caught.value.hint)


def test_a_change_by_name_holds_and_is_recorded(files: tuple[Path, Path]) -> None:
    items = ["max_steps=12", "learning_rate=1e-3"]
    assert change_settings(*files, items, 4) == {
        "learning_rate": (0.25, 0.001),
        "max_steps": (9, 12),
    }
    config = stored_settings(*files)
    assert (config.max_steps, config.learning_rate) == (12, 0.001)
    [entry] = json.loads(files[1].read_text())["changes"]
    assert entry["changed"] == {"learning_rate": [0.25, 0.001], "max_steps": [9, 12]}
    assert entry["step"] == 4


@pytest.mark.slow
def test_a_step_keeps_its_batches_with_other_processes(files: tuple[Path, Path]) -> None:
    began = BEGAN.model_copy(
        update={"num_processes": 2, "gradient_accumulation_steps": 2, "sharding": "full"}
    )
    store_settings(*files, began)
    change_settings(*files, ["num_processes=1", "sharding=none"], 3)
    after = stored_settings(*files)
    assert (after.num_processes, after.gradient_accumulation_steps) == (1, 4)
    assert after.sharding == "none"
    with raises("train.bad_change", "num_processes: expected a number that divides the 4"):
        change_settings(*files, ["num_processes=3"], 3)
    with raises("config.one_process"):
        change_settings(*files, ["sharding=full"], 3)


@pytest.mark.parametrize("steps", [4, 5])
def test_a_run_is_not_cut_within_its_warmup(files: tuple[Path, Path], steps: int) -> None:
    store_settings(*files, BEGAN.model_copy(update={"warmup_steps": 5}))
    with raises("train.bad_change", "max_steps: expected more than the 5 warm-up") as caught:
        change_settings(*files, [f"max_steps={steps}"], 4)
    assert "zoo-gym runs finish r0007" in str(caught.value.hint)


def test_a_recipe_lists_what_the_settings_at_the_end_do_not_say(files: tuple[Path, Path]) -> None:
    change_settings(*files, ["learning_rate=1e-3"], 4)
    record_change(files[1], 4, {"versions": {"torch": ("1", "2")}})
    finish_at(files[1], 6)
    changed = {"step": 4, "changed": {"learning_rate": [0.25, 0.001]}}
    assert recipe_of(files[1]) == {"changes": [changed], "finished_at_step": 6}


def test_another_device_chooses_anew_how_16_bits_are_multiplied(files: tuple[Path, Path]) -> None:
    began = BEGAN.model_copy(update={"dtype": "bf16-widened"})
    store_settings(*files, began)
    assert change_settings(*files, ["device=cpu"], 0) == {
        "device": (None, "cpu"),
        "dtype": ("bf16-widened", "auto"),
    }
    assert change_settings(*files, ["device=cpu"], 0) == {}


@pytest.mark.parametrize(("before", "after"), [("cpu", "mlx"), ("mlx", "cpu")])
def test_codes_of_one_engine_are_not_continued_on_those_of_another(
    files: tuple[Path, Path], before: str, after: str
) -> None:
    update_env(files[1], {"device": before})
    store_settings(*files, BEGAN.model_copy(update={"quantization_bit": 4}))
    with raises("train.bad_change", f"device: expected the engine .* got {after}, whose cod"):
        change_settings(*files, [f"device={after}"], 0)
    assert change_settings(*files, [f"device={before}"], 0) == {}
    store_settings(*files, BEGAN)
    assert change_settings(*files, [f"device={after}"], 0)


def test_the_same_device_keeps_how_weights_are_multiplied(files: tuple[Path, Path]) -> None:
    change_settings(*files, ["device=cpu"], 0)
    store_settings(*files, BEGAN.model_copy(update={"dtype": "bf16"}))
    assert change_settings(*files, ["device=cpu"], 0) == {}


def test_a_change_by_name_does_not_let_another_edit_through(files: tuple[Path, Path]) -> None:
    edit(files[0], seed=2, max_steps=12)
    with raises("train.edited", "seed was edited") as caught:
        change_settings(*files, ["max_steps=12"], 0)
    assert "max_steps" not in caught.value.message


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("seed=3", "--set seed: expected one of max_steps, learning_rate, save_steps, eval_steps"),
        ("max_step=3", "Did you mean 'max_steps'"),
        ("max_steps", "expected KEY=VALUE"),
        ("max_steps=", "expected a value, got nothing"),
        ("max_steps=many", 'max_steps: expected a whole number, got "many"'),
        ("max_steps=3", "max_steps: expected at least 4, the step of the newest checkpoint, got 3"),
        ("device=tpu", "expected one of cuda, mlx, mps, xpu, cpu, got 'tpu'"),
    ],
)
def test_a_change_that_does_not_do_is_refused(
    files: tuple[Path, Path], item: str, said: str
) -> None:
    before = [file.read_text() for file in files]
    with pytest.raises(InputError) as caught:
        change_settings(*files, [item], 4)
    assert said in caught.value.message
    assert [file.read_text() for file in files] == before


def test_a_kill_between_the_two_files_is_no_edit(files: tuple[Path, Path]) -> None:
    edit(files[0], learning_rate=None, max_steps=None)  # the plan reached env.json alone
    assert stored_settings(*files) == BEGAN


@pytest.mark.parametrize(
    "content", ["", "[]", "[" * 50_000, '{"settings": {"seed": []}}', "\ud800"]
)
def test_a_damaged_environment_is_a_sentence(files: tuple[Path, Path], content: str) -> None:
    files[1].write_text(content, errors="surrogatepass")
    with raises("train.damaged_file", "env\\.json") as caught:
        stored_settings(*files)
    assert caught.value.hint


def test_a_snapshot_is_recorded_by_its_name_only_where_the_name_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision, cache = "0" * 40, tmp_path / "hub"
    folder = cache / "models--org--name" / "snapshots" / revision
    folder.mkdir(parents=True)
    (tmp_path / "rows.jsonl").write_text("{}\n")
    model = Resolved(str(folder), "org/name", revision, folder)
    config = TrainConfig(model_name_or_path=str(folder), dataset=str(tmp_path / "rows.jsonl"))
    for place, expected in ((cache, f"org/name@{revision}"), (tmp_path / "other", str(folder))):
        monkeypatch.setenv("HF_HUB_CACHE", str(place))
        assert pinned(config, model).model_name_or_path == expected
        assert base_name(model) == expected.partition("@")[0]
