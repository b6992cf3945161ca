"""What a session checks before it trains."""

import json
from pathlib import Path

import pytest

from zoo.gym.config import TrainConfig
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.train.start import check_same_data, remembered


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / "env.json"
    path.write_text("{}")
    return path


def test_a_number_chosen_once_is_used_again(env_file: Path) -> None:
    answers = iter((3, 1))
    assert remembered(env_file, "threads", lambda: next(answers)) == 3
    assert remembered(env_file, "threads", lambda: next(answers)) == 3
    assert json.loads(env_file.read_text()) == {"threads": 3}


def test_a_resumed_run_refuses_other_data(env_file: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "one"}\n')
    config = TrainConfig(model_name_or_path="zen-pico", dataset=(str(rows),))
    check_same_data(env_file, config)
    check_same_data(env_file, config)
    rows.write_text('{"text": "two"}\n')
    with pytest.raises(InputError, match="changed since the run began"):
        check_same_data(env_file, config)


def test_a_resumed_run_whose_data_is_gone_says_so(env_file: Path, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.jsonl")
    config = TrainConfig(model_name_or_path="zen-pico", dataset=(gone,))
    with pytest.raises(NotAvailableError, match="expected the data that the run began with"):
        check_same_data(env_file, config)
