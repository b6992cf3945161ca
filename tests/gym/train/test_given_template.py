"""A run's own chat template: refused where it lacks, and used wherever its result is."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.codes import raises
from tests.gym.chat.test_form import without_template
from zoo.gym import GymWarning, TrainConfig, open_chat, run_training
from zoo.gym.cli.print_config import MOST_BYTES
from zoo.gym.data import load_tokenizer
from zoo.gym.data.own_tokenizer import own_in, own_parts
from zoo.gym.data.templates import TEMPLATES
from zoo.gym.delta import apply_delta, create_delta
from zoo.gym.jobs import run_folders
from zoo.gym.jobs.run import open_run
from zoo.gym.retention.answer import Asker
from zoo.gym.train.measuring import rows_of_run
from zoo.gym.train.rows import check_rows, prepare_rows
from zoo.gym.train.run_folder.settings import read_env, read_settings

CHATS = [
    {"messages": [{"role": "user", "content": f"Say {n}."}, {"role": "assistant", "content": "a"}]}
    for n in range(8)
]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return without_template(tmp_path / "base")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in CHATS))
    return file


def settings(base: Path, dataset: Any, **more: Any) -> TrainConfig:
    given = {"max_steps": 2, "date": "2026-01-01", **more}
    return TrainConfig(model_name_or_path=str(base), dataset=dataset, **given)


def test_chats_without_a_template_are_refused_before_a_run(base: Path) -> None:
    with raises("published.invalid", "dataset: row 1") as refused:
        run_training(settings(base, CHATS))
    assert "template=chatml" in str(refused.value.hint)
    assert list(run_folders()) == []


@pytest.mark.parametrize("late", [0, 1])
def test_each_row_is_looked_at_and_of_large_data_the_first(
    base: Path, tmp_path: Path, late: int
) -> None:
    plain = json.dumps({"prompt": "a", "completion": "b"}) + "\n"
    file = tmp_path / "mixed.jsonl"
    file.write_text(plain * late + json.dumps(CHATS[0]) + "\n")
    with raises("data.no_chat_template"):
        check_rows(settings(base, str(file)), base, [file])
    check_rows(settings(base, str(file), template="chatml"), base, [file])
    with file.open("a") as more:
        more.write(" " * MOST_BYTES + "\n")
    if late:
        check_rows(settings(base, str(file)), base, [file])
        return
    with raises("data.no_chat_template"):
        check_rows(settings(base, str(file)), base, [file])


def test_answers_to_compare_are_looked_at(base: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    row = {"chosen": [turns[0], turns[1]], "rejected": [turns[0], {**turns[1], "content": "c"}]}
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(row) + "\n")
    with raises("data.no_chat_template"):
        check_rows(settings(base, str(file), stage="dpo"), base, [file])


def test_rows_are_read_in_the_given_template(base: Path, rows: Path) -> None:
    learned = prepare_rows(settings(base, str(rows), template="phi"), base)
    ids = learned.train[0].rows[0].ids.tolist()
    assert load_tokenizer(base).decode(ids).startswith("<|user|>\nSay")
    assert "<|assistant|>" in learned.tokenizer["chat_template"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*its own chat template")
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_the_template_goes_with_the_result_and_the_delta(
    base: Path, rows: Path, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(TEMPLATES["chatml"] + "{# mine #}")
    config = settings(base, str(rows), template=str(file), finetuning_type=kind)
    result = run_training(config)
    env = read_env(result.folder / "env.json")
    text = own_in(env)["chat_template"]
    assert text == file.read_text()
    file.unlink()  # from here on it is in the run, its result and its deltas
    assert own_parts(base, result.model) == own_in(env)
    assert cast("Any", load_tokenizer(result.model)).chat_template == text
    assert str(tmp_path) not in (result.model / "README.md").read_text()
    stored = read_settings(result.folder / "config.yaml")
    assert rows_of_run(result.folder, stored, base).examples
    delta = create_delta(result.model, base=base, out=tmp_path / "mine.safetensors").file
    rebuilt = apply_delta(delta, base=base, out=tmp_path / "rebuilt").folder
    tuned: list[tuple[Path, dict[str, Any]]] = [(base, {"delta": delta}), (rebuilt, {})]
    tuned.append((base, {"adapter": result.model}) if kind == "lora" else (result.model, {}))
    for folder, on_top in tuned:
        with open_chat(folder, **on_top) as chat:
            assert chat.tokenizer.chat_template == text
    assert Asker(None, base, own_in(env)).tokenizer.chat_template == text  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_given_template_counts_before_that_of_the_model() -> None:
    noticed = pytest.warns(GymWarning, match="template: chatml is used")
    with noticed, open_chat("zen-pico", template="chatml") as chat:
        assert chat.tokenizer.chat_template == TEMPLATES["chatml"]
        assert chat.answer("Hi") is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_a_run_does_not_go_on_with_a_changed_file(base: Path, rows: Path, tmp_path: Path) -> None:
    from zoo.gym.train.run_folder.other_files import check_same_files

    file = tmp_path / "mine.jinja"
    file.write_text(TEMPLATES["chatml"])
    result = run_training(settings(base, str(rows), template=str(file)))
    run = open_run(result.run)
    stored = read_settings(run.config_file)
    check_same_files(run.env_file, stored)
    file.write_text(TEMPLATES["phi"])
    with raises("train.file_changed", "template"):
        check_same_files(run.env_file, stored)
