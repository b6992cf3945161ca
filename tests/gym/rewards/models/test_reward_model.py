"""Reward models: any sequence classification folder with one label."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from tests.gym.rewards.models.folders import write_reward_model
from zoo.gym.data import Call, Message
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rewards import Sample, Task, load
from zoo.models import pico_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reward_model(tmp_path_factory.mktemp("models") / "reward-model")


def reference_score(folder: Path, messages: list[dict[str, str]]) -> float:
    """What transformers computes for the chat as its template renders it."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return float(model(input_ids=ids).logits[0, 0])


@pytest.mark.slow
def test_scores_are_those_of_transformers(folder: Path) -> None:
    with load(str(folder), [task()]) as reward:
        assert reward.name == "reward-model"
        scores = [score.value for score in reward.score([sample("5"), sample("six")])]
    chats = [
        [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": text}]
        for text in ("5", "six")
    ]
    assert scores == pytest.approx([reference_score(folder, chat) for chat in chats], abs=1e-5)
    assert scores[0] != scores[1]


@pytest.mark.slow
def test_a_conversation_is_scored_as_a_whole(folder: Path) -> None:
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    with load({str(folder): 2.0}, []) as reward:
        value = reward.score([Sample(Task(turns), "d")])[0].value
    chat = [{"role": turn.role, "content": turn.content} for turn in turns]
    expected = reference_score(folder, [*chat, {"role": "assistant", "content": "d"}])
    assert value == pytest.approx(2 * expected, abs=1e-5)


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    "turns",
    [
        (Message("user", "a"),),
        (Message("user", "a"), Message("assistant", "", calls=(Call("f"),)), Message("user", "b")),
    ],
)
def test_tools_that_the_template_of_the_reward_model_lacks_give_no_reward(
    folder: Path, turns: tuple[Message, ...]
) -> None:
    with load(str(folder), []) as reward:
        [score] = reward.score([Sample(Task(turns, tools=[TOOL]), "d")])
    assert score.failed
    assert "the chat template leaves out the tools" in score.reason


def test_what_is_too_long_for_the_model_has_no_reward(folder: Path) -> None:
    with load(str(folder), []) as reward:
        scores = reward.score([sample("5 " * 5000), sample("5")])
    assert [score.failed for score in scores] == [True, False]
    assert "the reward model reads at most" in scores[0].reason


def changed(folder: Path, path: Path, **fields: object) -> Path:
    shutil.copytree(folder, path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | fields))
    return path


def test_a_model_with_more_labels_is_refused(folder: Path, tmp_path: Path) -> None:
    labels = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    path = changed(folder, tmp_path / "two", num_labels=2, **labels)
    with pytest.raises(InputError, match="num_labels: expected a reward model with 1 label, got 2"):
        load(str(path), [])


def test_a_language_model_is_no_reward_model() -> None:
    with pytest.raises(InputError, match="architectures: expected a model for sequence"):
        load(str(pico_folder()), [])


def test_a_language_model_that_claims_to_be_one_lacks_its_head(tmp_path: Path) -> None:
    names = ["Qwen3ForSequenceClassification"]
    labels = {"id2label": {"0": "a"}, "label2id": {"a": 0}}
    path = changed(pico_folder(), tmp_path / "no-head", architectures=names, **labels)
    with pytest.raises(InputError, match=r"missing, the first is 'score\.weight'"):
        load(str(path), [])


def test_a_model_that_is_not_here_is_refused_by_name() -> None:
    with pytest.raises(NotAvailableError):
        load("zenlm/zen-reward-model", [])


def test_a_file_without_a_function_is_refused() -> None:
    with raises("config.bad_reward", r"expected rewards/my\.py:function"):
        load("rewards/my.py", [])
