"""What `zoo.gym` shows a new user, and what its functions leave behind in the caller's program."""

import json
import pydoc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import zoo.gym
import zoo.gym.personalization
import zoo.gym.quantization
from tests.codes import raises
from zoo.gym import (
    DeltaConfig,
    InputError,
    TrainConfig,
    create_delta,
    generate,
    open_chat,
    quality_input,
    run_training,
)
from zoo.gym.jobs import open_run
from zoo.gym.train.run_folder.env import check_as_began
from zoo.gym.train.run_folder.settings import change_settings, stored_settings


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    turns = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return path


def state() -> tuple[int, list[int]]:
    return torch.get_num_threads(), torch.get_rng_state().tolist()


@pytest.mark.slow
def test_dir_and_help_show_the_public_names() -> None:
    assert dir(zoo.gym) == sorted(zoo.gym.__all__)
    page = pydoc.plain(pydoc.render_doc(zoo.gym))
    for name in zoo.gym.__all__:
        assert getattr(zoo.gym, name).__doc__ or name == "__version__"
        assert name in page or name == "__version__"


@pytest.mark.parametrize("module", [zoo.gym, zoo.gym.quantization, zoo.gym.personalization])
def test_a_module_has_the_names_that_it_lists_and_no_other(module: ModuleType) -> None:
    assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "nothing")


@pytest.mark.slow
def test_a_training_and_a_chat_leave_threads_and_random_state_alone(rows: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    before = state()
    config: Any = {"model_name_or_path": "zen-pico", "dataset": rows, "max_steps": 1}
    result = run_training(TrainConfig(**config))
    assert state() == before
    with open_chat("zen-pico", adapter=result.model) as session:
        assert state() == before
        session.answer("Say 1.")
        assert state() == before
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_prompts_are_answered_each_by_itself() -> None:
    first, second, again = generate("zen-pico", ["one", "two", "one"], max_new_tokens=4)
    assert first == again
    with open_chat("zen-pico", max_new_tokens=4) as session:
        assert [session.answer("one"), session.answer("two")] == [first, second]


@pytest.mark.parametrize("prompts", ["one", 3, ["one", 2]])
def test_prompts_of_another_type_are_refused(prompts: Any) -> None:
    with pytest.raises(InputError, match="prompts: expected"):
        generate("zen-pico", prompts)


@pytest.mark.slow
def test_a_delta_is_measured_on_the_rows_that_a_run_held_out(rows: Path, tmp_path: Path) -> None:
    config: Any = {"model_name_or_path": "zen-pico", "dataset": rows, "max_steps": 1}
    result = run_training(TrainConfig(**config))
    quality = quality_input(base="zen-pico", run=result.run)
    assert (len(quality.examples), quality.held_out) == (2, True)
    report = create_delta(
        result.model,
        base="zen-pico",
        base_id="zen-pico",
        out=tmp_path / "d.safetensors",
        config=DeltaConfig(),
        quality=quality,
    )
    assert report.quality is not None
    with raises("published.nothing_to_measure"):
        quality_input(base="zen-pico")


def in_memory(count: int, system: str = "") -> list[dict[str, Any]]:
    head = [{"role": "system", "content": system}] if system else []
    return [
        {
            "messages": [
                *head,
                {"role": "user", "content": f"Say {n}."},
                {"role": "assistant", "content": f"It is {n}."},
            ]
        }
        for n in range(count)
    ]


def settings(dataset: object, **more: Any) -> TrainConfig:
    given: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": dataset, "max_steps": 1}
    return TrainConfig(**(given | more))


def rows_learned(config: TrainConfig) -> int:
    result = run_training(config)
    lines = (result.folder / "events.jsonl").read_text().splitlines()
    plan = next(event for event in map(json.loads, lines) if event["kind"] == "plan")
    return int(plan["rows"] + plan["held_out_rows"])


@pytest.mark.slow
def test_a_copy_with_other_data_learns_the_other_data(rows: Path) -> None:
    given = settings(in_memory(7))
    assert rows_learned(given.model_copy(update={"dataset": (str(rows),)})) == 20
    assert rows_learned(settings(rows).model_copy(update={"dataset": in_memory(9)})) == 9
    assert rows_learned(given.model_copy(update={"seed": 1})) == 7


def test_rows_that_change_after_the_settings_were_made_are_learned_as_they_were(
    rows: Path,
) -> None:
    del rows
    mine = in_memory(5)
    config = settings(mine)
    mine[0]["messages"][1]["content"] = "changed"
    assert config.rows[0]["messages"][1]["content"] == "It is 0."  # type: ignore[index]


def test_a_row_that_is_not_unicode_is_refused_by_its_number(rows: Path) -> None:
    del rows
    bad = in_memory(2)
    bad[1]["messages"][0]["content"] = "\ud800"
    with raises("published.bad_rows", "dataset: row 2"):
        run_training(settings(bad))


@pytest.mark.slow
def test_answers_begin_with_the_system_prompt_of_the_training(rows: Path) -> None:
    del rows
    result = run_training(settings(in_memory(12, "You are Bob."), max_steps=2))
    with (
        open_chat("zen-pico", adapter=result.model) as found,
        open_chat("zen-pico", adapter=result.model, system="") as none,
    ):
        assert (found.system, none.system) == ("You are Bob.", "")


@pytest.mark.slow
def test_without_evaluation_there_is_no_best_step(rows: Path) -> None:
    result = run_training(settings(rows, val_size=0))
    assert (result.metrics["best_step"], result.metrics["best_loss"]) == (None, None)


@pytest.mark.slow
def test_rows_of_python_move_with_the_home_of_their_run(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    run = run_training(settings(in_memory(12), save_steps=1)).run
    (tmp_path / "home").rename(tmp_path / "moved")
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "moved"))
    measured = quality_input(base="zen-pico", run=run)
    assert (len(measured.examples), measured.held_out) == (1, True)
    found = open_run(run)
    config = stored_settings(found.config_file, found.env_file)
    assert config.dataset == (str(found.rows_file),)
    check_as_began(found.env_file)
    changed = change_settings(found.config_file, found.env_file, ["max_steps=2"], newest_step=1)
    assert changed == {"max_steps": (1, 2)}


def test_a_folder_of_data_is_refused_if_no_file_is_read_from_it(rows: Path) -> None:
    with raises("train.no_effect"):
        run_training(settings(rows, dataset_dir="anywhere"))


def test_columns_of_rows_that_do_not_exist_are_refused_before_there_is_a_run() -> None:
    with raises("published.invalid", "dataset: columns: no column 'say': expected one of 'm"):
        run_training(settings(in_memory(3), columns={"text": "say"}))


def test_a_folder_of_data_is_refused_next_to_rows() -> None:
    with raises("config.invalid", "dataset_dir: has no effect on rows"):
        settings(in_memory(3), dataset_dir="anywhere")
