"""What `zoo.gym` shows a new user, and what its functions leave behind in the caller's program."""

import json
import pydoc
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo.gym
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


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    turns = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return path


def state() -> tuple[int, list[int]]:
    return torch.get_num_threads(), torch.get_rng_state().tolist()


def test_dir_and_help_show_the_public_names() -> None:
    assert dir(zoo.gym) == sorted(zoo.gym.__all__)
    page = pydoc.plain(pydoc.render_doc(zoo.gym))
    for name in zoo.gym.__all__:
        assert getattr(zoo.gym, name).__doc__ or name == "__version__"
        assert name in page or name == "__version__"


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


def test_prompts_are_answered_each_by_itself() -> None:
    first, second, again = generate("zen-pico", ["one", "two", "one"], max_new_tokens=4)
    assert first == again
    with open_chat("zen-pico", max_new_tokens=4) as session:
        assert [session.answer("one"), session.answer("two")] == [first, second]


@pytest.mark.parametrize("prompts", ["one", 3, ["one", 2]])
def test_prompts_of_another_type_are_refused(prompts: Any) -> None:
    with pytest.raises(InputError, match="prompts: expected"):
        generate("zen-pico", prompts)


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
    with pytest.raises(InputError, match="expected files of examples or a run, got neither"):
        quality_input(base="zen-pico")
